"""A call that its project's quota has no room for is requested again when it said, and loses none of its own time."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.engine.machine import RUN, Machine, respond, snapshot, types, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_engine.advance import wake_at
from towpath_engine.reducers.calls import call_deadline
from towpath_engine.requests.effects import resendable_effects
from towpath_engine.state.run import PendingEffect, Status

WAIT_S = 40


def postpone(machine: Machine, *, attempt: int = 1, call: int = 0, wait_s: float = WAIT_S) -> list[str]:
    return types(machine.feed(postponed(machine, attempt=attempt, call=call, wait_s=wait_s)))


def postponed(machine: Machine, *, attempt: int = 1, call: int = 0, wait_s: float = WAIT_S) -> facts.CallPostponedFact:
    return facts.CallPostponedFact(
        run_id=RUN,
        execution_id=machine.call_id(call),
        attempt=attempt,
        until=machine.now + timedelta(seconds=wait_s),
        code="quota_exceeded",
        message="project shop has used its tool calls of this minute",
    )


def pending_of(machine: Machine, call: int = 0) -> PendingEffect:
    pending = machine.state.pending_effect(machine.call_id(call))
    assert pending is not None
    return pending


def deadline_of(machine: Machine) -> datetime:
    deadline = pending_of(machine).deadline
    assert deadline is not None
    return deadline


def test_the_call_is_requested_again_at_the_time_said_and_not_before() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    assert postpone(machine) == ["tool_call_postponed"]
    until = machine.events(ev.ToolCallPostponed)[0].until
    assert (wake_at(machine.state), machine.sent, resendable_effects(machine.state)) == (until, [], [])
    assert machine.timer(after=WAIT_S / 2) == []
    assert types(machine.wake()) == ["effect_resent"]
    assert (machine.now, pending_of(machine).attempt, len(machine.sent)) == (until, 2, 1)
    assert machine.state.status is Status.RUNNING
    machine.finish(result={"echo": "hello"})
    assert types(machine.decide(respond("done")))[-1] == "run_finished"


def test_waiting_costs_the_call_none_of_its_time_however_often_it_is_postponed() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    first = deadline_of(machine)
    for attempt in (1, 2, 3):
        before, at = deadline_of(machine), machine.now
        assert postpone(machine, attempt=attempt) == ["tool_call_postponed"]
        until = machine.events(ev.ToolCallPostponed)[-1].until
        assert timedelta(seconds=WAIT_S - 1) < deadline_of(machine) - before <= until - at
        machine.wake()
    assert deadline_of(machine) > first + timedelta(seconds=3 * (WAIT_S - 1))


def test_a_time_that_is_over_takes_nothing_from_the_call() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    before = deadline_of(machine)
    assert postpone(machine, wait_s=-5) == ["tool_call_postponed"]
    assert deadline_of(machine) == before
    assert types(machine.timer()) == ["effect_resent"]


def test_what_is_said_twice_or_of_an_earlier_request_or_of_another_call_changes_nothing() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    assert postpone(machine, attempt=2) == []
    assert postpone(machine) == ["tool_call_postponed"]
    assert postpone(machine) == []
    machine.wake()
    assert postpone(machine) == []
    strange = facts.CallPostponedFact(
        run_id=RUN, execution_id=UUID(int=9), attempt=1, until=machine.now, code="quota_exceeded", message="full"
    )
    assert machine.feed(strange) == []
    machine.finish(result={"echo": "hello"})
    assert machine.state.calls == () or postpone(machine, attempt=2) == []


def test_an_outcome_counts_also_while_the_call_is_postponed() -> None:
    """An earlier delivery of the same request may have been let through."""
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine)
    machine.finish(result={"echo": "hello"})
    assert types(machine.decide(respond("done")))[-1] == "run_finished"


def test_of_several_calls_one_may_wait_while_others_go_on() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("echo", {"text": "b"})))
    assert postpone(machine, call=1) == ["tool_call_postponed"]
    machine.finish(result={"echo": "a"})
    assert (pending_of(machine, 1).postponed, len(machine.state.pending)) == (True, 1)


def test_a_run_that_is_cancelled_asks_at_once_and_is_not_postponed() -> None:
    """Nothing is known of the call where its fence is raised; asked once more, the tool-access service refuses it."""
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine, wait_s=3_600)
    machine.cancel()
    assert types(machine.fenced()) == ["fence_stored", "effect_resent"]
    assert postpone(machine, attempt=2) == []
    assert types(machine.fenced(voided=(machine.call_id(),)))[-1] == "run_finished"
    assert machine.state.status is Status.CANCELLED


def test_a_run_of_which_nothing_else_is_under_way_waits_and_its_time_stands_still() -> None:
    machine = Machine(snapshot(timeout_ms=5_000))
    machine.decide(use("echo", text="hello"))
    postpone(machine)
    assert (machine.state.status, machine.state.active_deadline()) == (Status.WAITING, None)
    for attempt in (2, 3):
        assert types(machine.wake()) == ["effect_resent"]
        assert machine.state.status is Status.RUNNING
        postpone(machine, attempt=attempt)
    machine.wake()
    machine.finish(result={"echo": "hello"})
    machine.decide(respond("done"))
    assert machine.finished.status == "completed"


def test_a_run_of_which_something_else_is_under_way_runs() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("echo", {"text": "b"})))
    postpone(machine, call=1)
    assert machine.state.status is Status.RUNNING
    machine.finish(result={"echo": "a"})
    assert machine.state.status is Status.WAITING
    machine.wake()
    assert machine.state.status is Status.RUNNING


def test_a_run_waits_whose_other_call_waits_for_a_person() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("echo", {"text": "b"})))
    machine.want_approval(uuid4(), 0)
    assert machine.state.status is Status.RUNNING
    postpone(machine, call=1)
    assert machine.state.status is Status.WAITING


def test_the_watchdog_takes_no_run_for_silent_that_waits_for_its_quota() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine, wait_s=1_800)
    silent = facts.WatchdogReportedFact(
        run_id=RUN, finding="silent", key="silent", since=machine.state.seq, detail="quiet"
    )
    assert machine.feed(silent, after=900) == []


@pytest.mark.parametrize("act", ["pause", "gate"])
def test_nothing_that_was_postponed_begins_while_the_run_is_held(act: str) -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine)
    machine.steer(act)
    assert machine.timer(after=2 * WAIT_S) == []
    assert machine.state.status is Status.WAITING
    go_on(machine, after=3_600)
    assert types(machine.wake()) == ["effect_resent"]
    assert deadline_of(machine) == call_deadline(machine.state, "echo", machine.now), "it has its whole time"


@pytest.mark.parametrize("act", ["pause", "gate"])
def test_a_run_that_is_let_go_before_the_time_said_asks_at_that_time(act: str) -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine, wait_s=3_600)
    until = pending_of(machine).resend_at
    machine.steer(act)
    go_on(machine, after=5)
    assert (wake_at(machine.state), machine.sent) == (until, [])
    assert types(machine.wake()) == ["effect_resent"]
    assert deadline_of(machine) == call_deadline(machine.state, "echo", machine.now), "it has its whole time"


def test_a_call_that_is_postponed_while_the_run_is_held_waits_for_its_release() -> None:
    """It was asked for before the pause; a call beside it that is under way comes to its end."""
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("echo", {"text": "b"})))
    machine.steer("pause")
    postpone(machine)
    machine.finish(1)
    assert machine.timer(after=2 * WAIT_S) == []
    go_on(machine)
    assert types(machine.wake()) == ["effect_resent"]


def go_on(machine: Machine, *, after: float = 0.0) -> None:
    (gate,) = machine.state.gates
    verdict = "resumed" if gate.gate_type == "run_paused" else "approved"
    machine.resolve(verdict, gate_id=gate.gate_id, after=after)


def test_where_the_quota_was_raised_what_it_has_postponed_is_asked_for_at_once() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("echo", {"text": "b"}), ("echo", {"text": "c"})))
    raised = facts.QuotaChangedFact(run_id=RUN)
    assert machine.feed(raised) == []
    postpone(machine, call=0, wait_s=1_800)
    postpone(machine, call=2, wait_s=1_800)
    assert types(machine.feed(raised, after=5)) == ["effect_resent"] * 2
    assert [pending_of(machine, call).attempt for call in range(3)] == [2, 1, 2]
    assert machine.feed(raised) == []
    assert types(machine.feed(postponed(machine, attempt=2))) == ["tool_call_postponed"]
    machine.cancel()
    assert machine.feed(raised) == []


def test_a_run_that_is_held_asks_for_nothing_when_the_quota_is_raised() -> None:
    machine = Machine()
    machine.decide(use("echo", text="hello"))
    postpone(machine)
    machine.steer("pause")
    assert machine.feed(facts.QuotaChangedFact(run_id=RUN)) == []
