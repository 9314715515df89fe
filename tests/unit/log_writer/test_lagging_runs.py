"""Which runs are late, and when they are asked for again."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

from towpath_contracts.runs.views import RunSeq
from towpath_log_writer.core import lagging_runs
from towpath_log_writer.core.lagging_runs import LONGEST_WAIT_S, LaggingRuns

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
A, B = UUID(int=1), UUID(int=2)


def run(run_id: UUID, seq: int, at_s: float = 0) -> RunSeq:
    return RunSeq(run_id=run_id, project="default", seq=seq, updated_at=BEGIN + timedelta(seconds=at_s))


def test_only_late_runs_are_kept_until_they_are_complete() -> None:
    late = LaggingRuns()
    late.add_lagging([run(A, 3), run(B, 3, 5)], {A: 3, B: 1}, due=1)
    assert (late.ids, late.oldest) == ([B], BEGIN + timedelta(seconds=5))
    late.drop_complete({B: 2})
    assert late.ids == [B]
    late.drop_complete({B: 3})
    assert (late.ids, late.oldest) == ([], None)


def test_a_run_that_moves_is_not_asked_for() -> None:
    late = LaggingRuns()
    late.add_lagging([run(A, 9)], {A: 1}, due=1)
    assert late.take_due({A: 1}, 0.5, 1) == {}
    assert late.take_due({A: 2}, 1, 1) == {}
    assert late.take_due({A: 2}, 2, 1) == {A: "default"}


def test_a_run_that_brings_nothing_is_asked_for_ever_more_rarely() -> None:
    late = LaggingRuns()
    late.add_lagging([run(A, 9)], {A: 1}, due=0)
    asked = [second for second in range(1_000) if late.take_due({A: 1}, second, 1)]
    waits = [later - sooner for sooner, later in pairwise(asked)]
    assert waits[:6] == [2, 4, 8, 16, 32, 60]
    assert set(waits[6:]) == {int(LONGEST_WAIT_S)}
    late.add_lagging([run(A, 10)], {A: 1}, due=0)
    assert late.take_due({A: 1}, asked[-1] + 1, 1) == {}


def test_what_was_forgotten_holds_nothing_up() -> None:
    late = LaggingRuns()
    late.add_lagging([run(A, 9)], {A: 1}, due=0)
    late.forget(A)
    late.forget(A)
    assert late.oldest is None


def test_memory_is_bounded() -> None:
    late = LaggingRuns()
    runs = [run(UUID(int=number), 1) for number in range(lagging_runs.LATE_KEPT)]
    late.add_lagging(runs[:-1], dict.fromkeys((r.run_id for r in runs), 0), due=0)
    assert not late.full
    late.add_lagging(runs[-1:], {runs[-1].run_id: 0}, due=0)
    assert late.full
