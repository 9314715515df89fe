"""Facts that nobody waits for: duplicate, late, of other runs, hostile. The run is untouched."""

from typing import Any
from uuid import UUID, uuid5

import pytest
from pydantic import TypeAdapter
from tests.support.engine.machine import RUN, Machine, respond, route, types, use

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost, DecisionRequest, PlayedScriptEntry, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import Denial
from towpath_engine.advance import advance
from towpath_engine.handlers.steps import FEEDBACK_CHARS

STRANGER = uuid5(RUN, "nobody")
DENIAL = Denial(violation_type="permission_denied", reason="no")


def answers(name: UUID) -> list[facts.AnyFact]:
    """Every fact that answers something, about *name*."""
    bodies: list[dict[str, Any]] = [
        {"type": "decision.made", "request_id": name, "attempt": 1, "decision": respond("forged")},
        {"type": "decision.failed", "request_id": name, "attempt": 1, "code": "provider_error", "message": "m"},
        {"type": "tool.finished", "execution_id": name, "status": "succeeded", "result": "forged"},
        {"type": "tool.finished", "execution_id": name, "status": "unknown"},
        {"type": "tool.denied", "execution_id": name, "denial": DENIAL},
        {"type": "gate.resolved", "gate_id": name, "verdict": "approved"},
        {"type": "gate.resolved", "approval_id": name, "verdict": "denied"},
        {"type": "message.dead", "stream": "TOOLREQ", "reason": "bad", "effect_id": name},
    ]
    adapter: TypeAdapter[facts.AnyFact] = facts.fact_adapter
    return [adapter.validate_python({"run_id": RUN, **body}) for body in bodies]


def ids_in_use(machine: Machine) -> set[UUID]:
    return {p.effect_id for p in machine.state.pending} | {g.gate_id for g in machine.state.gates}


def at_every_turn() -> list[Machine]:
    """A run that waits for a decision, for a call, for a person, for a fence, and one that has ended."""
    machines = [Machine() for _ in range(5)]
    for machine in machines[1:]:
        machine.decide(use("echo", text="x"))
    machines[2].unknown()
    machines[3].cancel()
    machines[4].finish()
    machines[4].decide(respond("end"))
    return machines


@pytest.mark.parametrize("turn", range(5))
def test_an_answer_about_something_else_changes_nothing(turn: int) -> None:
    for fact in answers(STRANGER):
        assert at_every_turn()[turn].feed(fact) == []


@pytest.mark.parametrize("turn", range(4))
def test_an_answer_of_the_wrong_kind_changes_nothing(turn: int) -> None:
    """A decider may not finish a call, nor a tool decide, by naming the other's pending id."""
    machine = at_every_turn()[turn]
    waits_for = {0: "decision", 1: "tool", 2: "tool", 3: "tool"}[turn]
    for name in ids_in_use(machine):
        for fact in answers(name):
            kind = fact.type.split(".")[0]
            if kind != waits_for and kind in ("decision", "tool"):
                assert machine.feed(fact) == [], fact.type


def test_a_fact_of_another_run_changes_nothing() -> None:
    machine = Machine()
    other = facts.DecisionMadeFact(run_id=STRANGER, request_id=machine.request_id, attempt=1, decision=respond("x"))
    for fact in (other, facts.TimerFiredFact(run_id=STRANGER), facts.CancelRequestedFact(run_id=STRANGER, by="eve")):
        machine.now = machine.now.replace(year=2030)
        assert advance(machine.state, fact, machine.now) == ((), (), machine.state)


def test_the_first_answer_wins_and_all_later_ones_are_ignored() -> None:
    machine = Machine()
    request_id = machine.request_id
    machine.wake()
    machine.decide(use("echo", text="x"))
    for attempt in (1, 2, 3):
        late = facts.DecisionMadeFact(run_id=RUN, request_id=request_id, attempt=attempt, decision=respond("loser"))
        assert machine.feed(late) == []
    call_id = machine.call_id()
    machine.finish(result="first")
    for fact in answers(call_id):
        assert machine.feed(fact) == []
    assert machine.state.last_output == "first"


def test_a_run_is_admitted_once() -> None:
    machine = Machine()
    assert machine.admit() == []
    machine.decide(use("echo", text="x"))
    assert machine.admit() == []


def test_nothing_wakes_a_finished_run() -> None:
    machine = Machine()
    request_id = machine.request_id
    machine.decide(respond("end"))
    for fact in (
        *answers(request_id),
        facts.CancelRequestedFact(run_id=RUN, by="ann"),
        facts.TimerFiredFact(run_id=RUN),
    ):
        assert machine.feed(fact) == []
    assert machine.feed(facts.ExecutionConflictFact(run_id=RUN, execution_id=STRANGER, message="m")) == []


def test_a_dead_letter_that_names_nothing_pending_leaves_the_run_alone() -> None:
    machine = Machine()
    anonymous = facts.MessageDeadFact(run_id=RUN, stream="INBOX", reason="malformed")
    assert machine.feed(anonymous) == []
    assert machine.feed(anonymous.model_copy(update={"effect_id": STRANGER})) == []


def test_a_dead_letter_is_sent_again_and_the_third_in_a_row_ends_the_run() -> None:
    machine = Machine()
    dead = facts.MessageDeadFact(
        run_id=RUN, stream="DECIDE", reason="malformed", effect_id=machine.request_id, attempt=1
    )
    (resent,) = machine.feed(dead)
    assert isinstance(resent, ev.EffectResent) and (resent.attempt, resent.dead) == (2, "DECIDE: malformed")
    assert machine.feed(dead) == [], "attempt 1 was sent again since"
    assert machine.feed(dead.model_copy(update={"attempt": 0})) == [], "a report names the attempt"
    assert types(machine.feed(dead.model_copy(update={"attempt": 2}))) == ["effect_resent"]
    events = machine.feed(dead.model_copy(update={"attempt": 3}))
    assert types(events) == ["run_finished"]
    assert (machine.finished.status, machine.finished.reason) == ("failed", "dead_lettered")
    assert "DECIDE" in machine.finished.final["message"]


@pytest.mark.parametrize(
    "decision",
    [
        {},
        {"action": None},
        {"action": ["USE_TOOL"]},
        {"action": "RESPOND", "action_details": None},
        {"action": "USE_TOOL", "action_details": {"tool_name": "", "tool_params": {}}},
        {"action": "USE_TOOL", "action_details": {"tool_name": "x" * 129}},
        {"action": "USE_TOOL", "action_details": {"tool_name": "echo", "tool_params": []}},
        {"action": "USE_TOOL", "action_details": {"tool_name": "echo", "calls": [{"tool_name": "echo"}]}},
        {"action": "USE_TOOL", "action_details": {"tool_params": {"a": 1}, "calls": [{"tool_name": "echo"}]}},
        {"action": "ROUTE_TO_AGENT", "action_details": {"target_agent_name": ""}},
        {"action": "RESPOND", "action_details": {"payload": [1]}},
        {"action": "RESPOND", "action_details": {"payload": {"x": float("nan")}}},
        {"action": "USE_TOOL", "action_details": {"tool_name": "echo", "tool_params": {"x": float("-inf")}}},
        {f"field {n}": n for n in range(5_000)},
        {**respond("x"), **{f"field {n}": n for n in range(5_000)}},
        {"action": "RESPOND", "action_details": {"payload": {}}, "\x00": "\x00"},
    ],
)
def test_a_senseless_decision_is_fed_back(decision: dict[str, Any]) -> None:
    machine = Machine()
    assert types(machine.decide(decision)) == ["decision_received", "decision_refused", "decision_requested"]
    (refused,) = machine.events(ev.DecisionRefused)
    assert refused.code == "decision_invalid" and 0 < len(refused.feedback) <= FEEDBACK_CHARS


def test_a_decider_that_gives_up_ends_the_run_with_its_reason() -> None:
    machine = Machine()
    machine.decide(use("echo", text="x"))
    machine.finish(result="kept")
    assert types(machine.miss("provider_unavailable", "no route to the model")) == ["decision_missed", "run_finished"]
    ended = machine.finished
    assert (ended.status, ended.reason, ended.last_output) == ("failed", "provider_unavailable", "kept")
    assert ended.final == {"status": "error", "error": "provider_unavailable", "message": "no route to the model"}
    assert machine.log.execution_log[-1]["text"] == "provider_unavailable: no route to the model"


def test_unreadable_output_is_fed_back_and_its_script_entry_is_not_played_again() -> None:
    machine = Machine()
    machine.miss("invalid_output", "no JSON", script=PlayedScriptEntry(queue="*", index=4))
    assert machine.context.feedback == ("Your last answer was not a valid decision: no JSON",)
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest) and request.script is not None
    assert request.script.cursors == {"*": 5}
    machine.miss("invalid_output", "no JSON", script=PlayedScriptEntry(queue="triage", index=0))
    assert machine.state.cursors == {"*": 5, "triage": 1}
    assert request.script.digest == "sha256:aa"


def test_feedback_and_notes_are_shown_once() -> None:
    machine = Machine()
    machine.decide(use("ghost"))
    assert machine.context.feedback != ()
    machine.decide(route("expert", "hand over"))
    assert machine.context.feedback == () and machine.context.handoff == "hand over"
    machine.miss("invalid_output", "no JSON")
    assert machine.context.handoff == "hand over", "the model has not seen it answered yet"


def test_what_every_answer_cost_is_counted() -> None:
    machine = Machine()
    one = {"usage": Usage(input_tokens=10, output_tokens=2, total_tokens=12, model_calls=1)}
    priced = Cost(usd=0.25, price_known=True, price_source="list")
    fact = facts.DecisionFailedFact(
        run_id=RUN, request_id=machine.request_id, attempt=1, code="invalid_output", message="m", cost=priced, **one
    )
    machine.feed(fact)
    machine.feed(
        facts.DecisionMadeFact(
            run_id=RUN, request_id=machine.request_id, attempt=1, decision=respond("x"), cost=priced, **one
        )
    )
    ended = machine.finished
    assert ended.usage == Usage(input_tokens=20, output_tokens=4, total_tokens=24, model_calls=2)
    assert ended.cost == Cost(usd=0.5, price_known=True, price_source="list")


def test_one_unknown_price_makes_the_sum_unknown_not_smaller() -> None:
    machine = Machine()
    known, unknown = Cost(usd=0.25, price_known=True), Cost()
    for cost, decision in ((known, use("ghost")), (unknown, use("ghoul")), (known, respond("x"))):
        machine.feed(
            facts.DecisionMadeFact(run_id=RUN, request_id=machine.request_id, attempt=1, decision=decision, cost=cost)
        )
    assert (machine.finished.cost.usd, machine.finished.cost.price_known) == (None, False)
