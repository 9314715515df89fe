"""What the watchdog keeps of runs, where it reads their logs, and what it says of runs that stand still (pure)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from towpath_contracts.runs.idle_runs import IdleRun
from towpath_contracts.runs.raw_events import RawEntry, RawTransitionEvents
from towpath_contracts.runs.views import RunSeq
from towpath_watchdog.core.findings import STALLED_STEPS, idle_finding, lease_of, lease_s
from towpath_watchdog.core.run_memory import ENDED_KEPT, WINDOW_EVENTS, WatchedRuns
from towpath_watchdog.core.similarity import leaves

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
STILL: dict[str, Any] = {"type": "progress_measured", "step": 1, "source": "tests", "score": 0.2}
END: dict[str, Any] = {
    "type": "run_finished",
    "status": "failed",
    "reason": "x",
    "final": {"status": "error"},
    "steps": 1,
    "fence": 1,
}
REPORTED: dict[str, Any] = {
    "type": "watchdog_reported",
    "finding": "stalled_progress",
    "key": "stalled_progress",
    "step": 9,
    "action": "nudge",
}
NOTHING: dict[str, Any] = {"type": "run_started"}


def log(*events: dict[str, Any], first: int = 1) -> tuple[RawEntry, ...]:
    return tuple(RawEntry(seq=seq, at=AT, event=event) for seq, event in enumerate(events, first))


def batch(run: UUID, entries: Iterable[RawEntry]) -> RawTransitionEvents:
    return RawTransitionEvents(run_id=run, project="default", entries=tuple(entries))


def stalled(count: int = STALLED_STEPS + 1) -> list[dict[str, Any]]:
    return [STILL] * count


def test_events_count_once_and_in_order() -> None:
    memory, run = WatchedRuns(), uuid4()
    entries = log(*stalled())
    assert memory.take(batch(run, entries[:3]))
    assert memory.take(batch(run, entries[:3])), "a repetition is no gap"
    assert memory.take(batch(run, reversed(entries[2:])))
    (report,) = memory.reports()
    assert (report.run_id, report.seq, report.finding.name) == (run, len(entries), "stalled_progress")
    assert memory.reports() == []


def test_a_gap_is_read_from_the_log_and_what_is_reported_again_is_left_out() -> None:
    memory, run = WatchedRuns(), uuid4()
    entries = log(*stalled())
    assert memory.take(batch(run, entries[:2]))
    assert not memory.take(batch(run, entries[5:]))
    assert memory.start_of(run, len(entries)) == 2
    memory.load(run, "default", 2, entries[2:6])
    memory.load(run, "default", 2, entries[2:])
    assert len(memory.reports()) == 1


def test_a_run_that_is_met_in_its_middle_is_read_from_a_little_before() -> None:
    memory, run = WatchedRuns(), uuid4()
    assert not memory.take(batch(run, log(NOTHING, first=1_000)))
    after = memory.start_of(run, 1_000)
    assert after == 1_000 - WINDOW_EVENTS
    memory.load(run, "default", after, log(*stalled(), first=after + 1))
    assert len(memory.reports()) == 1
    trace = memory.trace(run)
    assert trace is not None
    memory.take(batch(run, log(STILL, first=trace.seq + 1)))
    memory.load(run, "default", trace.seq + 50, ())
    memory.load(run, "default", trace.seq + 50, log(STILL, first=trace.seq + 51))
    assert memory.reports() == [], "nothing is joined over what was left out"


def test_a_watchdog_that_starts_anew_knows_from_the_log_what_was_reported() -> None:
    run = uuid4()
    text = log(*stalled(), REPORTED, *stalled(STALLED_STEPS - 1))
    memory = WatchedRuns()
    memory.load(run, "default", 0, text)
    assert memory.reports() == []
    memory.take(batch(run, log(STILL, first=len(text) + 1)))
    (again,) = memory.reports()
    assert again.finding.since > text[STALLED_STEPS + 1].seq, "it rests on what came after the report"


def test_runs_that_end_are_forgotten_and_no_more_than_a_limit_are_kept() -> None:
    memory = WatchedRuns(runs_kept=3)
    ended, kept = uuid4(), [uuid4() for _ in range(5)]
    memory.take(batch(ended, log(*stalled(), END)))
    assert (len(memory), memory.reports(), memory.ended(ended)) == (0, [], True)
    assert memory.take(batch(ended, log(NOTHING, first=99))), "what comes after the end is of no interest"
    for run in kept:
        memory.take(batch(run, log(*stalled())))
    assert len(memory) == 3
    assert [report.run_id for report in memory.reports()] == kept[2:]
    for _ in range(ENDED_KEPT):
        memory.end(uuid4())
    assert not memory.ended(ended)


def test_what_the_stream_lost_is_found_by_the_second_sweep() -> None:
    memory, run = WatchedRuns(), uuid4()
    swept = [RunSeq(run_id=run, project="default", seq=9, updated_at=AT)]
    assert memory.late(swept) == [], "mostly it is on its way"
    assert memory.late(swept) == swept
    memory.load(run, "default", 0, log(*stalled(9)))
    assert memory.late(swept) == []
    moved = [RunSeq(run_id=run, project="default", seq=11, updated_at=AT)]
    assert memory.late(moved) == []
    memory.take(batch(run, log(NOTHING, first=10)))
    assert memory.late(moved) == [], "it moves"
    assert memory.late(moved) == moved
    memory.end(run)
    assert memory.late(moved) == []


def idle(kind: str, for_s: float, status: str = "running") -> IdleRun:
    return IdleRun.model_validate(
        {"run_id": uuid4(), "project": "p", "seq": 7, "status": status, "idle": kind, "since": AT, "for_s": for_s}
    )


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (idle("overdue", 31), "lost"),
        (idle("queued", 3_601, "queued"), "lost"),
        (idle("quiet", 121), "silent"),
        (idle("quiet", 119), None),
    ],
)
def test_a_run_that_stands_still_is_lost_or_silent(run: IdleRun, name: str | None) -> None:
    found = idle_finding(run, lease_s(60_000, 60))
    assert (found.name if found else None) == name
    assert found is None or (found.key, found.since) == (f"{name}:{run.idle}", run.seq)


def test_the_lease_is_what_the_first_event_says() -> None:
    assert lease_of(log({"type": "run_created", "step_timeout_ms": 90_000})) == 90_000
    assert lease_s(lease_of(log(NOTHING)), 60) == lease_s(None, 60)


@pytest.mark.parametrize(("for_s", "name"), [(659, None), (661, "silent")])
def test_a_run_whose_first_event_cant_be_had_has_ten_minutes_for_a_step(for_s: float, name: str | None) -> None:
    found = idle_finding(idle("quiet", for_s), lease_s(None, 60))
    assert (found.name if found else None) == name


@pytest.mark.parametrize("values", [list(range(60)), {f"f{number}": number for number in range(60)}])
def test_of_a_call_forty_values_are_compared(values: Any) -> None:
    assert len(leaves(values)) == 40
