"""Time in the run machine: deadlines of active time, resends, and when a run wants to be woken."""

from datetime import timedelta

import pytest
from tests.support.engine.machine import RUN, START, Machine, respond, snapshot, types, use, use_all

from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_engine.advance import wake_at
from towpath_engine.handlers.resend import MAX_RESEND_S
from towpath_engine.reducers.calls import TOOL_RESEND_S
from towpath_engine.reducers.decisions import DECIDE_GRACE_S

LEASE = 60 + DECIDE_GRACE_S


def waits(machine: Machine, times: int) -> list[float]:
    """Return the seconds between the next *times* resends."""
    found = []
    for _ in range(times):
        due = wake_at(machine.state)
        assert due is not None
        found.append((due - machine.now).total_seconds())
        assert types(machine.wake()) == ["effect_resent"]
    return found


def test_a_run_ends_when_its_active_time_is_used_up() -> None:
    machine = Machine(timeout_ms=10_000)
    machine.decide(use("echo", text="x"))
    machine.finish(result="kept")
    assert types(machine.timer(after=9.999)) == []
    assert types(machine.timer(after=0.001)) == ["run_finished"]
    ended = machine.finished
    assert (ended.status, ended.reason, ended.last_output) == ("timed_out", "deadline_exceeded", "kept")
    assert ended.final["error"] == "deadline_exceeded" and "10000 ms" in ended.final["message"]


def test_the_run_wakes_for_its_deadline() -> None:
    machine = Machine(timeout_ms=1_000)
    assert wake_at(machine.state) == START + timedelta(seconds=1)
    assert types(machine.wake()) == ["run_finished"]


def test_waiting_in_the_queue_costs_no_active_time() -> None:
    machine = Machine(start=False, timeout_ms=1_000)
    assert machine.timer(after=3600) == [] and wake_at(machine.state) is None
    machine.admit()
    assert machine.timer(after=0.9) == []
    assert types(machine.timer(after=0.1)) == ["run_finished"]


def test_time_stands_still_while_only_gates_are_pending() -> None:
    machine = Machine(timeout_ms=100_000, system_params={"account": "a"})
    machine.decide(use("pay", amount="1"), after=40)
    machine.want_approval(RUN, hours=200)
    for _ in range(3):
        machine.timer(after=3600)
    assert machine.state.status == "waiting" and machine.state.active_ms == 40_000
    machine.resolve("approved", approval_id=RUN, after=3600)
    machine.timer(after=59.9)
    assert machine.state.status == "running"
    assert types(machine.timer(after=0.1))[-1] == "run_finished"
    assert machine.finished.status == "timed_out"


def test_time_runs_while_another_call_is_running() -> None:
    machine = Machine(timeout_ms=100_000)
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.want_approval(RUN, 1, hours=200)
    assert types(machine.timer(after=100))[-1] == "run_finished"


def test_time_stands_still_again_for_a_second_gate() -> None:
    machine = Machine(timeout_ms=10_000, system_params={"account": "a"})
    for amount in ("1", "2"):
        machine.decide(use("pay", amount=amount), after=2)
        machine.want_approval(machine.call_id(), hours=200)
        machine.resolve("approved", approval_id=machine.call_id(), after=5000)
        machine.finish(after=2)
    assert machine.timer(after=1.9) == [] and not machine.state.is_final
    assert types(machine.timer(after=0.1)) == ["run_finished"]


def test_a_decision_that_comes_after_the_deadline_starts_and_answers_nothing() -> None:
    for late in (respond("late"), use("echo", text="x")):
        machine = Machine(timeout_ms=1_000)
        assert types(machine.decide(late, after=1)) == ["decision_received", "run_finished"]
        assert (machine.finished.status, machine.finished.reason) == ("timed_out", "deadline_exceeded")
        assert machine.events(ev.InstructionIssued) == []
        assert len(machine.log.execution_log) == 1, "what was said late is in the transcript"
    missed = Machine(timeout_ms=1_000)
    missed.now += timedelta(seconds=1)
    missed.miss("provider_unavailable")
    assert missed.finished.status == "timed_out"


def test_a_result_that_comes_after_the_deadline_is_recorded_and_ends_the_run() -> None:
    for single in (False, True):
        machine = Machine(timeout_ms=1_000, single_instruction=single)
        machine.decide(use("echo", text="x"))
        assert types(machine.finish(result="late", after=1)) == ["tool_call_finished", "run_finished"]
        assert (machine.finished.status, machine.finished.last_output) == ("timed_out", "late")


def test_the_deadline_comes_before_every_other_reason_but_a_cancel() -> None:
    machine = Machine(timeout_ms=1_000, max_steps=1, max_tool_errors=1)
    machine.decide(use("echo", text="x"))
    machine.now += timedelta(seconds=1)
    machine.fail()
    assert machine.finished.reason == "deadline_exceeded"
    cancelled = Machine(timeout_ms=1_000)
    cancelled.cancel(after=5)
    assert cancelled.finished.status == "cancelled"


def test_a_tool_request_is_sent_again_ever_more_slowly() -> None:
    machine = Machine(timeout_ms=10_000_000)
    machine.decide(use("echo", text="x"))
    assert waits(machine, 7) == [TOOL_RESEND_S, 10, *([MAX_RESEND_S] * 5)]
    assert [e.message_id.rpartition(":")[2] for e in machine.sent] == ["8"]


@pytest.mark.parametrize("step_timeout_ms", [60_000, 600_000])
def test_a_decision_is_asked_for_again_only_after_its_lease(step_timeout_ms: int) -> None:
    machine = Machine(snapshot(step_timeout_ms=step_timeout_ms), timeout_ms=10_000_000)
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest)
    lease = step_timeout_ms / 1000 + DECIDE_GRACE_S
    assert (request.lease_ms, request.timeout_ms) == (lease * 1000, step_timeout_ms)
    assert waits(machine, 3) == [lease] * 3, "a model that is still thinking must not be paid twice"
    (again,) = machine.requests
    assert isinstance(again, DecisionRequest)
    assert again.attempt == 4 and again.model_copy(update={"attempt": 1}) == request


def test_a_timer_before_its_time_says_nothing() -> None:
    machine = Machine()
    assert machine.timer() == [] and machine.timer(after=LEASE - 1) == []
    machine.decide(use("echo", text="x"))
    assert machine.timer(after=TOOL_RESEND_S - 1) == []
    assert types(machine.timer(after=1)) == ["effect_resent"]
    assert machine.timer() == [], "the same timer again"


def test_a_resend_says_the_same_again() -> None:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"))
    (request,) = machine.requests
    machine.wake()
    (again,) = machine.requests
    assert again.attempt == 2 and again.model_copy(update={"attempt": 1}) == request


def test_only_what_is_overdue_is_sent_again() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"})))
    machine.want_approval(RUN, 0)
    machine.timer(after=TOOL_RESEND_S)
    assert [effect.effect.call_index for effect in machine.sent] == [1]


def test_a_clock_that_goes_back_harms_nothing() -> None:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"), after=10)
    machine.now -= timedelta(seconds=30)
    machine.want_approval(RUN)
    assert machine.state.active_ms == 0
    machine.resolve("approved", approval_id=RUN)
    machine.finish()
    machine.decide(respond("x"))
    assert machine.finished.status == "completed"
