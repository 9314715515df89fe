"""A call that a switch holds back costs its run nothing but time on the wall."""

from datetime import UTC, datetime
from uuid import UUID

from tests.support.engine.machine import RUN, Machine, respond, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.switches import ActiveSwitch, paused_gate
from towpath_engine.advance import wake_at
from towpath_engine.state.run import Status

DAY_S = 86_400


def switch(number: int = 1) -> ActiveSwitch:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    return ActiveSwitch(
        switch_id=UUID(int=number), kind="tool", name="echo", reason="it leaks", paused_by="ann", paused_at=at
    )


def pause(machine: Machine, number: int = 1, call: int = 0, after: float = 0.1) -> None:
    held = facts.CallPausedFact(run_id=RUN, execution_id=machine.call_id(call), tool="echo", switch=switch(number))
    machine.feed(held, after=after)


def resume(machine: Machine, number: int = 1, call: int = 0, after: float = 0.1) -> None:
    gate = paused_gate(RUN, machine.call_id(call), UUID(int=number))
    machine.feed(facts.GateResolvedFact(run_id=RUN, gate_id=gate, verdict="resumed", by="ann"), after=after)


def test_a_held_call_waits_for_days_and_then_goes_on_with_all_its_time() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    pause(machine)
    assert machine.state.status is Status.WAITING
    opened = machine.events(ev.GateOpened)[0]
    assert (opened.gate_type, opened.reason) == ("paused", "tool echo is paused by ann: it leaks")
    spent = machine.state.active_ms
    for _ in range(3):
        machine.timer(after=DAY_S)
    assert machine.state.status is Status.WAITING
    resume(machine)
    assert machine.state.status is Status.RUNNING
    assert machine.state.active_ms == spent, "waiting for a switch is not active time"
    pending = machine.state.pending[0]
    assert pending.deadline is not None and pending.deadline > machine.now, "the call's time begins again"
    machine.finish(result={"echo": "hello"})
    machine.decide(respond("done"))
    assert machine.state.status is Status.COMPLETED


def test_it_is_reported_again_and_again_and_the_run_has_one_gate() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    for _ in range(3):
        pause(machine)
    resume(machine)
    resume(machine)
    pause(machine)  # said before it was resumed, and late
    assert len(machine.events(ev.GateOpened)) == 1
    assert [event.verdict for event in machine.events(ev.GateClosed)] == ["resumed"]
    pause(machine, number=2)
    assert len(machine.state.gates) == 1, "a later pause is another one"


def test_another_switch_takes_over_and_an_outcome_ends_the_wait() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    pause(machine, number=1)
    pause(machine, number=2)
    assert [gate.gate_id for gate in machine.state.gates] == [paused_gate(RUN, machine.call_id(0), UUID(int=2))]
    machine.finish(result={"echo": "hello"})
    assert not machine.state.gates
    assert [event.verdict for event in machine.events(ev.GateClosed)] == ["settled", "settled"]


def test_a_held_call_stops_no_other_of_its_step_and_a_cancel_ends_it() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    pause(machine)
    assert machine.state.status is Status.RUNNING
    machine.finish(1, result="b")
    assert machine.state.status is Status.WAITING
    assert wake_at(machine.state) is not None
    machine.cancel()
    pause(machine)
    assert (machine.state.gates, machine.state.status) == ((), Status.CANCELLING)
    machine.fenced(voided=[machine.call_id(0)])
    assert machine.state.status is Status.CANCELLED


def test_what_is_reported_of_no_call_opens_nothing() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    machine.finish(result={})
    fact = facts.CallPausedFact(run_id=RUN, execution_id=UUID(int=9), tool="echo", switch=switch())
    assert machine.feed(fact, after=0.1) == []
    assert machine.state.gates == ()
