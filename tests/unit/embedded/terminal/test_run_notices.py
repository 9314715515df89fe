"""The lines of runs that `towpath up` shows: which events are told, in which words, and how a flood is told."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from towpath_embedded.terminal.notice_limit import BURST, WINDOW_S, NoticeLimit
from towpath_embedded.terminal.run_notices import MORE, MOST_RUNS, RunNoticeReader

RUN = "01a21b18-9435-7d47-a51a-1cca51c57ccf"
GATE = "6ffa2329-0000-5000-8000-000000000000"


def message(*events: dict[str, Any], run_id: str = RUN) -> bytes:
    entries = [{"seq": place, "at": "2026-11-27T00:00:00Z", "event": event} for place, event in enumerate(events, 1)]
    return json.dumps({"run_id": run_id, "project": "default", "entries": entries}, separators=(",", ":")).encode()


def created(**more: Any) -> dict[str, Any]:
    return {"type": "run_created", "network": "support", **more}


def finished(status: str, reason: str = "max_steps_exceeded", final: object = None) -> dict[str, Any]:
    return {"type": "run_finished", "status": status, "reason": reason, "final": final or {}}


def gate(gate_type: str = "approval", **more: Any) -> dict[str, Any]:
    return {"type": "gate_opened", "gate_id": GATE, "gate_type": gate_type, "reason": "above 100", **more}


CALL = {"tool": "orders.refund", "args": {"note": "broken", "to": "ann"}, "origins": [{"path": "to", "sink": True}]}


def lines(*messages: bytes) -> list[str]:
    reader = RunNoticeReader()
    return [notice.line for one in messages for notice in reader.read(one)]


def test_a_call_that_waits_is_told_with_its_tool_where_it_goes_and_the_command_that_decides_it() -> None:
    waiting = gate(approval_id=RUN, detail=CALL)
    told = "◐ run 1cca51c57ccf support waits: orders.refund to=ann note=broken · towpath gates approve 6ffa2329"
    assert lines(message(created()), message(waiting)) == [told]


def test_a_gate_that_the_same_transition_closes_is_not_told_to_wait() -> None:
    changed = gate(approval_id=RUN, detail=CALL)
    assert lines(message(created()), message(changed, {"type": "gate_closed", "gate_id": GATE})) == []
    other = {"type": "gate_closed", "gate_id": RUN}
    assert len(lines(message(other, changed))) == 1, "the gate before it was closed"


def test_a_call_is_told_in_the_words_of_its_tool_too() -> None:
    waiting = gate(approval_id=RUN, detail={**CALL, "summary": "Refund {to}: {note}"})
    told = (
        '◐ run 1cca51c57ccf waits: orders.refund "Refund ann: broken" to=ann note=broken · '
        "towpath gates approve 6ffa2329"
    )
    assert lines(message(waiting)) == [told]


def test_what_is_no_approval_is_to_be_looked_at_first() -> None:
    told = "◐ run 1cca51c57ccf waits: above 100 · towpath gates show 6ffa2329"
    assert lines(message(gate("loop"))) == [told]


@pytest.mark.parametrize("gate_type", ["paused", "run_paused"])
def test_where_nobody_is_asked_anything_nothing_is_told(gate_type: str) -> None:
    assert lines(message(gate(gate_type))) == []


@pytest.mark.parametrize("status", ["failed", "timed_out", "escalated", "abandoned"])
def test_a_run_that_did_not_complete_is_told_with_its_reason_and_the_command_that_shows_it(status: str) -> None:
    told = lines(message(finished(status, "model_error", {"code": "model_error", "message": "no key\nfor it"})))
    words = status.replace("_", " ")
    assert told == [f"✕ run 1cca51c57ccf {words}: model_error: no key for it · towpath runs show 1cca51c57ccf"]


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_a_run_that_ended_as_it_was_meant_to_is_not_told(status: str) -> None:
    assert lines(message(created(), finished(status))) == []


def test_of_a_child_that_failed_the_run_above_it_tells() -> None:
    child = message(created(parent={"run_id": GATE}))
    assert lines(child, message(finished("failed"))) == []
    assert len(lines(child, message(finished("failed"), run_id=GATE))) == 1


def test_a_parked_run_is_told() -> None:
    parked = {"type": "run_quarantined", "code": "log_mismatch", "message": "seq 4"}
    told = "✕ run 1cca51c57ccf is parked: log_mismatch: seq 4 · towpath runs show 1cca51c57ccf"
    assert lines(message(parked)) == [told]


def test_long_texts_are_cut_so_that_the_command_stays_in_sight() -> None:
    call = {"tool": "t" * 200, "args": {"text": "x" * 200}}
    waits, failed = lines(
        message(gate(approval_id=RUN, detail=call)), message(finished("failed", "f", {"message": "m" * 200}))
    )
    assert f" {'t' * 59}… text={'x' * 54}… · towpath gates approve" in waits
    assert f"f: {'m' * 96}… · towpath runs show" in failed


def test_nothing_that_others_wrote_reaches_the_terminal_as_it_is() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\u202ered\r\n"
    call = gate(approval_id=RUN, detail={"tool": f"a{evil}", "args": {f"{evil}b": evil}})
    for line in lines(
        message(created(network=evil)), message(call), message(gate("loop", reason=evil)),
        message(finished("failed", evil, {"message": evil})),
    ):  # fmt: skip
        assert line.isprintable(), line


@pytest.mark.parametrize(
    "data",
    [
        b'"gate_opened"',
        b'["gate_opened"]',
        b'{"run_id":"x","entries":[{"event":{"type":"gate_opened"}}]}',
        message({"type": "gate_opened"}),
        message(gate(gate_id="x")),
        message({"type": "call", "text": "run_finished"}),
    ],
)
def test_what_can_not_be_read_is_put_aside(data: bytes) -> None:
    assert RunNoticeReader().read(data) == []


def test_what_is_remembered_of_runs_is_bounded() -> None:
    reader = RunNoticeReader()
    assert MOST_RUNS == 10_000
    born = message(created())
    for number in range(MOST_RUNS + 1):
        reader.read(born.replace(RUN.encode(), str(UUID(int=number)).encode()))
    assert "support" not in reader.read(message(finished("failed"), run_id=str(UUID(int=0))))[0].line
    assert "support" in reader.read(message(finished("failed"), run_id=str(UUID(int=1))))[0].line


class Windows:
    """The windows of a limit, which end when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._begun: list[asyncio.TimerHandle] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._begin)

    def _begin(self, delay_s: float, end: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        assert delay_s == WINDOW_S == 5.0
        self._begun.append(asyncio.TimerHandle(0, end, arguments, asyncio.get_running_loop()))
        return self._begun[-1]

    def end(self) -> None:
        """End the windows that have begun; others may begin then."""
        begun, self._begun = self._begun, []
        for window in begun:
            window._run()


async def test_a_flood_is_three_lines_and_then_one_line_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    windows = Windows(monkeypatch)
    limit = NoticeLimit(lambda line, style: shown.append(f"{style} {line}"), MORE)
    assert BURST == 3
    for number in range(40):
        limit.tell("failed", f"run {number}", "red")
    limit.tell("waits", "another kind", "yellow")
    assert shown == ["red run 0", "red run 1", "red run 2", "yellow another kind"]
    windows.end()
    assert shown[4:] == ["dim … 37 more runs did not complete: towpath runs list"]
    for number in range(30):
        limit.tell("failed", f"run {number}", "red")
    assert len(shown) == 5  # the flood goes on: its first lines are no news
    windows.end()
    assert shown[5:] == ["dim … 30 more runs did not complete: towpath runs list"]
    windows.end()
    limit.tell("failed", "the next one", "red")
    assert shown[6:] == ["red the next one"]
    for _ in range(5):
        limit.tell("failed", "again", "red")
    limit.close()
    assert shown[-1] == "dim … 3 more runs did not complete: towpath runs list"


async def test_the_one_line_that_is_left_out_is_told_as_one() -> None:
    shown: list[str] = []
    for kind in MORE:
        limit = NoticeLimit(lambda line, _style: shown.append(line), MORE)
        for _ in range(BURST + 1):
            limit.tell(kind, kind, "")
        limit.close()
    told = [line for line in shown if "more" in line]
    assert told == [
        "… 1 more run waits for a person: towpath gates list",
        "… 1 more run did not complete: towpath runs list",
    ]
