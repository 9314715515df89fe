"""Child runs in the run machine: birth, bounds, endings, and what travels down."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.engine.machine import RUN, Machine, respond, types, use

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.runs.children import AskChildStatus, ChildTask
from towpath_engine.advance import advance, wake_at
from towpath_engine.handlers.children import (
    can_spawn,
    child_id,
    cost_of_children,
    new_child_run,
    report_for_parent,
    spawn_children,
    usage_of_children,
)
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.references import inline_or_reference
from towpath_engine.replay import create
from towpath_engine.requests.effects import message_of
from towpath_engine.state.run import EffectKind, RunState


def asked(machine: Machine, *agents: str, **more: Any) -> list["ev.ChildStarted"]:
    """Let the run, in the middle of its step, start a child for each of *agents*."""
    transition = TransitionBuilder(state=machine.state, now=machine.now)
    spawn_children(transition, [ChildTask(agent_key=key, user_message=f"help {key}", **more) for key in agents])
    machine.state = transition.state
    return [entry.event for entry in transition.entries if isinstance(entry.event, ev.ChildStarted)]


def waiting_parent(*agents: str) -> tuple[Machine, list["ev.ChildStarted"]]:
    """A run that waits for children and for nothing else."""
    machine = Machine()
    machine.decide(use("echo", text="a"))
    transition = TransitionBuilder(state=machine.state, now=machine.now)
    transition.emit(
        ev.ToolCallFinished(
            execution_id=machine.call_id(0), step=1, epoch=0, agent_key="triage", call_index=0, tool="echo",
            status="succeeded", result="ok",
        )
    )  # fmt: skip
    machine.state = transition.state
    return machine, asked(machine, *agents)


def born(parent: RunState, started: "ev.ChildStarted", machine: Machine) -> RunState:
    birth = new_child_run(parent, started)
    state, _first = create(birth.child_id, parent.snapshot, birth.task, machine.now)
    return state


def child_reports(
    machine: Machine, started: "ev.ChildStarted", status: str, seq: int, **more: Any
) -> list[ev.AnyEvent]:
    ended = status in ("completed", "failed", "cancelled", "escalated", "abandoned", "timed_out")
    fact = facts.ChildReportedFact(
        run_id=RUN, child_id=started.child_id, child_seq=seq, status=status, ended=ended, **more
    )  # fmt: skip
    return fed(machine, fact)


def fed(machine: Machine, fact: facts.AnyFact) -> list[ev.AnyEvent]:
    """Advance a run whose children were started by hand: the machine's own watch does not know of them."""
    entries, effects, machine.state = advance(machine.state, fact, machine.now)
    machine.sent = list(effects)
    return [entry.event for entry in entries]


def test_a_child_is_named_by_its_place_and_sorts_by_its_time() -> None:
    machine = Machine()
    first, second = child_id(RUN, 1, 0, machine.now), child_id(RUN, 1, 1, machine.now)
    later = child_id(RUN, 1, 0, machine.now + timedelta(milliseconds=1))
    assert first == child_id(RUN, 1, 0, machine.now) and first != second and first.version == 7
    assert first < second < later, "by the time, then by the place"


def test_a_child_acts_by_its_own_agent_under_every_grant_of_its_parent() -> None:
    own = ({"tool": "echo", "operation": "*", "when": None},)
    above = (({"tool": "*", "operation": "*", "when": None},),)
    machine = Machine(grant=own, grants=above, labels={"team": "a"}, max_steps=6)
    (started,) = asked(machine, "expert", max_steps=50)
    child = born(machine.state, started, machine)
    task = child.created
    assert (task.agent_key, task.user_message, task.caller, task.labels) == (
        "expert",
        "help expert",
        "me",
        {"team": "a"},
    )
    assert task.grants == (*above, own) and task.grant is None
    assert task.max_steps == 6, "a child has no more steps than its parent"
    assert task.parent is not None
    assert (task.parent.run_id, task.parent.root_id, task.parent.depth) == (RUN, RUN, 1)


def test_a_run_with_more_grants_than_are_taken_by_now_still_has_children() -> None:
    """It was taken when more were: a chain that is refused here would park it, whatever it asks a child for."""
    above = tuple(tuple({"tool": f"{place}-{number}"} for number in range(256)) for place in range(3))
    machine = Machine(grants=above)
    (started,) = asked(machine, "expert")
    assert born(machine.state, started, machine).created.grants == above


def test_a_child_has_no_more_time_than_its_parent_has_left() -> None:
    machine = Machine(timeout_ms=10_000)
    machine.now += timedelta(seconds=4)
    (started,) = asked(machine, "expert", timeout_ms=60_000)
    assert started.task.timeout_ms == 6_000


def test_children_stand_three_deep_and_no_deeper() -> None:
    machine = Machine()
    state = machine.state
    for depth in (1, 2, 3):
        assert can_spawn(state)
        machine.state = state
        (started,) = asked(machine, "expert")
        state = born(machine.state, started, machine)
        assert state.created.parent is not None
        assert (state.created.parent.depth, state.created.parent.root_id) == (depth, RUN)
    machine.state = state
    assert not can_spawn(state)
    with pytest.raises(ValueError, match="at most 3 deep"):
        asked(machine, "expert")


def test_the_run_goes_on_when_its_last_child_has_ended_with_their_answers_in_order() -> None:
    machine, (first, second) = waiting_parent("expert", "clerk")
    assert types(child_reports(machine, second, "completed", 7, final={"message": "two"}, cursors={"clerk": 4})) == [
        "child_ended"
    ]
    assert [c.ended for c in machine.state.children] == [False, True]
    events = child_reports(machine, first, "failed", 5, reason="max_steps_exceeded", final={"status": "error"})
    assert types(events) == ["child_ended", "decision_requested"]
    newest = [(output.tool, output.status) for output in machine.state.outputs[:2]]
    assert newest == [("agent:expert", "failed"), ("agent:clerk", "succeeded")]
    assert machine.state.last_output == {"message": "two"}
    assert machine.state.cursors["clerk"] == 4


def test_what_a_child_reported_before_or_twice_changes_nothing() -> None:
    machine, (child,) = waiting_parent("expert")
    assert types(child_reports(machine, child, "waiting", 9)) == ["child_waits"]
    assert child_reports(machine, child, "running", 8) == [] and child_reports(machine, child, "waiting", 9) == []
    assert types(child_reports(machine, child, "running", 10)) == ["child_waits"]
    assert types(child_reports(machine, child, "completed", 12, final={}))[0] == "child_ended"
    assert child_reports(machine, child, "completed", 12, final={}) == []


def test_time_stands_still_while_every_child_waits_for_people() -> None:
    machine, (first, second) = waiting_parent("expert", "clerk")
    child_reports(machine, first, "waiting", 3)
    assert machine.state.status == "running"
    child_reports(machine, second, "waiting", 3)
    assert machine.state.status == "waiting" and machine.state.active_deadline() is None
    child_reports(machine, first, "running", 4)
    assert machine.state.status == "running" and machine.state.active_deadline() is not None


def test_a_child_that_does_not_report_is_asked_again() -> None:
    machine, (child,) = waiting_parent("expert")
    (pending,) = machine.state.pending
    assert (pending.kind, pending.effect_id) == (EffectKind.CHILD, child.child_id)
    assert pending.resend_at == machine.now + timedelta(seconds=5) == wake_at(machine.state)
    machine.now += timedelta(seconds=6)
    events = fed(machine, facts.TimerFiredFact(run_id=RUN))
    assert types(events) == ["effect_resent"]
    (effect,) = machine.sent
    assert effect.message == AskChildStatus(run_id=RUN, child_id=child.child_id, project="default")


def test_a_cancel_waits_until_the_children_have_ended_and_tells_them_to_stop() -> None:
    machine, (child,) = waiting_parent("expert")
    assert types(fed(machine, facts.CancelRequestedFact(run_id=RUN, by="ann"))) == ["cancel_accepted"]
    asks = [e.message for e in machine.sent if isinstance(e.message, AskChildStatus)]
    assert [(a.child_id, a.cancel) for a in asks] == [(child.child_id, True)]
    fed(machine, facts.FenceRaisedFact(run_id=RUN, fence=machine.state.fence))
    assert machine.state.status == "cancelling"
    events = child_reports(machine, child, "cancelled", 8, reason="cancelled")
    assert types(events) == ["child_ended", "run_finished"]
    assert machine.state.status == "cancelled"


def test_a_run_that_ended_without_its_children_tells_them_to_stop_until_they_have() -> None:
    machine, (child,) = waiting_parent("expert")
    deadline = machine.state.active_deadline()
    assert deadline is not None
    machine.now = deadline
    assert "run_finished" in types(fed(machine, facts.TimerFiredFact(run_id=RUN)))
    assert machine.state.status == "timed_out"
    kinds = [p.kind for p in machine.state.pending]
    assert EffectKind.CHILD in kinds and wake_at(machine.state) is not None
    message = message_of(machine.state, next(p for p in machine.state.pending if p.kind is EffectKind.CHILD)).message
    assert isinstance(message, AskChildStatus) and message.cancel
    assert types(child_reports(machine, child, "cancelled", 9)) == ["child_ended"]
    assert all(p.kind is not EffectKind.CHILD for p in machine.state.pending)


def test_a_child_plays_only_what_the_script_says_for_its_agent() -> None:
    machine = Machine(model="scripted:task")
    (started,) = asked(machine, "expert")
    child = born(machine.state, started, machine)
    assert child.cursors["*"] == 2**31 - 1


def test_a_child_tells_its_parent_its_end() -> None:
    machine = Machine()
    (started,) = asked(machine, "expert")
    state = born(machine.state, started, machine)
    for fact in (facts.RunAdmittedFact(run_id=state.run_id),):
        _entries, _effects, state = advance(state, fact, machine.now)
    (pending,) = state.pending
    sent = facts.DecisionMadeFact(
        run_id=state.run_id, request_id=pending.effect_id, attempt=1, decision=respond({"found": 1})
    )
    _entries, _effects, state = advance(state, sent, machine.now)
    word = report_for_parent(state)
    assert word is not None
    assert (word.run_id, word.child_id, word.status, word.ended) == (RUN, started.child_id, "completed", True)
    assert word.final == {"found": 1} and word.child_seq == state.seq
    assert report_for_parent(machine.state) is None


def test_an_older_report_that_comes_late_does_not_stop_the_parents_time() -> None:
    machine, (child,) = waiting_parent("expert")
    child_reports(machine, child, "running", 8, news=True)
    assert child_reports(machine, child, "waiting", 5, news=True) == []
    assert machine.state.status == "running"


def test_a_parked_child_is_an_end_for_its_parent_unless_that_can_still_cancel_it() -> None:
    machine, (child,) = waiting_parent("expert")
    state = born(machine.state, child, machine)
    transition = TransitionBuilder(state=state, now=machine.now)
    transition.emit(ev.RunQuarantined(code="execution_conflict", message="the ledger says otherwise"))
    word = report_for_parent(transition.state)
    assert word is not None and (word.status, word.ended) == ("quarantined", True)
    fed(machine, facts.CancelRequestedFact(run_id=RUN, by="ann"))
    assert fed(machine, word) == [], "its own end, by the cancel, counts"
    assert types(fed(machine, word.model_copy(update={"reason": "log_unreadable"})))[0] == "child_ended"
    machine, (child,) = waiting_parent("expert")
    assert types(fed(machine, word.model_copy(update={"child_id": child.child_id})))[0] == "child_ended"


def test_a_parked_parent_still_tells_its_children_to_stop() -> None:
    machine, (child,) = waiting_parent("expert")
    transition = TransitionBuilder(state=machine.state, now=machine.now)
    transition.emit(ev.RunQuarantined(code="execution_conflict", message="the ledger says otherwise"))
    machine.state = transition.state
    assert types(fed(machine, facts.CancelRequestedFact(run_id=RUN, by="ann"))) == ["cancel_accepted"]
    assert [e.message.child_id for e in machine.sent if isinstance(e.message, AskChildStatus)] == [child.child_id]
    assert machine.state.status == "cancelling"


def test_a_very_large_answer_of_a_child_is_cut_for_its_parent() -> None:
    large = inline_or_reference({"text": "x" * 600_000})
    assert large is not None and large["blob"].startswith("sha256:") and large["bytes"] > 600_000
    assert len(large["preview"]) == 2_000
    assert inline_or_reference({"text": "small"}) == {"text": "small"} and inline_or_reference(None) is None


def test_a_child_that_waits_for_people_is_asked_seldom() -> None:
    machine, (child,) = waiting_parent("expert")
    child_reports(machine, child, "waiting", 9)
    waits = []
    for _ in range(9):
        (pending,) = machine.state.pending
        machine.now = pending.resend_at
        fed(machine, facts.TimerFiredFact(run_id=RUN))
        waits.append((machine.state.pending[0].resend_at - machine.now).total_seconds())
    assert waits[-1] == 120


@pytest.mark.parametrize("kind", ["goal", "network"])
def test_a_budget_gate_that_opens_while_an_answer_is_on_its_way_asks_for_nothing_when_it_is_settled(kind: str) -> None:
    goal = {"goal": "g", "acceptance_criteria": [{"when": "size(results) > 0"}], "settings": {"validate_steps": False}}
    machine = Machine(kind=kind, **({"goal": goal} if kind == "goal" else {}))
    machine.decide(use("echo", text="a"))
    transition = TransitionBuilder(state=machine.state, now=machine.now)
    open_run_gate(transition, "budget", "budget:run", "80 % is spent", {})
    machine.state = transition.state
    (gate,) = machine.state.gates
    fact = facts.GateResolvedFact(run_id=RUN, gate_id=gate.gate_id, verdict="approved", by="ann")
    assert types(fed(machine, fact)) == ["gate_closed"], "the call is still on its way"
    done = facts.ToolFinishedFact(run_id=RUN, execution_id=machine.call_id(0), status="succeeded", result="ok")
    events = types(fed(machine, done))
    assert events[0] == "tool_call_finished" and len(events) > 1
    assert fed(machine, facts.TimerFiredFact(run_id=RUN)) == []


def test_a_child_begins_with_what_its_siblings_and_their_children_have_cost() -> None:
    """`max_cost_per_run_usd` counts a tree: its parts can't each begin with nothing."""
    machine, (first,) = waiting_parent("expert")
    machine.state = replace(machine.state, cost=Cost(usd=0.0, price_known=True))
    known = {"cost": Cost(usd=0.25, price_known=True), "below": Cost(usd=0.5, price_known=True)}
    child_reports(machine, first, "completed", 9, **known)
    (second,) = asked(machine, "clerk")
    child = born(machine.state, second, machine)
    assert child.created.spent == Cost(usd=0.75, price_known=True)
    assert report_for_parent(machine.state) is None and cost_of_children(machine.state) == Cost(
        usd=0.75, price_known=True
    )
    child_reports(machine, second, "failed", 9, reason="child_gone")
    (third,) = asked(machine, "clerk")
    assert born(machine.state, third, machine).created.spent == Cost(), "nobody knows what that one has cost"


def test_a_child_tells_what_its_own_children_have_cost() -> None:
    machine, (started,) = waiting_parent("expert")
    machine.state = born(machine.state, started, machine)
    quiet = report_for_parent(machine.state)
    assert quiet is not None and quiet.below is None and "below" not in quiet.model_dump_json()
    used = Usage(total_tokens=30, model_calls=2)
    spending = replace(machine.state, below=Cost(usd=2.0, price_known=True), usage_below=used)
    word = report_for_parent(spending)
    assert word is not None and (word.below, word.usage_below) == (Cost(usd=2.0, price_known=True), used)


def test_tokens_of_children_and_of_theirs_are_added_up() -> None:
    machine, (first, second) = waiting_parent("expert", "clerk")
    below = Usage(total_tokens=30, model_calls=2, cached_tokens=4)
    child_reports(machine, first, "completed", 9, usage=Usage(total_tokens=10, model_calls=1), usage_below=below)
    child_reports(machine, second, "failed", 9, usage=Usage(total_tokens=5, model_calls=1))
    assert usage_of_children(machine.state) == Usage(total_tokens=45, model_calls=4, cached_tokens=4)
