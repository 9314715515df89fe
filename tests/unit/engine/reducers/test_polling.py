"""Tools that are there to be asked again: each further look waits longer, and none is a loop."""

from tests.support.engine.detected_loops import call, loops
from tests.support.engine.machine import Machine, use, use_all

from towpath_engine.advance import wake_at
from towpath_engine.reducers.calls import call_deadline


def test_a_polling_tool_may_be_called_again_and_again() -> None:
    machine = Machine()
    for _ in range(6):
        call(machine, use("poll", text="x"))
    assert loops(machine) == []
    both = use_all(("poll", {"text": "x"}), ("echo", {"text": "x"}))
    for _ in range(2):
        call(machine, both)
    machine.decide(both)
    assert loops(machine) == [("calls", 3, "nudge")], "only a decision of nothing but polling tools is exempt"


def test_polling_in_between_does_not_hide_a_loop() -> None:
    machine = Machine()
    for _ in range(2):
        call(machine, use("echo", text="x"))
        call(machine, use("poll", text="x"))
    machine.decide(use("echo", text="x"))
    assert loops(machine) == [("calls", 3, "nudge")]


def test_polling_through_an_outage_is_no_loop() -> None:
    machine = Machine(max_steps=50, max_tool_errors=50)
    for _ in range(5):
        machine.decide(use("poll", text="x"))
        machine.fail(code="unavailable", message="HTTP 503", external=True)
    assert loops(machine) == [] and machine.state.detectors.error_count == 0


def test_polling_in_a_row_is_slowed_down_by_the_runs_own_timer() -> None:
    """1, 2, 4, … seconds up to 30 before each further look; the pending effect's resend is its first sending."""
    machine, waits = Machine(max_steps=50), []
    for _ in range(8):
        machine.decide(use("poll", text="x"), after=1)
        pending = machine.state.pending[0]
        waits.append((pending.resend_at - machine.now).total_seconds() if pending.attempt == 0 else 0)
        if pending.attempt == 0:
            assert machine.requests == [], "not sent before its time"
            assert wake_at(machine.state) == pending.resend_at
            assert pending.deadline == call_deadline(machine.state, "poll", pending.resend_at), "it loses no time"
            machine.wake()
            assert machine.state.pending[0].attempt == 1
        assert len(machine.requests) == 1
        machine.finish()
    assert waits == [0, 1, 2, 4, 8, 16, 30, 30]


def test_other_work_ends_the_slowness_of_polling() -> None:
    machine = Machine(max_steps=50)
    for _ in range(4):
        call(machine, use("poll", text="x"))
    call(machine, use("echo", text="y"))
    machine.decide(use("poll", text="x"))
    assert machine.state.pending[0].attempt == 1 and len(machine.requests) == 1


def test_one_slow_poll_beside_other_calls_keeps_nothing_waiting() -> None:
    machine = Machine(max_steps=50)
    for _ in range(2):
        call(machine, use("poll", text="x"))
    machine.decide(use_all(("poll", {"text": "x"}), ("echo", {"text": "y"})))
    assert len(machine.requests) == 2


def test_a_cancel_finds_a_call_that_still_waits_for_its_time() -> None:
    machine = Machine(max_steps=50)
    call(machine, use("poll", text="x"))
    machine.decide(use("poll", text="x"))
    waiting = machine.call_id()
    machine.cancel()
    machine.fenced(voided=[waiting])
    assert machine.finished.status == "cancelled"
