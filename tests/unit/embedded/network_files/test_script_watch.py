"""What `towpath up` tells of the scripts that its networks play, as soon as one is saved."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from towpath_contracts.base import JsonObject
from towpath_embedded.console import UpConsole
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.network_files.script_watch import SCRIPT_FOLDER, ScriptWatch, script_folder
from towpath_embedded.refused_files import RefusedFiles

DESK: JsonObject = {"name": "desk", "model": "scripted:desk", "agents": [{"key": "clerk"}, {"key": "lead"}]}


class Told:
    """What a watch of the folder told, in order."""

    def __init__(self, folder: Path) -> None:
        self.refused: list[tuple[str, list[str]]] = []
        self.notices: list[str] = []
        self.watch = ScriptWatch(folder, self._refuse, self.notices.append)

    def _refuse(self, file: str, faults: Sequence[str]) -> None:
        self.refused.append((Path(file).name, list(faults)))

    def after_look(self, *specs: JsonObject) -> list[tuple[str, list[str]]]:
        """Return what this look refuses or finds mended."""
        before = len(self.refused)
        self.watch.look(specs)
        return self.refused[before:]


def save(path: Path, text: str) -> None:
    """Write *path* at another time than before, however soon that is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_script_that_is_saved_broken_is_told_with_its_line_once_and_so_is_that_it_is_mended(tmp_path: Path) -> None:
    file, told = tmp_path / "desk.json", Told(tmp_path)
    save(file, '[{"action": "RESPOND", "action_details": {"payload": "done"}}]')
    assert told.after_look(DESK) == []
    save(file, '[\n  {"action": "RESPOND"}\n  {}\n]')
    ((name, faults),) = told.after_look(DESK)
    assert name == "desk.json" and faults[0].startswith(f"{file}:3: not JSON: a comma is missing there")
    assert told.after_look(DESK) == [] and told.notices == []
    save(file, '{"action": "RESPOND"}')
    ((_, faults),) = told.after_look(DESK)
    assert faults[0].startswith(f"{file}:1: a script is a list of decisions")
    save(file, '[{"action": "RESPOND", "action_details": {"payload": "done"}}]')
    assert told.after_look(DESK) == [("desk.json", [])]
    assert told.notices == ["desk.json: the script can be played again"]


def test_what_is_odd_in_a_script_is_told_when_it_is_saved_and_once(tmp_path: Path) -> None:
    file, told = tmp_path / "desk.json", Told(tmp_path)
    save(file, '[{"agent": "clrek", "action": "RESPOND", "action_detials": {}}, {"agent": "lead", "action": "ROUTE"}]')
    assert told.after_look(DESK) == [], "it can be played"
    first, second, third = told.notices
    assert first == f"{file}:1: entry 1 of 2: no decision has action_detials; did you mean action_details?"
    assert second == f"{file}:1: entry 1 of 2: no agent clrek plays this script; did you mean clerk?"
    assert third.startswith(f"{file}:1: entry 2 of 2: no action is called ROUTE")
    assert told.after_look(DESK) == [] and len(told.notices) == 3


def test_a_script_that_is_not_there_is_told_with_who_plays_it_and_which_one_may_be_meant(tmp_path: Path) -> None:
    told = Told(tmp_path)
    save(tmp_path / "desks.json", "[]")
    ((_, faults),) = told.after_look(DESK)
    assert faults == [
        f"{tmp_path / 'desk.json'} is not there, and clerk, lead play scripted:desk; did you mean scripted:desks?"
    ]
    assert told.after_look({**DESK, "model": "scripted:desks"}) == [("desk.json", [])], "nothing plays it any more"


def test_models_that_play_no_file_are_not_looked_for_and_a_tasks_own_script_is_hinted_at_once(tmp_path: Path) -> None:
    told = Told(tmp_path)
    listed = {"key": "lead", "model": ["gemini:gemini-2.5-flash", "scripted:spare"]}
    own: JsonObject = {"name": "own", "agents": [{"key": "clerk"}, listed]}
    ((name, _),) = told.after_look(own, {"name": "paid", "model": "openai:gpt-5", "agents": [{"key": "a"}]})
    assert name == "spare.json" and told.after_look(own) == []
    (hint,) = told.notices
    assert hint.startswith("own: clerk plays the script of each task") and "towpath run own" in hint
    assert "--script FILE" in hint


@pytest.mark.parametrize(
    ("content", "said"), [(b"\n\xff", ":2: this is not UTF-8"), (b"", ":1: not JSON: it is empty")]
)
def test_a_script_that_is_no_text_or_empty_is_told(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "desk.json").write_bytes(content)
    ((_, faults),) = Told(tmp_path).after_look(DESK)
    assert said in faults[0]


def test_scripts_lie_beside_the_networks_unless_the_environment_names_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SCRIPT_FOLDER, raising=False)
    file = tmp_path / "desk.yaml"
    file.write_text("kind: Network\n")
    assert script_folder(tmp_path) == script_folder(file) == tmp_path
    monkeypatch.setenv(SCRIPT_FOLDER, "/elsewhere")
    assert script_folder(tmp_path) == Path("/elsewhere")


async def test_the_scripts_are_looked_at_as_often_as_the_networks(tmp_path: Path) -> None:
    class Gateway(NetworkFolderPublisher):
        async def _post(self, body: JsonObject) -> tuple[int, JsonObject]:
            return 200, {"name": body["spec"]["name"], "version": 1}

    told = Told(tmp_path)
    (tmp_path / "desk.yaml").write_text("kind: Network\nname: desk\nmodel: scripted:desk\nagents:\n  - key: clerk\n")
    save(tmp_path / "desk.json", "[]")
    folder = Gateway(tmp_path, "", [].append, scripts=told.watch)
    await folder.publish_changed()
    assert told.refused == []
    save(tmp_path / "desk.json", "[")
    await folder.publish_changed()
    assert told.refused[0][1][0].startswith(f"{tmp_path / 'desk.json'}:1: not JSON")


@pytest.mark.parametrize(
    ("file", "is_script", "told"),
    [
        ("desk.json", True, "desk.json can't be played, and runs that ask for it fail. Mend it"),
        ("desk.txt", True, "desk.txt can't be played, and runs that ask for it fail. Mend it"),
        ("policy.json", False, "policy.json was refused, and what was in force before stays. Mend it"),
    ],
)
def test_what_is_shown_of_a_script_says_that_runs_fail_and_of_another_file_that_the_former_stays(
    file: str, is_script: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = RefusedFiles(UpConsole(as_json=False).refused, lambda _: None)
    files.put_new("new.yaml", ["new.yaml:1: not YAML"])
    assert "new.yaml was refused. Mend it and save it:" in capsys.readouterr().out
    (files.put_script if is_script else files.put)(file, [f"{file}:1: not JSON"])
    assert told in capsys.readouterr().out
