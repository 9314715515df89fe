"""A call that a person changed: the log, the model and the gate tell of what was executed."""

from datetime import timedelta
from typing import Any
from uuid import uuid5

from tests.support.engine.machine import RUN, Machine, types, use

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.state.run import dump_state, load_state
from towpath_readings.execution_log import project_execution_log

ASKED = {"amount": "500", "account": "a"}
EDITED = {"amount": "50", "account": "a"}


def paying() -> Machine:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="500"))
    return machine


def wanted(machine: Machine, number: int, **more: Any) -> facts.ApprovalRequiredFact:
    fields = {
        "run_id": RUN,
        "execution_id": machine.call_id(),
        "approval_id": uuid5(RUN, f"approval {number}"),
        "rule": "people-first",
        "tool": "pay",
        "args": ASKED,
        "args_digest": "sha256:01",
        "digest": "sha256:02",
        "expires_at": machine.now + timedelta(hours=1),
    }
    return facts.ApprovalRequiredFact.model_validate({**fields, **more})


def finished(machine: Machine, **more: Any) -> facts.ToolFinishedFact:
    fields = {"run_id": RUN, "execution_id": machine.call_id(), "status": "succeeded", "result": "paid"}
    edit = {"executed_args": EDITED, "edited_by": "paula"}
    return facts.ToolFinishedFact.model_validate({**fields, **edit, **more})


def test_the_log_and_the_model_get_what_was_executed_and_nothing_of_what_a_model_may_not_see() -> None:
    machine = paying()
    assert types(machine.feed(finished(machine))) == ["tool_call_edited", "tool_call_finished", "decision_requested"]
    (edited,) = machine.events(ev.ToolCallEdited)
    assert (edited.args, edited.by, edited.tool) == (EDITED, "paula", "pay")
    (output,) = machine.context.outputs
    assert output.text == 'paula changed the arguments of this call to {"amount":"50"}\npaid'
    log = project_execution_log(machine.entries)
    assert log.tool_log[str(edited.execution_id)]["merged_params"] == EDITED
    assert '"50"' in str(log.execution_log[-1]["request_preview"])


def test_a_call_that_nobody_changed_says_nothing_of_it() -> None:
    machine = paying()
    plain = finished(machine, executed_args=None, edited_by="")
    assert types(machine.feed(plain)) == ["tool_call_finished", "decision_requested"]
    assert machine.context.outputs[0].text == "paid"


def test_a_doubt_about_a_changed_call_shows_the_changed_one_and_is_reported_once() -> None:
    machine = paying()
    doubt = finished(machine, status="unknown", result=None)
    assert types(machine.feed(doubt)) == ["tool_call_edited", "gate_opened"]
    assert machine.events(ev.GateOpened)[0].detail["args"] == {"amount": "50"}
    assert machine.feed(doubt) == []
    assert types(machine.feed(finished(machine)))[-2:] == ["tool_call_finished", "decision_requested"]
    assert len(machine.events(ev.ToolCallEdited)) == 1


def test_a_state_that_is_stored_and_read_back_still_knows_the_change() -> None:
    machine = paying()
    machine.feed(finished(machine, status="unknown", result=None))
    state = machine.state
    assert load_state(dump_state(state), state.created, state.snapshot) == state


def test_an_edit_closes_the_gate_in_the_name_of_who_edited_and_opens_one_that_says_what_changed() -> None:
    machine = paying()
    machine.feed(wanted(machine, 1))
    change = facts.ChangedApprovalField(field="arguments.amount", before="500", after="50")
    second = wanted(machine, 2, edited_by="paula", args=EDITED, diff=(change,), quorum=2, revision=1)
    assert types(machine.feed(second)) == ["gate_closed", "gate_opened"]
    (closed,) = machine.events(ev.GateClosed)
    assert (closed.verdict, closed.by, closed.reason) == ("void", "paula", "paula changed the arguments")
    detail = machine.events(ev.GateOpened)[1].detail
    assert (detail["quorum"], detail["edited_by"], detail["revision"]) == (2, "paula", 1)
    assert detail["diff"] == [{"field": "arguments.amount", "before": "500", "after": "50"}]


def test_an_ordinary_gate_says_what_it_always_did() -> None:
    machine = paying()
    machine.feed(wanted(machine, 1))
    known = {"tool", "args", "args_digest", "digest", "rule", "agent", "changes"}
    assert set(machine.events(ev.GateOpened)[0].detail) == known


def test_a_manual_gate_and_an_escalation_are_gates_like_others() -> None:
    machine = paying()
    machine.feed(wanted(machine, 1, gate_type="manual", revision=4))
    assert machine.events(ev.GateOpened)[0].gate_type == "manual"
    higher = wanted(machine, 2, role="policy_admin", reason="nobody decided")
    machine.resolve("expired", approval_id=uuid5(RUN, "approval 1"))
    assert types(machine.feed(higher)) == ["gate_opened"]
    assert machine.events(ev.GateOpened)[1].detail["role"] == "policy_admin"
    assert machine.state.status == "waiting"
