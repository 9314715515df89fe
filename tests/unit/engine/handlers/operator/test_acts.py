"""What a person does to a run from outside: pauses, gates, notes, questions how confident it is."""

from uuid import UUID, uuid4

import pytest
from tests.support.engine.goal_machine import PASSING, goal_run
from tests.support.engine.machine import RUN, Machine, respond, types, use, use_all
from tests.support.engine.plan_machine import PlanRun, ask, block
from tests.support.engine.team_machine import TeamLeadRun, asks

from towpath_contracts import facts
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.runs.run_control import MAX_HOLDS
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.advance import wake_at
from towpath_engine.state.run import Status

DAY_S = 86_400


def test_a_paused_run_asks_nothing_and_its_time_stands_still() -> None:
    machine = Machine()
    asked = machine.request_id
    (opened,) = machine.steer("pause", text="let me look", after=1.0)
    assert isinstance(opened, ev.GateOpened)
    assert (opened.gate_type, opened.reason) == ("run_paused", "ann paused the run: let me look")
    assert machine.state.status is Status.WAITING and machine.state.pending == ()
    spent = machine.state.active_ms
    late = facts.DecisionMadeFact(run_id=RUN, request_id=asked, attempt=1, decision=respond("too late"))
    assert machine.feed(late, after=60) == []
    for _ in range(3):
        assert machine.timer(after=DAY_S) == []
    assert machine.state.active_ms == spent
    machine.resume(after=5)
    (again,) = machine.requests
    assert isinstance(again, DecisionRequest) and again.request_id != asked and again.step == 1
    machine.decide(respond("done"))
    assert machine.finished.status == "completed"


def test_calls_that_are_under_way_come_to_their_end_and_nothing_follows() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.steer("pause")
    assert machine.state.status is Status.RUNNING
    machine.finish(0)
    assert types(machine.finish(1)) == ["tool_call_finished"] and machine.state.status is Status.WAITING
    assert types(machine.resume()) == ["gate_closed", "decision_requested"]


def test_a_call_that_a_person_lets_go_meanwhile_is_dispatched_at_the_resume() -> None:
    machine = Machine()
    machine.decide(use("echo", text="5"))
    machine.want_approval(uuid4(), hours=100)
    machine.steer("pause")
    assert machine.state.status is Status.WAITING
    approval = machine.state.gates[0].gate_id
    assert types(machine.resolve("approved", gate_id=approval)) == ["gate_closed"] and machine.requests == []
    assert machine.state.status is Status.WAITING, "its time stands still"
    assert machine.timer(after=600) == []
    assert types(machine.resume()) == ["gate_closed", "effect_resent"]
    assert [type(request) for request in machine.requests] == [ToolRequest]
    machine.finish(0)
    assert machine.state.asked == "decide" and machine.request_id


def test_what_was_held_back_has_its_whole_time_from_the_resume_on() -> None:
    machine = Machine()
    machine.decide(use("echo", text="5"))
    machine.want_approval(uuid4(), hours=100)
    machine.steer("pause")
    machine.resolve("approved", gate_id=machine.state.gates[0].gate_id)
    machine.resume(after=DAY_S)
    (request,) = machine.requests
    assert isinstance(request, ToolRequest) and request.deadline > machine.now
    lead = TeamLeadRun()
    lead.decide(asks("ann"))
    lead.steer("pause")
    assert lead.permit() == []
    lead.resume(after=DAY_S)
    (asked,) = lead.requests
    assert isinstance(asked, ToolRequest) and asked.deadline > lead.now


def test_a_poll_whose_time_comes_during_a_pause_begins_after_it() -> None:
    machine = Machine()
    for number in range(3):
        machine.decide(use("poll", text="x"))
        if number < 2:
            machine.wake()
            machine.finish(result=str(number))
    (pending,) = machine.state.pending
    assert pending.attempt == 0
    machine.steer("pause")
    assert machine.state.status is Status.WAITING and machine.timer(after=DAY_S) == []
    machine.resume()
    machine.wake()
    (request,) = machine.requests
    assert isinstance(request, ToolRequest) and request.deadline > machine.now


def test_a_run_takes_so_many_gates_and_so_many_pauses_of_people() -> None:
    machine = Machine()
    for number in range(1, 2 * MAX_HOLDS):
        machine.steer("gate", number)
        machine.steer("pause", 1_000 + number)
    kinds = [gate.gate_type for gate in machine.state.gates]
    assert (kinds.count("manual"), kinds.count("run_paused")) == (MAX_HOLDS, MAX_HOLDS)
    machine.resolve("approved", gate_id=machine.state.gates[0].gate_id)
    machine.steer("gate", 2_000)
    assert len(machine.state.gates) == 2 * MAX_HOLDS


def test_an_act_is_taken_once_however_often_it_is_delivered() -> None:
    machine = Machine()
    for _ in range(2):
        machine.steer("pause", 7)
        machine.steer("note", 8, "The order is 8813.")
        machine.steer("gate", 9)
    assert len(machine.events(ev.GateOpened)) == 2 and len(machine.events(ev.NoteGiven)) == 1
    machine.resume()
    assert machine.steer("pause", 7) == [], "a pause that is delivered again after its resume pauses nothing"
    for number in range(100, 140):
        machine.steer("note", number, "so many notes")
    assert machine.steer("pause", 7) == [], "nor after many other acts"
    assert len(machine.context.notes) <= 20


def test_two_people_may_pause_a_run_and_a_resume_of_one_is_not_that_of_the_other() -> None:
    machine = Machine()
    machine.steer("pause", 1)
    machine.steer("pause", 2)
    assert types(machine.resume()) == ["gate_closed"] and machine.state.held
    assert types(machine.resume()) == ["gate_closed", "decision_requested"]


def test_a_pause_is_no_question_and_only_a_resume_ends_it() -> None:
    machine = Machine()
    machine.steer("pause")
    for verdict in ("approved", "denied", "stop"):
        assert machine.resolve(verdict) == []
    machine.resume()
    machine.steer("gate", 2)
    assert machine.resolve("resumed") == [], "and a resume answers no question"


def test_a_run_that_waits_for_room_can_be_paused_and_then_begins() -> None:
    machine = Machine(start=False)
    machine.steer("pause")
    assert types(machine.admit()) == ["run_started"] and machine.state.status is Status.WAITING
    assert types(machine.resume()) == ["gate_closed", "decision_requested"]


def test_a_paused_run_can_be_cancelled() -> None:
    machine = Machine()
    machine.steer("pause")
    machine.cancel()
    assert machine.finished.status == "cancelled"
    assert machine.steer("note", 2, "too late") == []


def test_a_gate_from_outside_is_settled_like_any_gate() -> None:
    machine = Machine()
    machine.steer("gate", text="is this the right customer?")
    (opened,) = machine.events(ev.GateOpened)
    assert (opened.gate_type, opened.reason) == ("manual", "ann put a gate on the run: is this the right customer?")
    assert machine.state.status is Status.WAITING and opened.detail["verdicts"] == ["approved", "denied", "stop"]
    settled = machine.resolve("approved", gate_id=opened.gate_id, reason="yes, 8813")
    assert types(settled) == ["gate_closed", "note_added", "decision_requested"]
    assert machine.context.notes == ("A person says: yes, 8813",)
    machine.steer("gate", 2)
    machine.resolve("stop")
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "manual")


def test_a_note_is_read_with_the_next_decision_that_is_asked_for() -> None:
    machine = Machine()
    machine.steer("note", text="The order is 8813.")
    assert machine.context.notes == (), "the request that is on its way was made without it"
    machine.decide(use("echo", text="x"))
    machine.finish()
    assert machine.context.notes == ("A person says: The order is 8813.",)
    machine.decide(use("echo", text="y"))
    machine.finish()
    assert machine.context.notes == (), "and it is told once"
    assert {"type": "system", "step": 1, "text": "A person says: The order is 8813."} in machine.log.execution_log


def test_a_pause_a_note_and_a_resume_have_the_model_decide_anew() -> None:
    machine = Machine()
    machine.steer("pause", 1)
    machine.steer("note", 2, "Ask the customer first.")
    machine.resume()
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest) and request.context.notes == ("A person says: Ask the customer first.",)


def test_confidence_is_asked_for_when_the_step_is_over() -> None:
    machine = goal_run("tests.failed == 0", confidence_every=50, autonomy="low")
    machine.steer("confidence", text="the customer is angry")
    machine.decide(use("edit", text="x"))
    machine.finish()
    assert machine.state.asked == "confidence"
    machine.decide({"confidence": 0.9, "reason": "nearly there"})
    (measured,) = machine.events(ev.GoalConfidenceMeasured)
    assert measured.trigger == "requested"
    machine.resolve("approved")
    machine.decide(use("test", text="x"))
    machine.finish(result=PASSING)
    assert machine.finished.reason == "criteria_met"
    assert Machine().steer("confidence") == [], "only a goal run is asked"


def test_a_paused_plan_starts_no_agent_until_it_goes_on() -> None:
    run = PlanRun(block(*(ask(key) for key in ("ann", "bob", "cid", "dan", "eve"))))
    run.steer("pause")
    run.end(0)
    assert len(run.children) == 4, "the fifth waits"
    for place in (1, 2, 3):
        run.end(place)
    assert run.state.status is Status.WAITING
    run.resume()
    assert len(run.children) == 5
    run.end(4)
    assert run.finished.status == "completed"


def test_a_paused_lead_starts_no_member_until_it_goes_on() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann", "bob"))
    run.permit(0)
    run.steer("pause")
    assert run.permit(1) == [] and len(run.children) == 1
    assert run.call_id(1) not in run.requested
    run.end(0)
    assert run.state.status is Status.WAITING
    run.timer(after=60)
    assert run.requested == []
    assert types(run.resume()) == ["gate_closed", "effect_resent"] and run.requested == [run.call_id(1)]
    run.permit(1)
    assert len(run.children) == 2


def test_no_delegate_that_waits_for_room_is_asked_for_while_the_run_is_paused() -> None:
    run = TeamLeadRun()
    run.decide(asks("ann", "bob", "cid", "dan", "eve"))
    for place in range(4):
        run.permit(place)
    run.steer("pause")
    run.end(0)
    assert run.requested == [], "the fifth has room, and is not asked for"
    run.resume()
    assert run.requested == [run.call_id(4)]


def test_the_deadline_asks_a_person_also_while_the_run_is_paused() -> None:
    goal = {"goal": "Do it.", "acceptance_criteria": [], "settings": {"on_timeout": "gate", "validate_steps": False}}
    machine = Machine(kind="goal", goal=goal, timeout_ms=10_000)
    machine.decide(use("echo", text="x"))
    machine.steer("pause")
    machine.timer(after=20)
    assert [gate.gate_type for gate in machine.state.gates] == ["run_paused", "timeout"], "a call was under way"
    machine.finish()
    machine.resume()
    machine.resolve("approved")
    assert machine.request_id


@pytest.mark.parametrize("order", [("resumed", "approved"), ("approved", "resumed")])
def test_a_request_that_was_given_up_is_made_once_whoever_lets_go_last(order: tuple[str, str]) -> None:
    machine = Machine()
    machine.steer("pause", 1)
    machine.steer("gate", 2)
    for verdict in order:
        assert not machine.requests
        kind = "run_paused" if verdict == "resumed" else "manual"
        gate = next(gate for gate in machine.state.gates if gate.gate_type == kind)
        machine.resolve(verdict, gate_id=gate.gate_id)
    assert len(machine.requests) == 1 and machine.state.step == 1
    due = wake_at(machine.state)
    assert due is not None and due > machine.now


def test_a_pause_of_an_act_names_the_one_of_the_run_above() -> None:
    machine = Machine()
    body = {"act": "pause", "act_id": UUID(int=5), "by": "ann", "pause_id": UUID(int=4)}
    (opened,) = machine.feed(facts.RunSteeredFact.model_validate({"run_id": RUN, **body}))
    assert isinstance(opened, ev.GateOpened) and opened.detail["pause"] == str(UUID(int=4))
