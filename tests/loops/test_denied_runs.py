"""A run is ended for its denials only where the model was told of them and then asks for the same call again."""

from random import Random

import pytest
from tests.loops.driver import RUN, WORLD, Drive, end_of
from tests.loops.families.denials import forbidden
from tests.loops.labels import SUITE_SEEDS, told_traces, traces_of
from tests.loops.traces import Trace, Turn, respond

from towpath_engine.reducers.loops.counters import DENIED_KEPT

RESTARTS = pytest.mark.parametrize("restarts", [False, True])


@RESTARTS
def test_a_run_that_tries_many_forbidden_calls_of_one_kind_comes_to_its_answer(restarts: bool) -> None:
    found = {(trace.family, trace.seed): end_of(trace, restarts=restarts) for trace in told_traces(SUITE_SEEDS)}
    wanted = {(trace.family, trace.seed): (len(trace.turns), "responded") for trace in told_traces(SUITE_SEEDS)}
    assert found == wanted


def test_such_a_run_is_told_once_for_each_kind() -> None:
    for trace in told_traces(SUITE_SEEDS):
        drive = Drive()
        for turn in trace.turns:
            drive.take(turn)
        assert [(event.detector, event.count, event.action) for event in drive.found] == [("errors", 3, "nudge")]


def before_the_loop(trace: Trace) -> int:
    return trace.label.latest - 3


@RESTARTS
def test_a_run_that_asks_for_the_same_denied_calls_again_is_ended_at_the_fourth(restarts: bool) -> None:
    for family in ("the_same_denied_call", "denied_calls_in_turn"):
        for trace in traces_of(family, SUITE_SEEDS):
            assert end_of(trace, restarts=restarts) == (before_the_loop(trace) + 4, "loop_detected")


def test_a_call_that_is_denied_again_much_later_ends_the_run() -> None:
    turns = forbidden(Random(7), "send", "careful/strangers", DENIED_KEPT)
    again = Trace(family="f", seed=0, turns=(*turns, turns[0]), label=None, restarts=())  # type: ignore[arg-type]
    assert end_of(again, restarts=False) == (DENIED_KEPT + 1, "loop_detected")


def test_the_denied_calls_that_a_run_remembers_are_bounded() -> None:
    drive = Drive()
    for turn in forbidden(Random(7), "send", "careful/strangers", 2 * DENIED_KEPT):
        drive.take(turn)
    assert len(drive.state.detectors.denied_calls) == DENIED_KEPT and not drive.state.is_final


def test_a_model_that_varies_one_argument_for_ever_is_ended_by_its_limit_of_steps() -> None:
    drive, turns = Drive(), forbidden(Random(7), "send", "careful/strangers", 2 * WORLD.max_steps)
    taken: list[Turn] = []
    while not drive.state.is_final:
        taken.append(turns[len(taken)])
        drive.take(taken[-1])
    assert (drive.state.run_id, len(taken), drive.state.reason) == (RUN, WORLD.max_steps, "max_steps_exceeded")
    assert respond() not in taken
