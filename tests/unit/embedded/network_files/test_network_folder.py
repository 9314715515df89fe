"""What a folder of networks tells of files that can't be published, also of those that change meanwhile."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import problem
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher

NETWORK = "kind: Network\nname: desk\nmodel: scripted:task\nagents: []\n"


async def test_what_was_wrong_with_a_file_is_over_once_it_is_gone_or_no_network(tmp_path: Path) -> None:
    kept: dict[str, list[str]] = {}
    changes: list[str] = []

    def keep(file: str, faults: Sequence[str]) -> None:
        changes.append(Path(file).name)
        kept[Path(file).name] = list(faults)

    gone, other = tmp_path / "gone.yaml", tmp_path / "other.yaml"
    gone.write_text("name: [")
    other.write_text("name: [")
    (tmp_path / "policy.yaml").write_text("kind: Policy\nrules: []\n")
    folder = NetworkFolderPublisher(tmp_path, "http://127.0.0.1:1", [].append, refused=keep)
    await folder.publish_changed()
    assert sorted(kept) == ["gone.yaml", "other.yaml"] and all(kept.values())
    moved = gone.rename(tmp_path / "gone.txt")
    other.write_text("kind: Policy\nrules: []\n")
    await folder.publish_changed()
    assert kept == {"gone.yaml": [], "other.yaml": []}
    await folder.publish_changed()
    assert len(changes) == 4
    moved.rename(gone)  # with the time that it had
    await folder.publish_changed()
    assert kept["gone.yaml"]


async def test_a_faulty_file_that_is_removed_right_after_a_reload_is_no_longer_refused(tmp_path: Path) -> None:
    kept: dict[str, list[str]] = {}
    file = tmp_path / "desk.yaml"
    file.write_text("name: [")
    folder = NetworkFolderPublisher(
        tmp_path, "http://127.0.0.1:1", [].append, refused=lambda path, faults: kept.update({path: list(faults)})
    )
    await folder.publish_changed()
    assert kept[str(file)]
    folder.publish_again()
    file.unlink()
    await folder.publish_changed()
    assert kept == {str(file): []}
    kept.clear()
    folder.publish_again()
    await folder.publish_changed()
    assert kept == {}, "what is gone is told once"


@pytest.mark.parametrize("meanwhile", ["name: [", None])
async def test_a_file_that_changes_while_it_is_refused_does_not_end_the_watch(
    tmp_path: Path, meanwhile: str | None
) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(NETWORK)
    told: list[str] = []

    class Refusing(NetworkFolderPublisher):
        async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
            file.unlink() if meanwhile is None else file.write_text(meanwhile)
            errors = [{"pointer": "/name", "code": "name", "detail": "the name is taken"}]
            return 422, {**problem("network_invalid", "1 problem").model_dump(mode="json"), "errors": errors}

    await Refusing(tmp_path, "http://127.0.0.1:1", told.append).publish_changed()
    assert told == [f"desk.yaml: not published. {file}: the name is taken"]


class Gateway(NetworkFolderPublisher):
    """Publishes version after version, but for networks whose text names a tool that is not in *tools*."""

    tools: tuple[str, ...] = ("orders.find",)
    posts = 0

    async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
        self.posts += 1
        unknown = {name for agent in body["spec"]["agents"] for name in agent["equipped_tools"]} - {*self.tools}
        if not unknown:
            return 200, {"name": body["spec"]["name"], "version": self.posts}
        detail = f"clerk is equipped with {min(unknown)}, which nobody registered"
        errors = [{"pointer": "/agents/0/equipped_tools/0", "code": "tool_unknown", "detail": detail}]
        return 422, {**problem("network_invalid", detail).model_dump(mode="json"), "errors": errors}


def write_desk(folder: Path, tool: str) -> Path:
    file = folder / "desk.yaml"
    file.write_text(f"kind: Network\nname: desk\nagents:\n  - key: clerk\n    equipped_tools: [{tool}]\n")
    return file


async def test_a_network_of_an_earlier_start_whose_file_is_refused_now_is_counted_as_one_that_stays(
    tmp_path: Path,
) -> None:
    memory = tmp_path / "published.json"
    write_desk(tmp_path, "orders.find")
    assert await Gateway(tmp_path, "", print, memory=memory).publish_changed()
    write_desk(tmp_path, "orders.fnd")
    folder = Gateway(tmp_path, "", print, memory=memory)
    assert not await folder.publish_changed()
    assert folder.counts() == {"networks": 0, "agents": 0, "tools": 0, "stayed": 1}


async def test_a_misspelt_tool_is_refused_at_the_first_look_and_the_version_that_stays_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    file = write_desk(tmp_path, "orders.find")
    folder = Gateway(tmp_path, "", told.append)
    assert await folder.publish_changed()
    write_desk(tmp_path, "orders.fnd")
    assert not await folder.publish_changed()
    refusal = f"desk.yaml: not published. {file}:5: clerk is equipped with orders.fnd, which nobody registered"
    assert told == ["desk.yaml: network desk version 1", refusal, "desk.yaml: runs of desk go on with version 1"]
    assert folder.posts == 2, "a person waits for the answer"
    assert folder.counts() == {"networks": 1, "agents": 1, "tools": 1, "stayed": 0}
    file.write_text("name: [")
    await folder.publish_changed()
    assert told[-1] == "desk.yaml: runs of desk go on with version 1", "also where the file can't be read"
    for _ in range(2):
        write_desk(tmp_path, "orders.find")
        await folder.publish_changed()
    assert told[-2:] == ["desk.yaml: network desk version 3, in force again", "desk.yaml: network desk version 4"]


async def test_a_network_is_published_once_its_tool_has_come_and_its_refusal_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    write_desk(tmp_path, "orders.find")
    folder = Gateway(tmp_path, "", told.append)
    folder.tools = ()
    for _ in range(3):
        assert not await folder.publish_changed()
    assert len(told) == 1 and "nobody registered" in told[0], "none was published before, so none goes on"
    folder.tools = ("orders.find",)
    assert await folder.publish_changed()
    assert told[1:] == ["desk.yaml: network desk version 4"]
    assert not await folder.publish_changed()
    assert folder.posts == 4, "what is published is left alone"


async def test_a_tool_that_has_not_come_in_time_is_not_looked_for_any_more(tmp_path: Path) -> None:
    write_desk(tmp_path, "orders.fnd")
    folder = Gateway(tmp_path, "", [].append)
    await folder.publish_changed()
    folder._tried_until = dict.fromkeys(folder._tried_until, 0.0)  # as after the time for it
    await folder.publish_changed()
    assert folder.posts == 1


async def test_a_start_with_servers_whose_tools_come_late_waits_for_them(tmp_path: Path) -> None:
    told: list[str] = []
    write_desk(tmp_path, "orders.find")

    class Slow(Gateway):
        async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
            self.tools = ("orders.find",) if self.posts else ()
            return await super()._post(body)

    folder = Slow(tmp_path, "", told.append, awaits_tools=True)
    assert await folder.publish_changed()
    assert told == ["desk.yaml: network desk version 2"]


async def test_who_watches_hears_of_each_publication(tmp_path: Path) -> None:
    write_desk(tmp_path, "orders.find")
    folder = Gateway(tmp_path, "", [].append)
    heard = asyncio.Event()

    async def published() -> None:
        heard.set()

    watching = asyncio.create_task(folder.watch(published))
    await asyncio.wait_for(heard.wait(), 60)
    watching.cancel()
    assert folder.posts == 1


async def test_a_network_that_no_file_has_any_more_is_told_to_stay(tmp_path: Path) -> None:
    told: list[str] = []
    file = write_desk(tmp_path, "orders.find")
    folder = Gateway(tmp_path, "", told.append)
    await folder.publish_changed()
    file.write_text(file.read_text().replace("name: desk", "name: counter"))
    await folder.publish_changed()
    left = "desk stays published as version 1, and can be run"
    assert told[1:] == ["desk.yaml: network counter version 2", f"desk.yaml has another network now; {left}"]
    write_desk(tmp_path, "orders.find").rename(tmp_path / "other.yaml")
    await folder.publish_changed()
    (tmp_path / "other.yaml").unlink()
    await folder.publish_changed()
    await folder.publish_changed()
    gone = [
        "desk.yaml is gone; counter stays published as version 2, and can be run",
        "other.yaml: network desk version 3",
    ]
    assert told[3:] == [*gone, "other.yaml is gone; desk stays published as version 3, and can be run"]


async def test_a_file_whose_name_another_file_has_is_refused_until_the_name_is_free(tmp_path: Path) -> None:
    told: list[str] = []
    kept: dict[str, list[str]] = {}
    hotel, spa = write_desk(tmp_path, "orders.find"), tmp_path / "spa.yaml"
    spa.write_text("# a copy\n" + hotel.read_text())
    folder = Gateway(tmp_path, "", told.append, refused=lambda path, faults: kept.update({Path(path).name: [*faults]}))
    await folder.publish_changed()
    refusal = [f"{spa}:3: network desk is declared by desk.yaml already; give it another name"]
    assert kept == {"spa.yaml": refusal}, "at the start the first file by its name has it"
    earlier = tmp_path / "annex.yaml"
    earlier.write_text(hotel.read_text())
    await folder.publish_changed()
    assert kept["annex.yaml"] and folder.posts == 1, "while it is up the file that is saved later"
    earlier.unlink()
    spa.write_text(spa.read_text().replace("desk", "spa"))
    await folder.publish_changed()
    assert kept == {"annex.yaml": [], "spa.yaml": []}
    assert told == ["desk.yaml: network desk version 1", "spa.yaml: network spa version 2"]
    spa.write_text(hotel.read_text())
    await folder.publish_changed()
    assert told[2:] == ["spa.yaml has another network now; spa stays published as version 2, and can be run"]
    hotel.write_text("kind: Policy\nrules: []\n")
    await folder.publish_changed()
    await folder.publish_changed()
    assert told[-1] == "spa.yaml: network desk version 3", "the name is free"
    assert kept["spa.yaml"] == [] and folder.posts == 3


async def test_what_else_is_wrong_with_a_file_is_told_once_its_name_is_free(tmp_path: Path) -> None:
    kept: list[list[str]] = []
    first, second = write_desk(tmp_path, "orders.find"), tmp_path / "second.yaml"
    second.write_text(first.read_text().replace("find", "fnd"))
    folder = Gateway(tmp_path, "", [].append, refused=lambda _, faults: kept.append([*faults]))
    await folder.publish_changed()
    first.unlink()
    await folder.publish_changed()
    assert "nobody registered" in kept[-1][0]


async def test_files_that_name_no_network_are_each_told_so_by_the_gateway(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("kind: Network\nagents: []\n")

    class Counting(NetworkFolderPublisher):
        posts = 0

        async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
            self.posts += 1
            return 422, problem("network_invalid", "it has no name").model_dump(mode="json")

    folder = Counting(tmp_path, "", [].append)
    await folder.publish_changed()
    assert folder.posts == 2


async def test_new_tools_have_a_network_published_again_and_only_what_is_new_of_it_is_told(tmp_path: Path) -> None:
    told: list[str] = []

    class Compiling(Gateway):
        version = 1

        async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
            status, answer = await super()._post(body)
            return status, answer if status != 200 else {**answer, "version": self.version}

    write_desk(tmp_path, "orders.find")
    other = tmp_path / "mail.yaml"
    other.write_text("kind: Network\nname: mail\nagents:\n  - key: clerk\n    equipped_tools: [mail.send]\n")
    folder = Compiling(tmp_path, "", told.append)
    await folder.publish_changed()
    published, refused = "desk.yaml: network desk version 1", "mail.yaml: not published. "
    assert sorted(line.partition(str(tmp_path))[0] for line in told) == [published, refused]
    folder.tools_changed()
    assert await folder.publish_changed()
    assert (len(told), folder.posts) == (2, 4)
    folder.version = 2
    folder.tools = ("orders.find", "mail.send")
    folder.tools_changed()
    assert await folder.publish_changed()
    assert told[2:] == ["desk.yaml: network desk version 2", "mail.yaml: network mail version 2"]
