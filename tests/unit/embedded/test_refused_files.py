"""Files that were refused: what is told of them, what is kept until they are mended."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.console import UpConsole
from towpath_embedded.platform import Platform
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.up import _serve


class Screen:
    """What was shown, and what is kept."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, list[str]]] = []
        self.kept: dict[str, list[str]] = {}

    def show(self, file: str, faults: Sequence[str], fate: FileFate = FileFate.REFUSED) -> None:
        assert fate is FileFate.REFUSED
        self.shown.append((file, list(faults)))

    def keep(self, faults: Mapping[str, Sequence[str]]) -> None:
        self.kept = {file: list(found) for file, found in faults.items()}


def logged(event: str, **more: object) -> str:
    return json.dumps({"role": "tas", **more, "event": event})


def test_a_refused_policy_is_told_once_with_the_line_of_every_problem() -> None:
    screen = Screen()
    files = RefusedFiles(screen.show, screen.keep)
    assert files.read_log_line("tas", logged("policy refused", file="p.yaml", problems=2))
    assert files.read_log_line(
        "tas", logged("policy problem", file="p.yaml", problem="line 3: there is no field 'efect'")
    )
    assert screen.shown == []
    assert files.read_log_line("tas", logged("policy problem", file="p.yaml", problem="no rules"))
    assert screen.shown == [("p.yaml", ["p.yaml:3: there is no field 'efect'", "p.yaml: no rules"])]
    assert screen.kept == {"p.yaml": ["p.yaml:3: there is no field 'efect'", "p.yaml: no rules"]}
    assert files.told_of_policy({"policy": {"version": 0}}) == {"policy": {"version": 0, "refused": "p.yaml"}}
    assert files.told_of_policy({}) == {}
    assert not files.read_log_line("tas", logged("policy applied", file="p.yaml", version=2))
    assert screen.kept == {} and len(screen.shown) == 1
    assert files.told_of_policy({"policy": {"version": 2}}) == {"policy": {"version": 2}}


@pytest.mark.parametrize(("kept", "fate"), [(0, FileFate.NEW_POLICY), (3, FileFate.REFUSED), (None, FileFate.REFUSED)])
def test_of_a_first_policy_it_is_not_said_that_one_before_it_stays(kept: int | None, fate: FileFate) -> None:
    shown: list[FileFate] = []
    files = RefusedFiles(lambda _file, _faults, fate=FileFate.REFUSED: shown.append(fate), lambda _: None)
    files.read_log_line("tas", logged("policy refused", file="p.yaml", problems=1, kept=kept))
    files.read_log_line("tas", logged("policy problem", file="p.yaml", problem="no rules"))
    files.read_log_line("tas", logged("policy refused", file="q.yaml", problem="not UTF-8", kept=kept))
    assert shown == [fate, fate]


def test_a_policy_that_is_no_text_is_told_at_once() -> None:
    screen = Screen()
    files = RefusedFiles(screen.show, screen.keep)
    assert files.read_log_line("tas-2", logged("policy refused", file="p.yaml", problem="not YAML"))
    assert screen.kept == {"p.yaml": ["p.yaml: not YAML"]}


@pytest.mark.parametrize("line", ['{"event": "policy warning"}', 'no JSON of a "policy refused"', '["policy refused"]'])
def test_other_lines_are_not_about_it(line: str) -> None:
    screen = Screen()
    assert not RefusedFiles(screen.show, screen.keep).read_log_line("tas", line)
    assert not RefusedFiles(screen.show, screen.keep).read_log_line("worker", logged("policy refused", file="p"))
    assert screen.kept == {}


def test_what_was_refused_is_shown_with_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    UpConsole(as_json=False).refused("net.yaml", ["net.yaml:7: there is no such field"])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].endswith("net.yaml was refused, and what was in force before stays. Mend it and save it:")
    assert shown[1].strip() == "net.yaml:7: there is no such field"


def test_what_ends_a_start_is_not_to_be_saved(capsys: pytest.CaptureFixture[str]) -> None:
    screen = UpConsole(as_json=False)
    screen.stops_where_refused = True
    screen.refused("net.yaml", ["net.yaml:7: there is no such field"], FileFate.NEW)
    assert capsys.readouterr().out.splitlines()[0].endswith("net.yaml was refused. Mend it:")


@pytest.mark.parametrize("event", ["policy applied", "policy unchanged"])
def test_what_was_no_text_is_mended_when_it_is_in_force(event: str) -> None:
    screen = Screen()
    files = RefusedFiles(screen.show, screen.keep)
    files.read_log_line("tas", logged("policy refused", file="p.yaml", problem="not UTF-8"))
    assert not files.read_log_line("tas", logged(event, file="p.yaml"))
    assert screen.kept == {}
    assert files.read_log_line("tas", logged("policy unchanged", file="p.yaml"))  # of any other start: nothing to tell


def test_a_policy_that_was_refused_without_a_reason_is_told_too() -> None:
    screen = Screen()
    assert RefusedFiles(screen.show, screen.keep).read_log_line(
        "tas", logged("policy refused", file="p.yaml", problems=0)
    )
    assert screen.shown == [("p.yaml", ["p.yaml: it was refused"])]


async def test_a_strict_start_that_is_refused_leaves_no_task_behind(tmp_path: Path) -> None:
    refused = RefusedFiles(lambda *_, **_more: None, lambda _: None)
    refused.put("net.yaml", ["net.yaml:7: there is no such field"])
    options, console = UpOptions(data=tmp_path, gateway_port=None, nats_port=None, strict=True), UpConsole(as_json=True)
    platform, before = Platform(tmp_path), asyncio.all_tasks()
    with pytest.raises(ProblemError, match=r"above is told why: net\.yaml") as stopped:
        await _serve(options, platform, console, refused, ServedTools(), asyncio.Event(), 0.0, {})
    assert [one.detail for one in stopped.value.problem.errors] == ["net.yaml:7: there is no such field"]
    assert asyncio.all_tasks() == before
