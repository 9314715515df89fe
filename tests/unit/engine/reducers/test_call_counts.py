"""How many calls a run asked for, and what became of them: allowed, denied, held."""

from uuid import uuid5

from tests.support.engine.detected_loops import failing
from tests.support.engine.machine import RUN, Machine, respond, snapshot, use, use_all

from towpath_contracts import facts
from towpath_contracts.runs.views import CallCounts
from towpath_contracts.switches import ActiveSwitch
from towpath_engine.reducers.fork import inherited_of
from towpath_engine.state.run import dump_state, load_state

FIRST, SECOND = uuid5(RUN, "approval 1"), uuid5(RUN, "approval 2")


def counted(machine: Machine) -> tuple[int, int, int, int]:
    counts = machine.state.call_counts
    return counts.asked, counts.allowed, counts.denied, counts.held


def test_a_call_that_worked_or_failed_was_allowed_and_a_denied_one_was_not() -> None:
    machine = Machine(max_steps=50)
    assert machine.state.call_counts == CallCounts()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("echo", {"text": "c"})))
    assert counted(machine) == (3, 0, 0, 0)
    machine.deny(2, tool="echo", rule="careful")
    machine.fail(1)
    machine.finish(0)
    assert counted(machine) == (3, 2, 1, 0)
    machine.decide(use("no_such_tool"))
    assert counted(machine) == (3, 2, 1, 0), "a refused decision asks for nothing"
    machine.decide(respond())
    assert counted(machine) == (3, 2, 1, 0) and machine.state.is_final


def test_a_call_is_held_once_however_often_people_are_asked_about_it() -> None:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"))
    for approval in (FIRST, SECOND):
        machine.want_approval(approval)
        machine.want_approval(approval)
        assert counted(machine) == (1, 0, 0, 1)
        machine.resolve("approved", approval_id=approval)
    machine.unknown()
    machine.resolve("happened", gate_id=machine.state.gates[0].gate_id)
    machine.finish()
    assert counted(machine) == (1, 1, 0, 1)


def test_a_call_that_a_switch_or_a_doubt_about_its_outcome_keeps_waiting_is_held() -> None:
    machine = Machine(max_steps=50)
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    paused = ActiveSwitch(
        switch_id=FIRST, kind="tool", name="echo", reason="it leaks", paused_by="ann", paused_at=machine.now
    )
    machine.feed(facts.CallPausedFact(run_id=RUN, execution_id=machine.call_id(0), tool="echo", switch=paused))
    machine.unknown(1)
    assert counted(machine) == (2, 0, 0, 2)


def test_a_denied_approval_is_held_and_denied() -> None:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"))
    machine.want_approval(FIRST)
    machine.resolve("denied", approval_id=FIRST)
    machine.deny(violation="approval_denied", tool="pay", rule="people-first")
    assert counted(machine) == (1, 0, 1, 1)


def test_a_call_that_is_voided_was_neither_allowed_nor_denied() -> None:
    machine = Machine()
    machine.decide(use("echo", text="a"))
    machine.finish(status="void", result=None)
    assert counted(machine) == (1, 0, 0, 0)
    machine = Machine()
    machine.decide(use("echo", text="a"))
    machine.cancel()
    machine.fenced(voided=[machine.call_id()])
    assert counted(machine) == (1, 0, 0, 0) and machine.state.is_final


def test_a_gate_of_the_run_itself_holds_no_call() -> None:
    machine = Machine(snapshot(on_loop="gate"))
    for _ in range(4):
        failing(machine, "disk is full")
    assert machine.state.waits_at_run_gate and counted(machine) == (4, 4, 0, 0)


def test_the_counts_survive_a_restart_and_a_fork_begins_anew() -> None:
    machine = Machine()
    machine.decide(use("echo", text="a"))
    machine.finish()
    loaded = load_state(dump_state(machine.state), machine.state.created, machine.network)
    assert loaded.call_counts == CallCounts(asked=1, allowed=1)
    assert "call_counts" not in inherited_of(machine.state, new_script=False)
