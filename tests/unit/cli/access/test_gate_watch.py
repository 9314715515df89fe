"""What `towpath gates watch` says of gates between two looks."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from towpath.cli.access.gate_watch import differences, line, quorum_progress
from towpath.cli.access.gates_commands import LISTED, describe_gate
from towpath.cli.shared.table import TableColumn, table_lines
from towpath_contracts.runs.views import GateView, GateVote

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def gate(number: int = 1, *yes: str, **more: Any) -> GateView:
    fields: dict[str, Any] = {
        "gate_id": UUID(int=number),
        "run_id": uuid.uuid4(),
        "project": "shop",
        "gate_type": "approval",
        "status": "pending",
        "reason": "somebody\x1b[31m looks",
        "detail": {"tool": "pay", "args": {"amount": 5}},
        "opened_at": AT,
        "expires_at": AT + timedelta(days=1),
        "quorum": 2,
        "votes": tuple(GateVote(actor=actor, verdict="approved", at=AT) for actor in yes),
        **more,
    }
    return GateView.model_validate(fields)


def by_id(*gates: GateView) -> dict[UUID, GateView]:
    return {one.gate_id: one for one in gates}


def test_a_gate_is_reported_when_it_comes_when_it_is_voted_on_and_when_it_is_gone() -> None:
    first, second = gate(1), gate(2)
    assert differences({}, by_id(first)) == ([("opened", first)], [])
    voted = gate(1, "paula")
    assert differences(by_id(first), by_id(voted, second)) == ([("voted", voted), ("opened", second)], [])
    assert differences(by_id(voted), by_id(voted)) == ([], [])
    assert differences(by_id(voted, second), by_id(second)) == ([], [voted.gate_id])


def test_a_line_says_what_a_person_needs_and_nothing_that_a_terminal_obeys() -> None:
    assert line("opened", gate()) == "◐ 00000000  pay amount=5  waits: somebody looks"
    assert line("voted", gate(1, "paula")).endswith("paula approved, 1 of 2")
    told = {"tool": "pay", "args": {"amount": 5}, "summary": "Pay {amount} EUR"}
    assert line("opened", gate(detail=told)) == '◐ 00000000  pay "Pay 5 EUR" amount=5  waits: somebody looks'
    assert line("opened", gate(detail={}, gate_type="loop")).startswith("◐ 00000000  loop  waits: ")
    closed = gate(1, "paula", "peter", status="approved", verdict="approved", closed_by="paula, peter")
    assert line("closed", closed).endswith("approved paula, peter")
    assert quorum_progress(gate(1, quorum=1).model_dump(mode="json")) == ""


def test_the_list_says_what_a_gate_of_a_run_is_about() -> None:
    of_run = {"gate_type": "loop", "execution_id": None, "detail": {"key": "loop:same_call", "verdicts": ["stop"]}}
    of_call = {"gate_type": "approval", "execution_id": "e", "detail": {"tool": "orders.refund", "args": {"id": 8812}}}
    assert describe_gate(of_run) == "loop same_call" and describe_gate(of_call) == "orders.refund id=8812"
    told = {**of_call, "detail": {**of_call["detail"], "summary": "Refund order {id}"}}  # type: ignore[dict-item]
    assert describe_gate(told) == "orders.refund: Refund order 8812"
    long = {**told, "detail": {**told["detail"], "summary": f"Refund {'a very long story ' * 6}of 129 EUR to ann"}}
    assert describe_gate(long).endswith("of 129 EUR to ann")
    assert describe_gate({"gate_type": "timeout", "execution_id": None, "detail": {"key": "timeout"}}) == "timeout"


def test_the_table_of_gates_folds_what_waits_on_a_narrow_terminal_and_cuts_nothing_of_it() -> None:
    words = f"Refund {'a very long story ' * 6}of 129 EUR to ann"
    cells = {"gate": "1dca23ca-3e27", "status": "pending", "run": "01a2209e-60b6", "what": words}
    drawn = [TableColumn(one.title, [cells.get(one.title, "")], is_whole=one.is_whole) for one in LISTED]
    lines = table_lines(drawn, 80)
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert sorted(words.split()) == sorted(word for word in " ".join(lines[1:]).split() if word in words.split())
