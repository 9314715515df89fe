"""The state machine of a composed run: its table, and the paths that runs take through it."""

from typing import Any, get_args

import pytest
from tests.support.engine.plan_machine import PlanRun, ask, block, step

from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanState, PlanTrigger
from towpath_engine.handlers.plan_status import (
    FINAL_PLAN_STATES,
    PLAN_TRANSITIONS,
    IllegalPlanTransitionError,
    move_plan,
    target_of,
)
from towpath_engine.handlers.transition import TransitionBuilder

STATES: tuple[PlanState, ...] = get_args(PlanState)
TRIGGERS: tuple[PlanTrigger, ...] = get_args(PlanTrigger)


def test_e6_the_table_has_the_sources_words_and_no_way_out_of_an_end() -> None:
    """Row E6: FSM states and events of the source; next-step and all-done have their own."""
    assert {state for pair, state in PLAN_TRANSITIONS.items()} | {"plan_init"} == set(STATES)
    assert {trigger for _state, trigger in PLAN_TRANSITIONS} == set(TRIGGERS)
    assert not any(state in FINAL_PLAN_STATES for state, _trigger in PLAN_TRANSITIONS)
    for state in set(STATES) - FINAL_PLAN_STATES:
        assert {target_of(state, trigger) for trigger in ("timeout", "cancelled", "panic")} == {"failed"}
    reached, left = {"plan_init"}, [("plan_init")]
    while left:
        source = left.pop()
        new = {target for (state, _), target in PLAN_TRANSITIONS.items() if state == source} - reached
        reached |= new
        left += new
    assert reached == set(STATES), "every state can be reached"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_e6_what_is_not_in_the_table_is_refused(state: PlanState, trigger: PlanTrigger) -> None:
    if (state, trigger) in PLAN_TRANSITIONS:
        assert target_of(state, trigger) in STATES
    else:
        with pytest.raises(IllegalPlanTransitionError, match=f"{trigger} is not possible in {state}"):
            target_of(state, trigger)


def test_e6_an_illegal_trigger_writes_nothing() -> None:
    run = PlanRun(step("ann"))
    transition = TransitionBuilder(state=run.state, now=run.now)
    with pytest.raises(IllegalPlanTransitionError):
        move_plan(transition, "all_done")
    assert transition.entries == []


def test_e6_every_transition_of_a_plan_that_succeeds_is_in_its_log() -> None:
    """Row E6: every transition in the event log and observable."""
    run = PlanRun(step("ann"), block(ask("bob"), ask("cid")))
    run.end()
    run.end(0)
    run.end(1)
    moved = run.events(ev.PlanStateChanged)
    assert [(one.trigger, one.target, one.step_id) for one in moved] == [
        ("start_plan", "planner_active", ""),
        ("planner_finished", "plan_validated", ""),
        ("dispatch_step", "dispatching_step", "step_01"),
        ("step_dispatched", "awaiting_results", "step_01"),
        ("step_succeeded", "merging_results", "step_01"),
        ("next_step", "dispatching_step", "step_02"),
        ("step_dispatched", "awaiting_results", "step_02"),
        ("parallel_complete", "merging_results", "step_02"),
        ("all_done", "completed", ""),
    ]
    assert run.path[-1] == "completed" and run.state.composition is not None
    assert run.state.composition.phase == "completed"


def broken(run: PlanRun) -> None:
    run.end(status="failed", reason="loop_detected", final={"message": "again and again"})


def late(run: PlanRun) -> None:
    while not run.state.is_final:
        run.wake()


def cancelled(run: PlanRun) -> None:
    run.cancel()
    run.end(status="cancelled")


@pytest.mark.parametrize(
    ("happens", "trigger", "status", "reason", "code"),
    [
        (broken, "step_failed", "failed", "plan_failed", "loop_detected"),
        (late, "timeout", "timed_out", "deadline_exceeded", "deadline_exceeded"),
        (cancelled, "cancelled", "cancelled", "cancelled", "cancelled"),
    ],
)
def test_e6_every_end_has_its_trigger_and_says_what_became_of_every_step(
    happens: Any, trigger: str, status: str, reason: str, code: str
) -> None:
    """Row E6: failure, timeout and cancel end in `failed`; row E5: later steps are skipped."""
    run = PlanRun(step("ann", result_key="one"), step("bob", id="two"), block(ask("cid"), id="three"))
    run.end(final={"n": 1})
    happens(run)
    assert run.triggers[-1] == trigger and run.path[-1] == "failed"
    assert (run.state.status, run.finished.reason) == (status, reason)
    assert run.statuses == {"step_01": "success", "two": "failed", "three": "skipped"}
    assert run.output["success"] is False and run.output["bindings"] == {"one": {"n": 1}}
    (error,) = run.output["errors"]
    assert (error["step_id"], error["error"]["code"]) == ("two", code)
    assert run.events(ev.PlanStateChanged)[-1].error["code"] == code


def test_e6_a_run_that_is_ended_by_anything_else_panics_with_its_reason() -> None:
    run = PlanRun(prompt="Do it.")
    run.miss("model_unavailable", "nobody answers")
    assert (run.triggers[-1], run.path[-1], run.finished.reason) == ("panic", "failed", "model_unavailable")
    assert run.output["steps"] == [] and run.output["success"] is False
    assert run.output["errors"][0]["error"]["code"] == "model_unavailable"


def test_what_a_planner_was_not_shown_is_no_part_of_its_plan() -> None:
    """Criteria are compiled where facts of all runs are folded, so only those of callers are, which were prepared."""
    run = PlanRun(prompt="Do it.")
    criteria = [{"when": "claimed == 1"}]
    run.decide({"steps": [step("ann", acceptance_criteria=criteria), block(ask("bob", acceptance_criteria=criteria))]})
    assert not run.children and run.path[-1] == "planner_active"
    run.decide({"steps": [step("ann"), block(ask("bob", acceptance_criteria=criteria))]})
    assert run.finished.reason == "plan_invalid"
    assert run.finished.final["message"].endswith(
        "steps[1].parallel.steps[0].acceptance_criteria: there is no such field"
    )
