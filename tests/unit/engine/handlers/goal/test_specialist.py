"""The ladder after a denial in goal runs: another tool, another agent in a run of its own, a person."""

import pytest
from tests.support.engine.goal_machine import asked, deny, goal_run
from tests.support.engine.machine import Machine, use

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.handlers.children import report_for_parent
from towpath_engine.state.run import EffectKind, Status


def test_denied_alternative_then_specialist_then_person() -> None:
    machine = goal_run("tests.failed == 0")
    able = {"specialists": ({"agent_key": "senior"},), "escalation": {"role": "policy_admin"}}
    machine.decide(use("deploy"))
    deny(machine, alternatives=({"tool": "build"},), **able)
    assert asked(machine) == "replan" and "build" in machine.context.notes[0]
    machine.decide(use("build"))
    deny(machine, alternatives=({"tool": "edit"},), **able)
    (child,) = machine.events(ev.ChildStarted)
    assert (child.task.agent_key, child.task.purpose, child.task.subject) == ("senior", "specialist", "build")
    assert machine.state.agent_key == "coder" and [p.kind for p in machine.state.pending] == [EffectKind.CHILD]
    fields = {"child_seq": 9, "status": "completed", "ended": True, "final": {"message": "built"}}
    machine.feed(
        facts.ChildReportedFact.model_validate({"run_id": machine.state.run_id, "child_id": child.child_id, **fields})
    )
    assert asked(machine) == "decide" and machine.context.outputs[0].tool == "agent:senior"
    assert "built" in machine.context.outputs[0].text and machine.state.step == 2
    machine.decide(use("deploy"))
    deny(machine, escalation={"role": "policy_admin"})
    rungs = [(one.rung, one.tool) for one in machine.events(ev.DenialEscalated)]
    assert rungs == [("alternative", "deploy"), ("specialist", "build"), ("person", "deploy")]
    (gate,) = machine.events(ev.GateOpened)
    assert gate.gate_type == "permission" and machine.state.status == Status.WAITING
    machine.resolve("approved", gate_id=gate.gate_id, reason="a rule was added")
    assert (
        asked(machine) == "decide"
        and machine.state.goal is not None
        and machine.state.goal.rungs == ("build:specialist",)
    )


def test_a_specialist_that_asks_in_vain_leads_to_a_person() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("deploy"))
    deny(machine, specialists=({"agent_key": "senior"},), escalation={"role": "policy_admin"})
    (child,) = machine.events(ev.ChildStarted)
    fields = {"child_seq": 9, "status": "failed", "ended": True, "reason": "max_steps_exceeded"}
    machine.feed(
        facts.ChildReportedFact.model_validate({"run_id": machine.state.run_id, "child_id": child.child_id, **fields})
    )
    assert [one.rung for one in machine.events(ev.DenialEscalated)] == ["specialist", "person"]
    (gate,) = machine.events(ev.GateOpened)
    assert f"specialist senior was asked in vain (run {child.child_id}: failed, max_steps_exceeded)" in gate.reason
    members = {"agent": "senior", "run_id": str(child.child_id), "status": "failed", "reason": "max_steps_exceeded"}
    assert gate.detail["asked"] == [members]
    machine.resolve("denied", gate_id=gate.gate_id, reason="leave it")
    assert asked(machine) == "decide" and machine.state.step == 2


def test_at_low_autonomy_no_specialist_is_asked_without_a_person() -> None:
    machine = goal_run("tests.failed == 0", autonomy="low")
    machine.decide(use("deploy"))
    deny(machine, specialists=({"agent_key": "senior"},), escalation={"role": "policy_admin"})
    assert [one.rung for one in machine.events(ev.DenialEscalated)] == ["person"] and not machine.events(
        ev.ChildStarted
    )


def test_a_call_that_only_its_arguments_keep_back_is_no_matter_of_the_ladder() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("deploy"))
    deny(machine, violation_type="invalid_arguments", escalation={"role": "", "why": "nobody can"})
    assert asked(machine) == "replan" and machine.events(ev.BackedOff) and not machine.events(ev.DenialEscalated)


DEPLOYED = "results.exists(r, r.tool == 'deploy' && r.status == 'succeeded')"


def _specialist_says(machine: Machine, **given: object) -> None:
    machine.decide(use("deploy"))
    deny(machine, specialists=({"agent_key": "senior"},), escalation={"role": "policy_admin"})
    (child,) = machine.events(ev.ChildStarted)
    fields = {"child_seq": 9, "status": "completed", "ended": True, "final": {"message": "live"}, **given}
    machine.feed(
        facts.ChildReportedFact.model_validate({"run_id": machine.state.run_id, "child_id": child.child_id, **fields})
    )


def test_what_a_specialist_did_counts_for_the_goal() -> None:
    """C9, C1: the documented criterion is met by the specialist's run, in the very step in which it was asked."""
    machine = goal_run(DEPLOYED)
    _specialist_says(machine, worked=("deploy",))
    failed, succeeded = machine.events(ev.StepResultValidated)
    assert (failed.success, succeeded.success, succeeded.criteria) == (False, True, (0,))
    assert succeeded.step == 1 and succeeded.reason.startswith("senior did deploy in run ")
    assert (machine.finished.status, machine.finished.reason) == ("completed", "criteria_met")
    goal = machine.state.goal
    assert goal is not None and goal.failures == goal.consecutive_failures == 0 and len(goal.last_steps) == 1
    assert goal.results[-1]["agent"] == "senior" and goal.results[-1]["result"] == {"message": "live"}


@pytest.mark.parametrize(
    "expected", [{"worked": ()}, {"worked": ("edit",)}, {"worked": ("deploy",), "status": "failed"}]
)
def test_a_specialists_claim_alone_counts_for_nothing(expected: dict[str, object]) -> None:
    """Its log must hold a call of the tool that succeeded, and it must have completed."""
    machine = goal_run(DEPLOYED)
    _specialist_says(machine, **expected)
    assert not machine.state.is_final and [one.success for one in machine.events(ev.StepResultValidated)] == [False]
    assert machine.state.goal is not None and machine.state.goal.results[-1]["status"] == "failed"


def test_a_text_is_judged_by_what_the_specialist_did() -> None:
    machine = goal_run(DEPLOYED, texts=("It is live.",), validate_steps=True)
    _specialist_says(machine, worked=("deploy",))
    assert asked(machine) == "validate" and machine.context.assessment is not None
    assert machine.context.assessment["results"][-1]["result"] == {"message": "live"}
    machine.decide({"valid": True, "criteria": [{"criterion": 1, "met": True}]})
    assert machine.finished.reason == "criteria_met"


def test_a_child_tells_which_tools_worked_in_it() -> None:
    top = Machine()
    parent = {"run_id": top.state.run_id, "root_id": top.state.run_id, "step": 1, "index": 0, "depth": 1}
    child = Machine(parent=parent)
    child.decide(use("echo", text="a"))
    child.fail()
    report = report_for_parent(child.state)
    assert report is not None and report.worked == ()
    child.decide(use("echo", text="b"))
    child.finish()
    report = report_for_parent(child.state)
    assert report is not None and report.worked == ("echo",) and report_for_parent(top.state) is None
