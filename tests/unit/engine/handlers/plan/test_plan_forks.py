"""A plan, or a workflow, is forked from one of its steps: with the results of those before it, and none begun again."""

import pytest
from tests.support.engine.machine import Machine
from tests.support.engine.plan_machine import PlanRun, ask, block, step
from tests.unit.engine.handlers.test_fork import CHILD, Fork, before

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.fork import ForkRefusedError
from towpath_engine.replay import replay
from towpath_readings.plans import project_plan

STEPS = (
    step("ann", result_key="a"),
    block(ask("bob", "{{ result.a.message }}"), ask("cid")),
    step("dan", "{{ result.step_02.0.message }}"),
)


def done() -> PlanRun:
    run = PlanRun(*STEPS)
    run.end(0, {"message": "A"})
    run.end(0, {"message": "B"})
    run.end(1, {"message": "C"})
    run.end(0, status="failed")
    assert run.finished.reason == "plan_failed"
    return run


def asked(fork: Fork) -> list[tuple[str, str]]:
    children = [entry.event for entry in fork.entries if isinstance(entry.event, ev.ChildStarted)]
    return [(child.task.agent_key, child.task.user_message) for child in children]


def end(fork: Fork, message: str) -> None:
    child = next(child for child in fork.state.children if not child.ended)
    more = {"child_seq": 9, "status": "completed", "ended": True, "final": {"message": message}}
    fork.take(facts.ChildReportedFact.model_validate({"run_id": CHILD, "child_id": child.child_id, **more}))


def refusal(parent: Machine, place: int) -> str:
    with pytest.raises(ForkRefusedError) as refused:
        before(parent, place).state()
    return str(refused.value)


def test_a_fork_begins_with_its_step_and_has_the_results_of_those_before_it() -> None:
    parent = done()
    assert asked(Fork(parent, 3)) == [("dan", "B")]
    assert asked(Fork(parent, 2)) == [("bob", "A"), ("cid", "go")]
    assert asked(Fork(parent, 1)) == [("ann", "go")]


def test_its_answer_has_all_steps_and_its_log_shows_and_replays_them() -> None:
    parent = done()
    fork = Fork(parent, 3)
    end(fork, "D")
    assert fork.state.status == "completed" and fork.state.final is not None
    assert [one["status"] for one in fork.state.final["steps"]] == ["success"] * 3
    assert fork.state.final["bindings"]["a"] == {"message": "A"}
    view = project_plan(CHILD, fork.entries)
    assert view is not None and [one.status for one in view.steps] == ["success"] * 3
    assert view.steps[0].agents[0].run_id == parent.children[0].child_id, "whose run it was"
    listed = [(fact, fork.entries[0].at) for fact in fork.facts]
    assert replay(CHILD, parent.network, tuple(fork.entries), listed) is None


def test_a_workflow_is_forked_from_a_stage() -> None:
    stages = [["ann"], ["bob", "cid"], ["dan"]]
    flow = {"swarm": {"mode": "workflow", "members": [], "stages": stages}}
    parent = PlanRun(kind="swarm", swarm=flow)
    parent.end(0, {"message": "from ann"})
    assert asked(Fork(parent, 2)) == [("bob", "from ann"), ("cid", "from ann")]


def test_a_step_that_has_not_come_is_no_place_to_fork_from() -> None:
    parent = PlanRun(*STEPS)
    assert asked(Fork(parent, 1)) == [("ann", "go")], "also while it is under way"
    assert refusal(parent, 2) == "the run has begun 1 step of its plan; name one from 1 to 1"
    whole = PlanRun(step("ann"))
    whole.end(0)
    assert refusal(whole, 2) == "the run has begun 1 step of its plan; name one from 1 to 1"
    assert refusal(PlanRun(prompt="Plan it."), 1) == "the run has no plan yet"


def test_a_fork_asks_people_what_the_plan_asks_them_before_the_step() -> None:
    parent = PlanRun(*STEPS)
    for since in (1, 99):
        found = {"finding": "cycle", "key": "a", "since": since, "steps": 5}
        parent.feed(facts.WatchdogReportedFact.model_validate({"run_id": parent.state.run_id, **found}))
    parent.end(0, {"message": "A"})
    assert parent.state.waits_at_run_gate and len(parent.children) == 1
    parent.steer("gate", 2)
    asks = [gate.gate_type for gate in parent.state.gates]
    assert [gate.gate_type for gate in Fork(parent, 2).state.gates] == asks == ["loop_detected", "manual"]
    for gate in parent.state.gates:
        parent.resolve("approved", gate_id=gate.gate_id)
    assert len(parent.children) == 3 and asked(Fork(parent, 2)) == [("bob", "A"), ("cid", "go")]
