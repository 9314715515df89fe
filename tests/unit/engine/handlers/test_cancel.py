"""Cancel and the fence: nothing new starts, nothing that happened is hidden, the run always ends."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.engine.machine import RUN, Machine, respond, types, use, use_all

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.advance import advance, wake_at
from towpath_engine.handlers.resend import MAX_GATE_RESEND_S
from towpath_engine.reducers.calls import QUEUE_MS
from towpath_engine.reducers.lifecycle import FENCE_RESEND_S
from towpath_engine.state.run import EffectKind

TWO = use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}))


def with_calls() -> Machine:
    machine = Machine()
    machine.decide(TWO)
    return machine


def outcomes(machine: Machine) -> list[str]:
    return [effect["outcome"] for effect in machine.finished.effects]


def fences(machine: Machine) -> list[RaiseFence]:
    return [e.message for e in machine.sent if isinstance(e.message, RaiseFence)]


def test_a_queued_run_is_cancelled_at_once() -> None:
    machine = Machine(start=False)
    assert types(machine.cancel()) == ["cancel_accepted", "run_finished"]
    assert (machine.finished.status, machine.finished.reason, machine.finished.fence) == ("cancelled", "cancelled", 1)
    assert machine.finished.final == {"status": "error", "error": "cancelled", "message": "cancelled by ann"}
    assert machine.sent == [] and machine.state.pending == ()
    assert machine.admit() == []


def test_a_reason_stands_in_the_answer_where_whoever_asked_for_it_says_so() -> None:
    """Facts that were stored before do not say so, and give the log that they gave."""
    machine = with_calls()
    machine.feed(facts.CancelRequestedFact(run_id=RUN, by="ann", reason="enough", in_answer=True))
    machine.fenced(voided=[machine.call_id(0), machine.call_id(1)])
    assert machine.finished.final["message"] == "cancelled by ann: enough"
    silent = Machine(start=False)
    silent.feed(facts.CancelRequestedFact(run_id=RUN, by="ann", in_answer=True))
    assert silent.finished.final["message"] == "cancelled by ann"


def test_a_run_that_waits_for_a_decision_is_cancelled_at_once_and_the_decision_comes_too_late() -> None:
    machine = Machine()
    request_id = machine.request_id
    assert types(machine.cancel()) == ["cancel_accepted", "run_finished"]
    late = facts.DecisionMadeFact(run_id=RUN, request_id=request_id, attempt=1, decision=respond("late"))
    assert machine.feed(late) == []
    assert (machine.finished.fence, machine.state.fence) == (1, 1)


def test_open_calls_hold_the_cancel_until_the_fence_is_stored() -> None:
    machine = with_calls()
    assert types(machine.cancel()) == ["cancel_accepted"]
    assert machine.state.status == "cancelling"
    (fence,) = fences(machine)
    assert (fence.run_id, fence.project, fence.fence, fence.reason) == (RUN, "default", 1, "cancelling")
    assert types(machine.fenced(voided=[machine.call_id(0), machine.call_id(1)])) == ["fence_stored", "run_finished"]
    assert outcomes(machine) == ["did_not_happen", "did_not_happen"]
    assert (machine.finished.status, machine.state.pending, wake_at(machine.state)) == ("cancelled", (), None)


def test_a_cancel_is_asked_once() -> None:
    machine = with_calls()
    machine.cancel()
    assert machine.cancel() == [] and machine.sent == []


def test_a_live_claim_is_waited_for_and_its_outcome_is_reported() -> None:
    machine = with_calls()
    machine.cancel()
    live = machine.call_id(1)
    assert types(machine.fenced(voided=[machine.call_id(0)], live=[live])) == ["fence_stored"]
    assert machine.fenced(live=[live]) == [], "the same answer again says nothing new"
    assert types(machine.finish(1, result="it happened")) == ["tool_call_finished", "run_finished"]
    assert outcomes(machine) == ["did_not_happen", "happened"]
    assert machine.finished.last_output == "it happened"
    assert machine.state.pending == (), "the fence is stored: nothing is left to ask for"


def test_the_fence_is_asked_for_again_until_no_claim_lives() -> None:
    machine = with_calls()
    machine.cancel()
    live = [machine.call_id(0), machine.call_id(1)]
    machine.fenced(live=live)
    for attempt in (2, 3):
        machine.timer(after=FENCE_RESEND_S)
        (effect,) = (e for e in machine.sent if isinstance(e.message, RaiseFence))
        assert effect.message_id.endswith(f":{attempt}")
    assert types(machine.fenced(voided=live)) == ["fence_stored", "run_finished"]


def test_a_call_that_was_not_yet_seen_is_asked_for_under_the_old_fence() -> None:
    machine = with_calls()
    machine.cancel()
    assert types(machine.fenced()) == ["fence_stored", "effect_resent", "effect_resent"]
    asked = [r for r in machine.requests if isinstance(r, ToolRequest)]
    assert [(r.fence, r.attempt) for r in asked] == [(0, 2), (0, 2)]
    assert types(machine.finish(0, None, status="void")) == ["tool_call_finished"]
    assert types(machine.finish(1, "late")) == ["tool_call_finished", "run_finished"]
    assert outcomes(machine) == ["did_not_happen", "happened"]


def test_a_timer_never_repeats_a_call_under_the_new_fence() -> None:
    machine = with_calls()
    machine.cancel()
    machine.timer(after=100)
    asked = [r for r in machine.requests if isinstance(r, ToolRequest)]
    assert len(asked) == 2 and {r.fence for r in asked} == {0}
    assert [f.fence for f in fences(machine)] == [1]


def test_a_call_is_asked_for_under_the_fence_of_its_run() -> None:
    machine = Machine()
    decision = facts.DecisionMadeFact(
        run_id=RUN, request_id=machine.request_id, attempt=1, decision=use("echo", text="x")
    )
    _, effects, _ = advance(replace(machine.state, fence=3), decision, machine.now)
    assert [effect.message.fence for effect in effects] == [3]


def test_what_nobody_knows_of_is_listed_as_unknown_after_a_moment() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced()
    assert machine.fenced(after=FENCE_RESEND_S - 0.1) == [], "the answer may still be on its way"
    events = machine.fenced(after=0.1)
    assert types(events) == ["tool_call_finished", "tool_call_finished", "run_finished"]
    assert outcomes(machine) == ["unknown", "unknown"]


def test_a_later_answer_may_still_void_a_call() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced()
    assert types(machine.fenced(voided=[machine.call_id(0)])) == ["fence_stored", "effect_resent"]
    assert types(machine.fenced(voided=[machine.call_id(1)])) == ["fence_stored", "run_finished"]
    assert outcomes(machine) == ["did_not_happen", "did_not_happen"]


def test_a_call_that_is_reported_void_is_not_waited_for() -> None:
    machine = with_calls()
    machine.cancel()
    both = [machine.call_id(0), machine.call_id(1)]
    machine.fenced(voided=both, live=both)
    assert machine.events(ev.FenceStored)[0].live == ()
    assert outcomes(machine) == ["did_not_happen", "did_not_happen"]


def test_an_answer_that_only_lacks_what_has_finished_meanwhile_says_nothing_new() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced(live=[machine.call_id(0), machine.call_id(1)])
    machine.finish(0)
    assert machine.fenced(live=[machine.call_id(1)], after=60) == []
    assert machine.state.status == "cancelling"


def test_a_claim_that_stops_living_gets_the_same_patience() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced(voided=[machine.call_id(0)], live=[machine.call_id(1)])
    assert types(machine.fenced(after=60)) == ["fence_stored", "effect_resent"]
    machine.finish(1, "it was underway")
    assert outcomes(machine) == ["did_not_happen", "happened"]


def test_an_unknown_outcome_ends_a_cancel_without_a_gate() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced(voided=[machine.call_id(0)], live=[machine.call_id(1)])
    assert types(machine.unknown(1)) == ["tool_call_finished", "run_finished"]
    assert machine.events(ev.GateOpened) == [] and outcomes(machine) == ["did_not_happen", "unknown"]


def test_calls_whose_time_is_over_are_given_up_although_nobody_answers() -> None:
    machine = with_calls()
    machine.cancel()
    until = (30_000 + QUEUE_MS) / 1000
    machine.timer(after=until - 1)
    assert machine.state.status == "cancelling"
    events = machine.timer(after=1)
    assert types(events) == ["tool_call_finished", "tool_call_finished", "run_finished"]
    assert outcomes(machine) == ["unknown", "unknown"]
    assert [p.kind for p in machine.state.pending] == [EffectKind.FENCE], "the fence was never stored: insist on it"
    machine.wake()
    assert [f.fence for f in fences(machine)] == [1]
    assert types(machine.fenced()) == ["fence_stored"]
    assert machine.state.pending == () and wake_at(machine.state) is None
    assert machine.fenced() == [] and machine.timer(after=9) == []


@pytest.mark.parametrize("moment", ["before", "between"])
def test_a_late_outcome_is_recorded_whenever_it_comes(moment: str) -> None:
    machine = with_calls()
    if moment == "before":
        machine.finish(0, "first")
    machine.cancel()
    if moment == "between":
        machine.finish(0, "first")
    assert machine.state.status == "cancelling"
    machine.fenced(voided=[machine.call_id(1)])
    assert outcomes(machine) == ["happened", "did_not_happen"] and machine.finished.last_output == "first"


def test_outcomes_may_end_a_cancel_before_the_fence_is_stored() -> None:
    machine = with_calls()
    machine.cancel()
    machine.finish(0)
    assert types(machine.deny(1)) == ["tool_call_denied", "run_finished"]
    assert outcomes(machine) == ["happened", "denied"]
    assert types(machine.fenced()) == ["fence_stored"] and machine.state.pending == ()


def test_a_fence_of_another_time_or_without_a_cancel_says_nothing() -> None:
    machine = with_calls()
    assert machine.fenced(voided=[machine.call_id(0)], fence=0) == []
    machine.cancel()
    for fence in (0, 2, -1):
        assert machine.fenced(voided=[machine.call_id(0), machine.call_id(1)], fence=fence) == []
    assert machine.state.status == "cancelling"


def test_a_cancel_closes_the_gates_and_ends_the_wait() -> None:
    machine = Machine(system_params={"account": "a"})
    machine.decide(use("pay", amount="1"))
    machine.want_approval(RUN)
    assert machine.state.status == "waiting"
    assert types(machine.cancel()) == ["gate_closed", "cancel_accepted"]
    (closed,) = machine.events(ev.GateClosed)
    assert (closed.verdict, closed.reason) == ("void", "the run is cancelled")
    assert machine.want_approval(machine.call_id()) == [], "no gate opens while a run is being cancelled"
    machine.fenced(voided=[machine.call_id()])
    assert machine.finished.status == "cancelled"


def test_a_cancel_beats_the_deadline_dead_letters_and_conflicts() -> None:
    machine = with_calls()
    machine.cancel()
    machine.timer(after=400)
    dead = facts.MessageDeadFact(run_id=RUN, stream="TOOLREQ", reason="bad", effect_id=machine.call_id(0))
    assert machine.feed(dead) == []
    assert (
        machine.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=machine.call_id(0), message="differs")) == []
    )
    due = wake_at(machine.state)
    assert due is not None and due > machine.now, "a deadline that is over does not wake a cancelling run for ever"
    machine.fenced(voided=[machine.call_id(0), machine.call_id(1)])
    assert machine.finished.status == "cancelled"


def test_a_run_of_which_something_can_not_be_stored_is_parked_also_in_the_middle_of_a_cancel() -> None:
    refused = facts.TransitionRefusedFact(run_id=RUN, refused="timer.fired", message="value_refused: " + "x" * 900)
    machine = with_calls()
    machine.cancel()
    (event,) = machine.feed(refused)
    assert isinstance(event, ev.RunQuarantined) and len(event.message) == 500
    assert (machine.state.status, machine.state.reason) == ("quarantined", "value_refused")
    assert event.message.startswith("timer.fired: value_refused: ")
    assert machine.feed(refused) == [], "once is enough"
    assert types(machine.cancel()) == ["cancel_accepted"]


def test_a_quarantined_run_can_be_cancelled_and_leaves_its_fence() -> None:
    machine = with_calls()
    machine.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=machine.call_id(0), message="other arguments"))
    assert (machine.state.status, machine.state.reason) == ("quarantined", "execution_conflict")
    assert wake_at(machine.state) is None
    assert machine.timer(after=1000) == [] and machine.finish(0) == [] and machine.admit() == []
    assert types(machine.cancel()) == ["cancel_accepted"]
    assert [f.fence for f in fences(machine)] == [1]
    assert types(machine.fenced(voided=[machine.call_id(0)])) == ["fence_stored", "effect_resent"]
    machine.finish(1, "it had happened meanwhile")
    assert machine.finished.status == "cancelled" and outcomes(machine) == ["did_not_happen", "happened"]


@pytest.mark.parametrize("end", ["deadline", "dead_letter"])
def test_every_end_with_open_calls_raises_the_fence_and_insists_on_it(end: str) -> None:
    machine = with_calls()
    machine.finish(0, "kept")
    if end == "deadline":
        machine.timer(after=300)
    else:
        dead: Any = {"run_id": RUN, "stream": "TOOLREQ", "reason": "bad", "effect_id": machine.call_id(1)}
        for _ in range(3):
            machine.feed(facts.MessageDeadFact.model_validate(dead))
    assert machine.finished.reason == {"deadline": "deadline_exceeded", "dead_letter": "dead_lettered"}[end]
    assert outcomes(machine) == ["happened", "unknown"]
    assert [f.fence for f in fences(machine)] == [machine.finished.fence] == [1]
    assert machine.timer(after=FENCE_RESEND_S - 0.1) == []
    machine.wake()
    assert [f.fence for f in fences(machine)] == [1]
    assert machine.fenced(fence=0) == [] and machine.fenced(fence=2) == []
    assert machine.finish(1, "too late") == []
    assert types(machine.fenced(live=[machine.call_id(1)])) == ["fence_stored"]
    assert machine.fenced(live=[machine.call_id(1)]) == [], "it is asked again until the call lives no more"
    machine.wake()
    assert [f.fence for f in fences(machine)] == [1]
    assert types(machine.fenced()) == ["fence_stored"]
    assert machine.state.pending == () and wake_at(machine.state) is None


def test_a_cancel_that_gave_up_a_live_call_insists_until_it_lives_no_more() -> None:
    machine = with_calls()
    machine.cancel()
    machine.fenced(voided=[machine.call_id(0)], live=[machine.call_id(1)])
    machine.timer(after=30 + QUEUE_MS / 1000)
    assert outcomes(machine) == ["did_not_happen", "unknown"]
    assert [p.kind for p in machine.state.pending] == [EffectKind.FENCE]
    assert machine.fenced(live=[machine.call_id(1)]) == []
    assert types(machine.fenced()) == ["fence_stored"]
    assert machine.state.pending == () and wake_at(machine.state) is None


def test_an_ended_run_asks_ever_more_seldom_about_a_call_that_lives() -> None:
    machine = with_calls()
    machine.timer(after=300)
    machine.fenced(live=[machine.call_id(0)])
    waits = []
    for _ in range(14):
        before = machine.now
        machine.wake()
        waits.append((machine.now - before).total_seconds())
    assert waits[0] == FENCE_RESEND_S and waits == sorted(waits) and waits[-1] == MAX_GATE_RESEND_S


def test_an_end_without_open_calls_leaves_nothing_pending() -> None:
    machine = Machine()
    machine.decide(respond("well"))
    assert (machine.finished.fence, machine.state.pending, machine.sent) == (1, (), [])
    assert wake_at(machine.state) is None
