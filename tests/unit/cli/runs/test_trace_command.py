"""What `towpath doctor trace` says of a run: what belongs together, and what one record has and another lacks."""

from typing import Any, cast

import pytest
from tests.support.cli.printed_documents import PrintedDocuments

from towpath.cli.runs import trace_command
from towpath.cli.runs.trace_command import traced_run
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client

RUN, CALL, OTHER = (f"0192f3a0-0000-7000-8000-00000000000{number}" for number in (1, 2, 3))
BEGAN, ENDED = "2026-11-27T08:00:00.000000+00:00", "2026-11-27T08:00:00.250000+00:00"


def view(**more: Any) -> dict[str, Any]:
    found = {"run_id": RUN, "network": "support", "version": 3, "status": "completed", "trace_id": "0192"}
    return {**found, "seq": 9, "erased_at": None, **more}


def call(**more: Any) -> dict[str, Any]:
    found = {"execution_id": CALL, "step_number": 1, "tool": "orders.find", "status": "succeeded", "worker": "w"}
    return {**found, "requested_at": BEGAN, "finished_at": ENDED, "duration_ms": 40, **more}


def history(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    step = {"step_number": 1, "agent_id": "billing", "timestamp": BEGAN, "ended_at": ENDED, "duration_ms": 300}
    decided = {"decisions": {"one": {"duration_ms": 20}, "two": {"duration_ms": None}, "three": {"duration_ms": 5}}}
    return {"seq": 9, "steps": [{**step, **decided}], "tool_executions": list(calls), **more}


def entry(phase: str, execution_id: str | None = CALL, entry_id: int = 7) -> dict[str, Any]:
    return {"entry_id": entry_id, "phase": phase, "verdict": "said", "execution_id": execution_id}


BOTH = [entry("decision"), entry("outcome", entry_id=8), entry("run.paused", None, 9)]


def missing(*arguments: Any, whole: bool = True) -> list[str]:
    found: list[str] = traced_run(*arguments, whole=whole)["missing"]
    return found


@pytest.mark.prints("doctor trace")
def test_a_step_has_its_calls_and_these_have_their_entries_of_the_audit(printed_documents: PrintedDocuments) -> None:
    found = traced_run(view(), history(call()), BOTH, whole=True)
    printed_documents.see("doctor trace", found)
    assert (found["missing"], found["audit_entries"], found["recorded_seq"]) == ([], 3, 9)
    (step,) = found["steps"]
    assert (step["duration_ms"], step["deciding_ms"]) == (300, 25)
    assert [one["entry_id"] for one in step["calls"][0]["audit"]] == [7, 8]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((view(seq=12), history(call()), BOTH), "the history has read 9 of 12 events"),
        ((view(), history(call()), BOTH[1:]), "the audit has no decision about it"),
        ((view(), history(call()), BOTH[:1]), "it succeeded, and the audit has no outcome"),
        ((view(), history(call(status="failed")), BOTH[:1]), "it failed, and the audit has no outcome"),
        ((view(), history(call(step_number=2)), BOTH), "the history has no step that it belongs to"),
        ((view(), history(call()), [*BOTH, entry("claim", OTHER)]), f"execution {OTHER}: the audit has claim of it"),
        ((view(erased_at=ENDED), history(seq=0, steps=[]), BOTH), f"it was erased at {ENDED}"),
    ],
)
def test_what_is_missing_is_said_once(arguments: tuple[Any, ...], sentence: str) -> None:
    (said,) = missing(*arguments)
    assert sentence in said


def test_a_call_that_waits_needs_no_outcome() -> None:
    assert missing(view(), history(call(status="requested", finished_at=None, duration_ms=None)), BOTH[:1]) == []


def test_a_run_with_too_many_entries_says_that_it_was_not_compared_whole() -> None:
    (said,) = missing(view(), history(call()), BOTH, whole=False)
    assert "more than 10,000 entries" in said


def test_a_person_sees_how_long_each_took_and_what_of_it_was_work(capsys: pytest.CaptureFixture[str]) -> None:
    trace_command._show(traced_run(view(), history(call()), BOTH, whole=True), OutputPrinter("table"))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1 billing 300 ms 25 ms" in lines
    assert f"orders.find succeeded 250 ms 40 ms 7 8 {CALL}" in lines
    assert lines[-1] == "nothing is missing"
    trace_command._show(traced_run(view(), history(call()), [], whole=True), OutputPrinter("table"))
    assert "missing: orders.find" in capsys.readouterr().out


class AuditPages:
    """Answers as the API does: *count* entries, the newest first, as many at once as were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    async def request(self, _method: str, _path: str, *, query: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(query["limit"])
        top = self.count if query["before"] is None else query["before"] - 1
        numbers = range(top, max(0, top - query["limit"]), -1)
        entries = [entry("decision", entry_id=number) for number in numbers]
        return {"entries": entries, "next_before": numbers[-1] if numbers[-1] > 1 else None}


@pytest.mark.parametrize(
    ("count", "read", "whole"), [(1, 1, True), (2_500, 2_500, True), (10_000, 10_000, True), (12_000, 10_000, False)]
)
async def test_entries_are_read_page_by_page_oldest_first_and_10000_at_most(count: int, read: int, whole: bool) -> None:
    pages = AuditPages(count)
    entries, all_of_them = await trace_command._entries(cast(Client, pages), RUN)
    assert (len(entries), all_of_them, {*pages.asked}) == (read, whole, {1_000})
    assert entries[-1]["entry_id"] == count and entries[0]["entry_id"] == count - read + 1
