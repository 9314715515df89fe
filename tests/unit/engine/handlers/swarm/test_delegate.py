"""Calls that are child runs in the run machine: a team's delegates, and plans."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.support.engine.machine import respond, use, use_all
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.support.engine.team_machine import INNER, MEMBERS, NETWORK, TEAM, TeamLeadRun, asks

from towpath_contracts import facts
from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_engine.advance import wake_at
from towpath_engine.handlers.children import new_child_run
from towpath_engine.handlers.fork import ForkRefusedError, ForkStateFinder
from towpath_engine.reducers.fork import inherited_of
from towpath_engine.state.run import EffectKind, RunState
from towpath_readings.effects import effects_of


def told_effects(run: TeamLeadRun) -> list[str]:
    """Return what is reported of the run's calls after its end."""
    return [effect.outcome for effect in effects_of([entry.event for entry in run.entries])]


def failed_plan(child: PlanRun, fail: Callable[[PlanRun], object]) -> Any:
    """Return what a plan that fails tells its parent."""
    fail(child)
    assert child.finished.status == "failed"
    return child.finished.final


def test_b11_a_delegate_is_a_child_run_and_its_answer_the_result_of_the_call() -> None:
    """Row B11: the lead gets `delegate_to_<name>(task)`; workers are child runs."""
    run = TeamLeadRun()
    run.decide(use("delegate_to_ann", task="count the boats"))
    assert run.requested == [run.call_id()] and not run.children
    run.permit()
    (child,) = run.children
    assert (child.task.agent_key, child.task.user_message) == ("ann", "count the boats")
    assert (child.task.execution_id, child.task.policy_version, child.task.max_steps) == (run.call_id(), 7, 10)
    run.end(final={"message": "three"}, after=2)
    (result,) = run.results
    assert (result.status, result.result, result.policy_version) == ("succeeded", {"message": "three"}, 7)
    assert result.duration_ms == 2_000, "a call takes as long as its child"
    assert [one.status for one in run.outcomes] == ["succeeded"], "the ledger gets it"
    assert run.context.outputs[0].tool == "delegate_to_ann", "and the lead sees it at its next step"
    run.decide(respond("three boats"))
    assert run.finished.status == "completed"


def test_b11_the_error_of_a_worker_is_the_error_of_its_tool() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    run.end(status="failed", reason="max_steps_exceeded", final={"message": "no answer within 10 steps"})
    (result,) = run.results
    assert result.status == "failed" and result.failure is not None and result.failure.code == "delegation_failed"
    assert result.failure.message.startswith("Delegation to 'ann' failed: failed, max_steps_exceeded")
    assert not run.state.is_final


def test_b11_a_nested_team_is_a_delegate_too() -> None:
    run = TeamLeadRun()
    run.decide(asks("inner"))
    run.permit()
    (child,) = run.children
    assert child.task.swarm is not None and child.task.swarm.swarm == INNER and child.task.swarm.path == ("inner",)
    assert child.task.agent_key == "gus"
    below = TeamLeadRun(swarm={"name": "outer", "path": ["outer"], "swarm": TEAM})
    below.decide(asks("inner"))
    below.permit()
    assert below.children[0].task.swarm is not None
    assert below.children[0].task.swarm.path == ("outer", "inner"), "as deep as it stands"


def test_e7_no_more_delegates_than_may_run_at_once_are_asked_for() -> None:
    """Row E7: parallel ≤ 4; the others wait in call order, without a message."""
    run = TeamLeadRun()
    run.decide(asks(*MEMBERS))
    assert run.requested == [run.call_id(index) for index in range(4)]
    for index in range(4):
        run.permit(index)
    run.permit(5)
    assert len(run.children) == 4, "a permission before its turn starts nothing"
    run.end(2)
    assert run.requested == [run.call_id(4)]
    run.permit(4)
    run.end(0)
    assert run.requested == [run.call_id(5)]
    run.permit(5)
    assert [child.task.agent_key for child in run.children] == list(MEMBERS)
    for place in (1, 3, 4, 5):
        run.end(place)
    assert [result.call_index for result in run.results] == [2, 0, 1, 3, 4, 5]
    assert [output.tool for output in run.context.outputs[:2]] == ["delegate_to_ann", "delegate_to_bob"], "joined"


def test_e7_whatever_a_caller_lowers_holds_for_every_run_below() -> None:
    """Row E7: callers can only lower: a plan of a lead that may ask two at once may not ask three."""
    narrow = TEAM.model_copy(update={"max_parallel": 2})
    run = TeamLeadRun(swarm={"swarm": narrow})
    crowd = {"steps": [block(*map(ask, MEMBERS[:4]))]}
    run.decide(use(ORCHESTRATE, plan=crowd, max_parallel=4))
    run.permit()
    born = new_child_run(run.state, run.children[0]).task
    assert born.plan is not None and born.parent is not None and born.parent.max_parallel == 2
    below = PlanRun(*crowd["steps"], network=NETWORK, parent=born.parent, cursors={})
    assert len(below.children) == 2
    below.end()
    assert len(below.children) == 3
    assert new_child_run(below.state, below.children[0]).task.parent.max_parallel == 2  # type: ignore[union-attr]
    assert (
        "max_parallel" not in new_child_run(TeamLeadRun().state, run.children[0]).task.model_dump(mode="json")["parent"]
    )


def test_a_permission_that_is_reported_again_starts_nothing() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann", "bob"))
    run.permit()
    assert run.permit() == [] and len(run.children) == 1
    run.end()
    assert run.permit() == []


def test_while_its_child_runs_nobody_is_asked_about_a_call() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    (child,) = run.children
    wake = wake_at(run.state)
    pending = run.state.pending_effect(child.child_id)
    assert pending is not None and wake == pending.resend_at, "the child is what is waited for"
    run.feed(facts.TimerFiredFact(run_id=run.state.run_id), after=60)
    assert run.requested == []


def test_calls_of_both_kinds_run_together_and_join_in_call_order() -> None:
    run = TeamLeadRun()
    run.decide(use_all(("delegate_to_ann", {"task": "a"}), ("echo", {"text": "b"})))
    run.permit()
    run.finish(1, "b")
    assert not run.state.calls[0].status and run.state.asked == "decide"
    run.end(final={"message": "a"})
    assert [output.text for output in run.context.outputs[:2]] == ['{"message":"a"}', "b"]


def test_active_time_stands_still_while_a_delegate_waits_for_people() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    child = run.state.children[0].child_id
    run.feed(facts.ChildReportedFact(run_id=run.state.run_id, child_id=child, child_seq=5, status="waiting", news=True))
    assert run.state.status == "waiting" and run.state.active_since is None


def test_e1_a_plan_is_a_child_run_and_its_report_the_result() -> None:
    """Row E1: `plan` XOR `prompt`, bindings, timeout_ms, max_parallel; a plan that fails is a failed call."""
    run = TeamLeadRun()
    plan = {"steps": [step("ann", "look", result_key="seen")]}
    run.decide(use(ORCHESTRATE, plan=plan, bindings={"a": 1}, timeout_ms=5_000, max_parallel=2))
    run.permit()
    (child,) = run.children
    task = child.task.plan
    assert task is not None and task.plan == plan and (task.max_parallel, child.task.timeout_ms) == (2, 5_000)
    final = failed_plan(PlanRun(*plan["steps"], network=NETWORK), lambda child: child.end(status="failed"))
    run.end(status="failed", reason="plan_failed", final=final)
    (result,) = run.results
    assert result.failure is not None and (result.status, result.failure.code) == ("failed", "plan_failed")
    assert "the plan failed: step_01: " in result.failure.message
    assert set(result.result) == {"success", "steps", "bindings", "errors"}
    assert run.state.tool_errors == 1 and '"errors":' in run.context.outputs[0].text, "the model sees both"
    assert result.result["success"] is False
    assert [(one["status"], one["error"]["code"]) for one in result.result["steps"]] == [("failed", "failed")]


def test_e1_bad_input_is_a_tool_error_with_every_fault() -> None:
    run = TeamLeadRun()
    run.decide(use(ORCHESTRATE, plan={"steps": [step("nobody", id="a"), step("ann", id="a")]}))
    run.permit()
    (result,) = run.results
    assert result.status == "failed" and result.failure is not None and not run.children
    assert result.failure.code == "plan_invalid" and result.failure.began is False
    assert "nobody" in result.failure.message and "steps[1].id" in result.failure.message


def test_e1_a_planner_that_fails_is_a_tool_error() -> None:
    run = TeamLeadRun()
    run.decide(use(ORCHESTRATE, prompt="do something"))
    run.permit()
    assert run.children[0].task.plan is not None and run.children[0].task.plan.prompt == "do something"
    unplanned = PlanRun(prompt="do something", network=NETWORK)
    final = failed_plan(unplanned, lambda child: [child.decide({"steps": []}), child.decide({"steps": []})])
    run.end(status="failed", reason="plan_invalid", final=final)
    (result,) = run.results
    assert result.status == "failed" and result.failure is not None and result.failure.code == "plan_invalid"
    assert "steps" in result.failure.message


def test_e7_at_the_deepest_level_nothing_is_started() -> None:
    """Row E7: depth ≤ 3."""
    above = {"run_id": UUID(int=1), "root_id": UUID(int=2), "step": 1, "index": 0, "depth": 3}
    run = TeamLeadRun(parent=above, cursors={})
    run.decide(use_all(("delegate_to_ann", {"task": "a"}), (ORCHESTRATE, {"prompt": "p"})))
    run.permit(0)
    run.permit(1)
    assert [one.failure.code for one in run.results if one.failure] == ["depth_exceeded", "depth_exceeded"]
    assert not run.children


def test_e11_a_cancel_reaches_the_child_of_a_call() -> None:
    """Row E11: cancellation reaches every child; the run has ended when they have."""
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    child = run.state.children[0].child_id
    run.feed(facts.CancelRequestedFact(run_id=run.state.run_id, by="me"))
    asked = [effect.message for effect in run.sent if effect.effect.kind is EffectKind.CHILD]
    assert [(one.child_id, one.cancel) for one in asked] == [(child, True)]  # type: ignore[union-attr]
    run.fence(voided=(run.call_id(),))
    assert not run.state.is_final
    run.end(status="cancelled")
    assert run.finished.status == "cancelled"
    assert [effect["outcome"] for effect in run.finished.effects] == ["failed"], "it had begun"
    assert [one.status for one in run.outcomes] == ["failed"], "and so the ledger says, whatever was voided"
    assert told_effects(run) == ["failed"]


def test_e11_a_cancel_voids_what_had_not_begun_and_takes_the_answer_of_what_ends_all_the_same() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann", "bob", "cid"))
    run.permit(0)
    run.permit(1)
    run.feed(facts.CancelRequestedFact(run_id=run.state.run_id, by="me"))
    run.permit(2)
    assert len(run.children) == 2, "nothing starts any more"
    run.fence(voided=tuple(run.call_id(index) for index in range(3)))
    run.end(0)
    run.end(1, status="quarantined", reason="log_unreadable")
    assert run.finished.status == "cancelled"
    assert [effect["outcome"] for effect in run.finished.effects] == ["happened", "failed", "did_not_happen"]


def test_e11_a_run_that_ends_says_that_its_delegates_were_cut_off() -> None:
    """Deadlines, budgets and errors end a run at once; its children are asked to stop, and their calls are closed."""
    run = TeamLeadRun(timeout_ms=60_000)
    run.decide(asks("ann", "bob"))
    run.permit()
    run.feed(facts.TimerFiredFact(run_id=run.state.run_id), after=61)
    assert run.finished.status == "timed_out"
    stopped = [effect.message for effect in run.sent if effect.effect.kind is EffectKind.CHILD]
    assert [one.cancel for one in stopped] == [True]  # type: ignore[union-attr]
    (result,) = run.results
    assert result.failure is not None and result.failure.code == "run_ended" and result.failure.began
    run.fence(voided=(run.call_id(0), run.call_id(1)))
    assert told_effects(run) == [
        "failed",
        "did_not_happen",
    ]
    run.end(status="cancelled")
    assert run.state.children[0].ended and len(run.results) == 1


def test_a_child_that_is_parked_is_a_failed_call() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    run.end(status="quarantined", reason="execution_conflict")
    (result,) = run.results
    assert result.failure is not None
    assert result.failure.message == "Delegation to 'ann' failed: quarantined, execution_conflict"
    assert run.state.asked == "decide" and run.state.step == 2, "the lead goes on"


def test_arguments_that_a_person_changed_are_what_the_delegate_is_asked() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit(executed_args={"task": "count them twice"}, edited_by="eve")
    assert [child.task.user_message for child in run.children] == ["count them twice"]
    assert run.state.calls[0].edited_by == "eve"


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        ({"plan": {"steps": [step("ann", "")]}}, "plan_invalid", "steps[0].agent needs a prompt or with"),
        ({"prompt": "Look.", "bindings": {"x": "y" * 262_144}}, "arguments_invalid", "the limit is 262144"),
    ],
)
def test_e1_plans_by_the_tool_say_all_that_is_to_be_done_within_the_bounds_of_tasks(
    args: dict[str, Any], code: str, expected: str
) -> None:
    """Row E1: built-in tool `agent_orchestrate` with plan, bindings."""
    run = TeamLeadRun()
    run.decide(use(ORCHESTRATE, **args))
    run.permit()
    (failure,) = [one.failure for one in run.results]
    assert failure is not None and failure.code == code and expected in failure.message and not run.children


def test_what_a_plan_has_answered_is_judged_like_any_action_of_a_goal() -> None:
    """Models wrote it: the record alone does not tell whether it brings the goal nearer."""
    run = TeamLeadRun(kind="goal", swarm=None, goal={"goal": "Do it."})
    run.decide(use(ORCHESTRATE, prompt="do something"))
    run.permit()
    run.end(final={"success": True, "steps": [{"id": "a"}], "bindings": {}, "errors": []})
    assert run.results[0].status == "succeeded" and run.state.asked == "validate"


def test_only_the_lead_of_a_team_has_delegates() -> None:
    run = TeamLeadRun(kind="network", swarm=None)
    run.decide(asks("ann"))
    run.permit()
    assert [one.failure.code for one in run.results if one.failure] == ["tool_unknown"]


def test_a_fork_begins_after_delegates_that_have_ended_and_not_while_one_runs() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann"))
    run.permit()
    with pytest.raises(ForkRefusedError, match="step 1 is not over"):
        before(run, 2)
    run.end(final={"message": "three"})
    known = before(run, 2)
    assert [output.text for output in known.outputs] == ['{"message":"three"}']
    assert "children" not in inherited_of(known, new_script=False), "nor is anybody asked again"


def before(run: TeamLeadRun, step: int) -> RunState:
    """Return what the run knew before a step."""
    point = ForkStateFinder(run.state.run_id, run.network, step)
    next((entry for entry in run.entries if point.observe(entry)), None)
    return point.state()


def test_the_lead_of_a_team_pursues_a_goal_by_what_its_members_did() -> None:
    done = "results.exists(r, r.tool == 'delegate_to_ann' && r.status == 'succeeded')"
    goal = {"goal": "Do it.", "acceptance_criteria": [{"when": done}], "settings": {"validate_steps": False}}
    run = TeamLeadRun(kind="goal", goal=goal)
    run.decide(respond("I am done."))
    assert run.state.asked == "decide" and run.state.step == 2, "its word alone counts for nothing"
    run.decide(use("delegate_to_ann", task="count the boats"))
    run.permit()
    child = new_child_run(run.state, run.children[0]).task
    assert (child.kind, child.goal) == ("network", None), "a member works as always"
    run.end(0, status="failed")
    assert run.state.asked == "replan", "a delegation that failed is tried again in another way"
    run.wake()
    run.decide(use("delegate_to_ann", task="count them from the tower"))
    run.permit()
    run.end(1)
    assert (run.finished.status, run.finished.reason, run.finished.steps) == ("completed", "criteria_met", 2)
