"""What a folder of networks tells of files that can't be published, also of those that change meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import problem
from towpath_embedded.network_folder import NetworkFolderPublisher

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
