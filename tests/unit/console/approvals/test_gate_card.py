"""What a person is told of a gate, for every type of gate: the question, doubts first, and the verdicts."""

from typing import Any

import pytest
from tests.unit.console.approvals.gates import a_gate

from towpath_console.gate_card import argument_rows, dangers_of, gate_card
from towpath_contracts.runs.run_control import MANUAL, RUN_PAUSED
from towpath_contracts.switches import PAUSED
from towpath_orchestrator.app.api.commands import RUN_VERDICTS, UNKNOWN_VERDICTS
from towpath_tas.core.approvals.approval_votes import VERDICTS

RUN_GATES = ("loop_detected", "low_confidence", "permission", "budget", "timeout", MANUAL)
SAID = {"approve": "approved", "deny": "denied"}


def run_gate(gate_type: str, **detail: Any) -> dict[str, Any]:
    told = {"agent": "a", "verdicts": list(RUN_VERDICTS), **detail}
    return {**a_gate(gate_type=gate_type, detail=told), "approval_id": None, "execution_id": None}


def verdicts(gate: dict[str, Any]) -> set[str]:
    card = gate_card(gate)
    return {SAID.get(choice.verdict, choice.verdict) for choice in card.choices} | (
        {"edit"} if card.can_edit else set()
    )


def test_values_that_nobody_vouches_for_come_first_and_of_these_destinations() -> None:
    args = {"id": "1", "note": "x", "to": "eve", "sum": 3, "free": 1}
    origins = [
        {"path": "id", "from": "task", "sink": True},
        {"path": "note", "from": "unknown", "sink": False},
        {"path": "to", "from": "untrusted", "sink": True, "tool": "mail.read", "step": 2},
        {"path": "sum", "from": "record", "sink": False, "tool": "orders.find", "step": 1},
    ]
    rows = argument_rows(a_gate(args=args, origins=origins))
    assert [(row.name, row.origin, row.is_doubtful) for row in rows] == [
        ("to", "untrusted", True), ("note", "unknown", True), ("id", "task", False), ("sum", "record", False),
        ("free", "", False),
    ]  # fmt: skip
    assert rows[0].told == ("read with mail.read, step 2",)
    assert rows[1].told == ("nobody said it; the model wrote it",)


def test_an_argument_is_as_bad_as_its_worst_part_and_says_which_that_is() -> None:
    origins = [{"path": f"rows[{n}].to", "from": "unknown", "sink": True} for n in range(6)]
    origins.append({"path": "rows[6].to", "from": "task", "sink": True})
    (row,) = argument_rows(a_gate(args={"rows": [{}]}, origins=origins))
    assert (row.origin, row.is_doubtful, row.is_nested) == ("unknown", True, True)
    parts = ", ".join(f"rows[{n}].to" for n in range(4))
    assert row.told == (f"nobody said it; the model wrote it: {parts} and 2 more",)


def test_a_name_with_a_dot_is_found_whole() -> None:
    (row,) = argument_rows(a_gate(args={"a.b": 1}, origins=[{"path": "a.b", "from": "unknown"}]))
    assert row.is_doubtful


def test_a_call_is_told_in_the_words_of_its_tool() -> None:
    gate = a_gate(args={"to": "eve"}, origins=[])
    gate["detail"]["summary"] = "Pay {to}"
    assert gate_card(gate).summary == "Pay eve"


def test_values_are_written_exactly() -> None:
    rows = argument_rows(a_gate(args={"text": "8812", "number": 8812, "truth": True, "nothing": None}, origins=[]))
    assert [row.text for row in rows] == ['"8812"', "8812", "true", "null"]


def test_a_value_that_may_not_be_known_where_it_goes_is_a_warning() -> None:
    origins = [{"path": "to", "from": "task", "sink": True, "leak": True}]
    card = gate_card(a_gate(args={"to": "bob"}, origins=origins))
    assert (
        card.arguments[0].is_doubtful
        and ("bad", "It would go to somebody who may not know all of it.") in card.warnings
    )


def test_an_approval_takes_what_the_tool_access_service_takes() -> None:
    assert verdicts(a_gate()) == set(VERDICTS)
    assert verdicts(a_gate(gate_type="manual")) == {"approved", "denied"}, "after three changes no more"
    assert verdicts({**a_gate(), "status": "approved"}) == set()


def test_a_doubt_takes_what_became_of_the_call() -> None:
    told = {"tool": "pay", "args": {}, "verdicts": list(UNKNOWN_VERDICTS), "retry_warning": "it may still act"}
    gate = {**a_gate(gate_type="unknown_effect", detail=told), "approval_id": None}
    assert verdicts(gate) == set(UNKNOWN_VERDICTS)
    assert gate_card(gate).title == "Did pay happen?" and ("warn", "it may still act") in gate_card(gate).warnings


@pytest.mark.parametrize("gate_type", RUN_GATES)
def test_a_gate_of_a_run_asks_whether_it_goes_on(gate_type: str) -> None:
    card = gate_card(run_gate(gate_type, confidence=0.2, why="lost"))
    assert card.title != gate_type and card.question.endswith("?")
    assert verdicts(run_gate(gate_type)) == set(RUN_VERDICTS) - ({"denied"} if gate_type == MANUAL else set())
    assert ("Confidence", 0.2) in card.facts and card.unanswered == "the run ends as escalated"


@pytest.mark.parametrize("gate_type", [PAUSED, RUN_PAUSED])
def test_what_is_held_by_a_switch_or_a_pause_takes_no_verdict(gate_type: str) -> None:
    assert verdicts(run_gate(gate_type)) == set()
    assert gate_card(run_gate(gate_type)).question.startswith("Only")


def test_what_differs_from_an_ordinary_approval_is_said() -> None:
    assert gate_card(a_gate()).warnings == ()
    edited = gate_card(a_gate(edited_by="paula", changes=["arguments.amount: 500 → 50"]))
    assert [tone for tone, words in edited.warnings if "paula" in words] == ["warn"]
    drifted = gate_card(a_gate(changes=["rules.large: a → b"]))
    assert "changed since" in drifted.warnings[0][1]
    escalated = gate_card(a_gate(role="policy_admin"))
    assert "policy_admin" in escalated.warnings[0][1]


def test_what_happens_without_a_decision_is_said() -> None:
    assert gate_card(a_gate()).unanswered == "it is denied"
    assert gate_card(a_gate(on_expiry="escalate")).unanswered == "the policy admins are asked"


def test_votes_are_counted_by_people() -> None:
    votes = [{"actor": "ann", "verdict": "approved"}, {"actor": "ann", "verdict": "edited"}]
    assert gate_card({**a_gate(), "quorum": 2, "votes": votes}).votes == "1 of 2 people have approved"
    assert gate_card(a_gate()).votes == ""


def test_a_card_in_a_list_is_short_and_its_page_has_all() -> None:
    gate = a_gate(args={f"a{n}": n for n in range(20)}, origins=[{"path": "a19", "from": "unknown"}])
    card = gate_card(gate)
    assert (len(card.arguments), card.hidden_arguments, card.arguments[0].name) == (8, 12, "a19")
    assert len(gate_card(gate, full=True).arguments) == 20


def test_a_tool_says_what_it_can_do() -> None:
    assert dangers_of({"effect_class": "irreversible", "hazards": ["spend"]}) == (
        "What this tool does can't be taken back.",
        "It can spend money.",
    )
    assert dangers_of({"effect_class": "pure"}) == dangers_of(None) == ()


def test_details_of_other_versions_break_nothing() -> None:
    for detail in ({}, {"args": None}, {"args": [1]}, {"args": {"a": 1}, "origins": [{}]}, {"origins": [{"path": 3}]}):
        assert gate_card({**a_gate(), "detail": detail}, full=True)


def test_only_a_refusal_and_another_way_need_a_reason() -> None:
    gates = (a_gate(), run_gate("budget"), run_gate(MANUAL), run_gate("unknown_effect"))
    choices = [choice for gate in gates for choice in gate_card(gate).choices]
    assert {choice.label for choice in choices if choice.needs_reason} == {"Deny", "Go on differently"}
    assert len({choice.label for choice in choices}) == 8
