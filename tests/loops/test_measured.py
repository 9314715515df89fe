"""Recall and precision of the loop detectors on the labelled traces, also with restarts in mid-loop."""

import pytest
from tests.loops.labels import LEAST_PRECISION, LEAST_RECALL, SUITE_SEEDS, traces
from tests.loops.measure import Tally, in_all, measured
from tests.loops.traces import Label, Trace


@pytest.mark.parametrize("restarts", [False, True])
def test_loops_are_found_in_time_and_nothing_else_is(restarts: bool) -> None:
    tallies = measured(traces(SUITE_SEEDS), restarts=restarts)
    whole = in_all(tallies)
    assert whole.recall >= LEAST_RECALL and whole.precision >= LEAST_PRECISION
    missed = {name for name, tally in tallies.items() if tally.recall < 0.5 or tally.false > tally.quiet}
    assert not missed, "no family is lost as a whole"


def test_late_and_early_findings_count_as_missed() -> None:
    label = Label(loops=True, earliest=4, latest=6)
    trace = Trace(family="f", seed=0, turns=(), label=label, restarts=())
    tally = Tally()
    for step in (0, 3, 4, 6, 7):
        tally.observe(trace, step, "cycle" if step else "")
    assert (tally.right, tally.missed, tally.late, tally.false) == (2, 3, 1, 1)
    assert tally.recall == 2 / 5 and tally.precision == 2 / 3
