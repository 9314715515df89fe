"""The ladder after a denial in goal runs: another tool, another agent in a run of its own, a person (feature C9)."""

from tests.support.engine_machine import use
from tests.support.goal_machine import asked, deny, goal_run

from towpath_contracts import events as ev
from towpath_contracts import facts
from towpath_engine.state import EffectKind, Status


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
    said = {"child_seq": 9, "status": "completed", "ended": True, "final": {"message": "built"}}
    machine.feed(facts.ChildTold.model_validate({"run_id": machine.state.run_id, "child_id": child.child_id, **said}))
    assert asked(machine) == "decide" and machine.context.outputs[0].tool == "agent:senior"
    assert "built" in machine.context.outputs[0].text and machine.state.step == 2
    machine.decide(use("deploy"))
    deny(machine, escalation={"role": "policy_admin"})
    rungs = [(one.rung, one.tool) for one in machine.events(ev.HelpSought)]
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
    said = {"child_seq": 9, "status": "failed", "ended": True, "reason": "max_steps_exceeded"}
    machine.feed(facts.ChildTold.model_validate({"run_id": machine.state.run_id, "child_id": child.child_id, **said}))
    assert [one.rung for one in machine.events(ev.HelpSought)] == ["specialist", "person"]
    (gate,) = machine.events(ev.GateOpened)
    machine.resolve("denied", gate_id=gate.gate_id, reason="leave it")
    assert asked(machine) == "decide" and machine.state.step == 2


def test_at_low_autonomy_no_specialist_is_asked_without_a_person() -> None:
    machine = goal_run("tests.failed == 0", autonomy="low")
    machine.decide(use("deploy"))
    deny(machine, specialists=({"agent_key": "senior"},), escalation={"role": "policy_admin"})
    assert [one.rung for one in machine.events(ev.HelpSought)] == ["person"] and not machine.events(ev.ChildStarted)


def test_a_call_that_only_its_arguments_keep_back_is_no_matter_of_the_ladder() -> None:
    machine = goal_run("tests.failed == 0")
    machine.decide(use("deploy"))
    deny(machine, violation_type="invalid_arguments", escalation={"role": "", "why": "nobody can"})
    assert asked(machine) == "replan" and machine.events(ev.BackedOff) and not machine.events(ev.HelpSought)
