"""What `towpath doctor trace` says of a run: what belongs together, and what one record has and another lacks."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest
from tests.support.cli.printed_documents import PrintedDocuments

from towpath.cli.runs import trace_command
from towpath.cli.runs.trace_command import EARLIEST, LATEST, traced_run
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


def missing(*arguments: Any) -> list[str]:
    found = traced_run(*arguments)
    assert found["unknown"] == []
    return cast(list[str], found["missing"])


def moment(seconds: float) -> datetime:
    """Return the time so long after the call was asked for."""
    return datetime.fromisoformat(BEGAN) + timedelta(seconds=seconds)


@pytest.mark.prints("doctor trace")
def test_a_step_has_its_calls_and_these_have_their_entries_of_the_audit(printed_documents: PrintedDocuments) -> None:
    found = traced_run(view(), history(call()), BOTH)
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


def test_entries_that_were_not_read_are_unknown_and_not_missing() -> None:
    found = traced_run(view(), history(call()), BOTH, whole=False)
    assert found["missing"] == []
    (said,) = found["unknown"]
    assert "more than 10,000 entries" in said


@pytest.mark.parametrize("kept_since", [moment(0), moment(-59), LATEST])
def test_a_call_of_which_the_audit_may_have_been_dropped_is_unknown_and_not_missing(kept_since: datetime) -> None:
    found = traced_run(view(), history(call()), [], kept_since=kept_since)
    assert found["missing"] == []
    (said,) = found["unknown"]
    assert said.startswith("1 call was asked for before what the audit is known to keep")
    two = traced_run(view(), history(call(), call(execution_id=OTHER)), [], kept_since=kept_since)
    assert two["unknown"][0].startswith("2 calls were asked for")


@pytest.mark.parametrize("kept_since", [EARLIEST, moment(-61)])
def test_a_call_that_is_younger_than_what_was_dropped_is_missing(kept_since: datetime) -> None:
    found = traced_run(view(), history(call()), [], kept_since=kept_since)
    assert (len(found["missing"]), found["unknown"]) == (2, [])


def test_an_outcome_is_missing_where_the_decision_is_kept_or_the_call_ended_later() -> None:
    kept = traced_run(view(), history(call()), BOTH[:1], kept_since=LATEST)
    assert (len(kept["missing"]), kept["unknown"]) == (1, [])
    late = traced_run(view(), history(call(finished_at=moment(90).isoformat())), [], kept_since=moment(0))
    assert (len(late["missing"]), len(late["unknown"])) == (1, 1)
    assert "the audit has no outcome" in late["missing"][0]


def test_a_call_without_times_is_judged_only_where_the_whole_audit_is_kept() -> None:
    timeless = history(call(requested_at=None, finished_at=None))
    assert len(missing(view(), timeless, [])) == 2
    assert traced_run(view(), timeless, [], kept_since=moment(-9_000))["missing"] == []


def test_a_person_sees_how_long_each_took_and_what_of_it_was_work(capsys: pytest.CaptureFixture[str]) -> None:
    trace_command._show(traced_run(view(), history(call()), BOTH), OutputPrinter("table"))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1 billing 300 ms 25 ms" in lines
    assert f"orders.find succeeded 250 ms 40 ms 7 8 {CALL}" in lines
    assert lines[-1] == "nothing is missing"
    trace_command._show(traced_run(view(), history(call()), []), OutputPrinter("table"))
    assert "missing: orders.find" in capsys.readouterr().out
    trace_command._show(traced_run(view(), history(call()), [], kept_since=LATEST), OutputPrinter("table"))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("unknown: 1 call was asked for")


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


class KeptAudit:
    """Answers whether the project has an entry up to a time: its oldest is of *first*, behind *others* empty pages."""

    def __init__(self, first: datetime | None, others: int = 0) -> None:
        self.first = first
        self.others = others
        self.asked: list[dict[str, Any]] = []

    async def request(self, _method: str, _path: str, *, query: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(query)
        if len(self.asked) <= self.others:
            return {"entries": [], "next_before": 1_000 - len(self.asked)}
        found = self.first is not None and self.first <= datetime.fromisoformat(query["until"])
        return {"entries": [entry("policy.applied", None)] if found else [], "next_before": None}


@pytest.fixture
def a_year_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_command, "wall", lambda: moment(365 * 86_400))


async def kept(audit: KeptAudit, entries: list[dict[str, Any]], *, whole: bool = True, **more: Any) -> datetime:
    return await trace_command._kept_since(cast(Client, audit), history(call(**more)), entries, whole=whole)


OWN = {**entry("decision"), "at": BEGAN}


@pytest.mark.usefixtures("a_year_later")
async def test_an_older_entry_of_the_project_proves_that_the_audit_of_the_run_is_kept() -> None:
    audit = KeptAudit(moment(-60))
    assert await kept(audit, []) == EARLIEST
    assert audit.asked == [{"until": moment(-60).isoformat(), "limit": 1, "before": None}]
    younger = KeptAudit(moment(-59))
    assert await kept(younger, []) == LATEST
    assert await kept(younger, [OWN]) == moment(0), "what came after the oldest entry of the run itself is kept"


@pytest.mark.usefixtures("a_year_later")
async def test_pages_of_other_projects_are_passed_over_but_not_without_end() -> None:
    assert await kept(KeptAudit(moment(-60), others=19), []) == EARLIEST
    endless = KeptAudit(moment(-60), others=20)
    assert (await kept(endless, []), len(endless.asked)) == (LATEST, 20)
    assert [one["before"] for one in endless.asked[:3]] == [None, 999, 998]


@pytest.mark.usefixtures("a_year_later")
async def test_of_a_run_that_was_not_read_whole_what_came_after_the_oldest_entry_read_is_known() -> None:
    audit = KeptAudit(moment(-60))
    assert (await kept(audit, [OWN], whole=False), audit.asked) == (moment(0), [])


async def test_nothing_that_is_younger_than_twelve_hours_may_have_been_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    for hours, found in ((11.99, EARLIEST), (12.01, LATEST)):
        monkeypatch.setattr(trace_command, "wall", partial(moment, hours * 3_600))
        assert await kept(KeptAudit(None), []) == found
    assert await kept(KeptAudit(None), [], requested_at=None) == EARLIEST, "without a call nothing is judged"


def test_the_bounds_of_what_is_kept_can_be_compared_with_any_time() -> None:
    assert EARLIEST.tzinfo is UTC and EARLIEST < moment(0) < LATEST
