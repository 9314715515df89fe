"""The help desk of examples/support in one process: its gate, its refusals and its answer, without a server."""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.places import ROOT

from towpath.testing import RunResult, harness, script
from towpath_testing.harness import Harness

SUPPORT = ROOT / "examples/support"
DECISIONS: list[dict[str, Any]] = json.loads((SUPPORT / "script.json").read_text())


@pytest.fixture
def help_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the help desk is made of, with an order database of its own."""
    monkeypatch.setenv("SHOP_DATABASE", str(tmp_path / "orders.sqlite3"))
    return {
        "network": SUPPORT / "network.yaml",
        "policy": SUPPORT / "policy.yaml",
        "tools": [SUPPORT / "tools.py"],
        "model": script(DECISIONS),
    }


async def test_a_large_refund_waits_and_is_paid_once_it_is_approved(help_desk: dict[str, Any]) -> None:
    async with harness(**help_desk) as h:
        run = await h.run("Refund order 8812")
        gate = await h.next_gate()
        assert (gate.kind, gate.rule, gate.tool) == ("approval", "refunds-over-100", "orders.refund")
        assert gate.summary == "May billing make this call? orders.refund: Refund 129.0 of 8812"
        assert gate.args == {"order_id": "8812", "amount": 129.0, "reason": "arrived broken"}
        await gate.approve("checked with the customer")
        result = await run.result()
    assert (result.status, result.reason) == ("completed", "responded")
    assert result.text == "Order 8812 is refunded: 129.00 EUR are on their way back to your account."
    assert result.agents == ("triage", "billing")
    assert [(call.tool, call.status, call.args["order_id"]) for call in result.tool_calls()] == [
        ("orders.find", "succeeded", "8812"),
        ("orders.refund", "succeeded", "8812"),
    ]
    [refund] = result.tool_calls("orders.refund")
    assert refund.result["amount"] == 129.0


async def test_a_denied_refund_does_not_run_and_the_refusal_is_told(help_desk: dict[str, Any]) -> None:
    async with harness(**help_desk) as h:
        run = await h.run("Refund order 8812")
        await (await h.next_gate()).deny("too high")
        result = await run.result()
    assert result.tool_calls("orders.refund") == []
    [refused] = result.denied_calls()
    assert (refused.tool, refused.status) == ("orders.refund", "denied")
    assert refused.args["amount"] == 129.0


async def test_an_edited_refund_runs_as_it_was_edited(help_desk: dict[str, Any]) -> None:
    async with harness(**help_desk) as h:
        run = await h.run("Refund order 8812")
        await (await h.next_gate()).approve("half of it", edit={"amount": 60})
        result: RunResult = await run.result()
    [refund] = result.tool_calls("orders.refund")
    assert refund.args == {"order_id": "8812", "amount": 60, "reason": "arrived broken"}
    assert refund.result["amount"] == 60


async def test_a_gate_expires_at_once_when_the_clock_jumps(help_desk: dict[str, Any]) -> None:
    async with harness(**help_desk) as h:
        run = await h.run("Refund order 8812")
        await h.next_gate()
        await h.clock.advance("25h")  # the rule says 24 h
        result = await run.result()
        assert await h.open_gates() == []
    assert result.tool_calls("orders.refund") == []


def test_a_test_without_asyncio_says_the_same(help_desk: dict[str, Any]) -> None:
    with harness(**help_desk) as h:
        run = h.run("Refund order 8812")
        gate = h.next_gate()
        assert gate.rule == "refunds-over-100"
        gate.deny("too high")
        assert run.result().tool_calls("orders.refund") == []


async def test_a_run_costs_no_more_where_many_have_ended_before(help_desk: dict[str, Any]) -> None:
    """Counted in calls of functions, since times differ."""
    async with harness(**help_desk) as h:
        for _ in range(3):  # what is made once is made in these
            first = await _calls_of_a_refund(h)
        runs, votes = h._open.runs.runs, h._open.ledger.votes
        ended, cast = next(iter(runs.values())), next(iter(votes.values()))
        for _ in range(10_000):
            other = uuid4()
            runs[other] = {**ended, "run_id": other}
            votes[other] = cast
        assert await _calls_of_a_refund(h) < first + 5_000


async def _calls_of_a_refund(h: Harness) -> int:
    counted = 0

    def count(_frame: Any, event: str, _of: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run = await h.run("Refund order 8812")
        await (await h.next_gate()).approve("checked")
        await run.result()
    finally:
        sys.setprofile(None)
    return counted
