"""What `towpath networks validate` says of the scripts beside a network."""

import json
from pathlib import Path

import pytest

from towpath.cli.definitions.networks_commands import _check_form, _each_once
from towpath.cli.shared.input_files import MAX_BYTES
from towpath.errors import RefusedError
from towpath.networks.script_file import ScriptFile
from towpath.networks.script_files import MAX_DOUBTS, script_doubts
from towpath_contracts.base import JsonObject
from towpath_decider.adapters.script_source import FileScriptSource, ScriptLoadError


def write_desk(folder: Path, model: str = "scripted:desk") -> Path:
    file = folder / "desk.yaml"
    file.write_text(
        f"kind: Network\nname: desk\nmodel: {model}\n"
        "agents:\n  - key: clerk\n    is_default: true\n    allow_respond: true\n    prompt_template: You answer.\n"
    )
    return file


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[\n  {"action": "RESPOND"}\n  {}\n]', ":3: not JSON: a comma is missing there"),
        ('{"action": "RESPOND"}', ":1: a script is a list of decisions"),
    ],
)
def test_a_broken_script_is_refused_with_its_line(script: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "desk.json").write_text(script)
    with pytest.raises(RefusedError) as caught:
        _check_form(write_desk(tmp_path))
    found = caught.value.problem
    assert (found.code, f"{tmp_path / 'desk.json'}{said}" in found.errors[0].detail) == ("script_odd", True)
    assert "Correct the script" in found.remedy


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[{"action": "RESPOND", "text": "\\ud800"}]', "desk.json: not JSON: "),
        ("[" * 300 + "]" * 300, "desk.json: not JSON: recursion limit exceeded"),
    ],
)
def test_what_a_decider_can_not_read_is_refused_though_other_parsers_take_it(
    script: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "desk.json").write_text(script)
    with pytest.raises(ScriptLoadError):
        FileScriptSource(tmp_path).get("desk")
    with pytest.raises(RefusedError) as caught:
        _check_form(write_desk(tmp_path))
    assert said in caught.value.problem.detail


def test_a_script_outside_of_the_folder_is_refused_as_a_decider_does(tmp_path: Path) -> None:
    (tmp_path / "desk.json").write_text("[]")
    folder = tmp_path / "networks"
    folder.mkdir()
    with pytest.raises(ScriptLoadError):
        FileScriptSource(folder).get("../desk")
    with pytest.raises(RefusedError) as caught:
        _check_form(write_desk(folder, "scripted:../desk"))
    assert f"is outside of {folder}" in caught.value.problem.detail


def test_a_script_as_large_as_a_decider_reads_is_looked_at_whole(tmp_path: Path) -> None:
    odd = {"action": "REPLY", "action_reasoning": "x" * (MAX_BYTES + 1)}
    (tmp_path / "desk.json").write_text(json.dumps([odd]))
    assert len(FileScriptSource(tmp_path).get("desk")) == 1
    (note,) = _check_form(write_desk(tmp_path))
    assert f"{tmp_path / 'desk.json'}:1: no action is called REPLY" in note


def test_what_a_run_may_lack_is_a_note(tmp_path: Path) -> None:
    (note,) = _check_form(write_desk(tmp_path))
    assert note == f"{tmp_path / 'desk.json'} is not there, and clerk plays scripted:desk"
    (note,) = _check_form(write_desk(tmp_path, "scripted:task"))
    assert note.startswith("desk: clerk plays the script of each task, and without one a run fails")
    assert _check_form(write_desk(tmp_path, "gemini:gemini-2.5-flash")) == []


def test_odd_entries_of_a_script_are_notes(tmp_path: Path) -> None:
    script = tmp_path / "desk.json"
    script.write_text('[{"action": "REPLY"}]')
    (note,) = _check_form(write_desk(tmp_path))
    assert note.startswith(f"{script}:1: no action is called REPLY")
    script.write_text('[{"action": "RESPOND", "action_details": {"payload": "done"}}, "plain", {"raw": "text"}]')
    assert _check_form(write_desk(tmp_path)) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"acton": "RESPOND", "action_details": {"payload": {}}}, "no decision has acton; did you mean action?"),
        (
            {"action_details": {"payload": {}}},
            "action is missing: one of ROUTE_TO_AGENT, USE_TOOL, RESPOND, ABANDON, REQUEST_GATE",
        ),
        ({"action": "RESPOND"}, "RESPOND has no action_details; they are an object with payload"),
        ({"action": "RESPOND", "action_details": {}}, "the action_details of RESPOND lack payload"),
        (
            {"action": "ROUTE_TO_AGENT", "action_details": {"agent_key": "clerk"}},
            "the action_details of ROUTE_TO_AGENT have no agent_key; there are target_agent_name, context",
        ),
        (
            {"action": "USE_TOOL", "action_details": {"tool": "stock.count", "tool_prams": {}}},
            "the action_details of USE_TOOL have no tool; did you mean tool_name?",
        ),
        ({"agent": "clrek", "kind": "validate"}, "no agent clrek plays this script; did you mean clerk?"),
        ({"agent": "somebody", "kind": "validate"}, None),
    ],
)
def test_what_a_decision_can_not_say_is_told_before_a_run_fails_of_it(
    entry: JsonObject, said: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "desk.json"
    script.write_text(json.dumps([entry]))
    notes = _check_form(write_desk(tmp_path))
    assert (notes[0] if notes else None) == (said and f"{script}:1: {said}")


@pytest.mark.parametrize(
    ("other", "meant"), [("clrek", "did you mean clerk?"), ("clerk2", None), ("billing", None), ("desk", None)]
)
def test_an_entry_for_another_agent_is_odd_where_its_name_is_a_slip_of_one_that_plays(
    other: str, meant: str | None
) -> None:
    entries = [{"agent": agent, "kind": "validate"} for agent in ("clerk", other)]
    said = script_doubts(ScriptFile("desk.json", entries), ["clerk"])
    assert said == ([] if meant is None else [f"desk.json: entry 2 of 2: no agent {other} plays this script; {meant}"])


def test_of_many_odd_entries_the_first_are_told() -> None:
    few, many = (ScriptFile("desk.json", [{"action": "X"}] * number) for number in (MAX_DOUBTS, 20_000))
    assert script_doubts(few)[-1].startswith(f"desk.json: entry {MAX_DOUBTS} of {MAX_DOUBTS}: ")
    assert script_doubts(many)[MAX_DOUBTS:] == ["desk.json: more entries are odd"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('[{"a": 1},\n\n {"b": [2,\n 3]}, "x"\n]', ["s.json:1", "s.json:3", "s.json:4"]),
        ('\n[1,2,\n"a\\n,]"]', ["s.json:2: entry 1 of 3", "s.json:2: entry 2 of 3", "s.json:3"]),
        ('{"script": [1]}', ["s.json: entry 1 of 1"]),
        (f"[{'9' * 5_000}]", ["s.json: entry 1 of 1"]),
        ("", ["s.json: entry 1 of 1"]),
    ],
)
def test_an_entry_of_a_script_is_placed_by_its_line(text: str, places: list[str]) -> None:
    script = ScriptFile("s.json", [None] * len(places), text)
    assert [script.place(index) for index in range(len(places))] == places


def test_a_file_that_is_named_twice_is_published_once_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, other = Path("desk.yaml"), Path("shop.yaml")
    write_desk(tmp_path)
    other.write_text("kind: Network\n")
    assert _each_once([file, Path("desk.yaml"), tmp_path / "desk.yaml", other]) == [file, other]
    assert capsys.readouterr().err.splitlines() == [
        "desk.yaml is named twice: published once",
        f"{tmp_path / 'desk.yaml'} is the same file as desk.yaml: published once",
    ]
