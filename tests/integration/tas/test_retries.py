"""What a person lets run again is permitted like the first time: by the rules in force, and not alone by who asked."""

import uuid
from typing import Any

import pytest
from tests.integration.tas.test_approvals import LARGE, policy, refused, vote, waiting
from tests.integration.tas.test_calls import expire_lease
from tests.support.tas.tas_caller import OPEN, settled
from tests.support.tas.tas_running import Running, audit_holds, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.canonical import digest
from towpath_fabric.tickets import TicketVerifier

__all__ = ["audit_holds", "shared_tas", "tas"]

NEVER = 'kind: Policy\nrules:\n  - {name: never, tool: "orders.*", effect: deny}\n'


async def lost(tas: Running, request: Any) -> dict[str, Any]:
    """Have the call started, and nothing heard of it; returns what a person says of it but for the verdict."""
    sent = await tas.caller.dispatched(request)
    assert (await tas.caller.claim(sent)).granted
    await expire_lease(tas, request.execution_id)
    await tas.caller.again(request)
    await settled(tas.dsn, request.execution_id, "unknown")
    return {"project": tas.caller.project, "run_id": request.run_id, "execution_id": request.execution_id}


async def lost_after_approval(tas: Running) -> tuple[Any, dict[str, Any]]:
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "approved")
    await tas.caller.again(request)
    return request, await lost(tas, request)


async def test_whoever_submitted_the_run_does_not_let_an_approved_call_run_again(tas: Running) -> None:
    request, word = await lost_after_approval(tas)
    own = {**word, "verdict": "retry", "actor": request.caller}
    await refused("requester_may_not_approve", tas.caller.ask(rpc.SETTLE_CALL, **own))
    await refused("requester_may_not_approve", tas.caller.ask(rpc.SETTLE_CALL, **{**own, "actor": "local"}))
    await tas.caller.ask(rpc.SETTLE_CALL, **{**own, "actor": "paula"})
    second = await tas.caller.dispatched(request, times=2)
    assert (await tas.caller.claim(second)).granted


async def test_whoever_submitted_the_run_still_says_that_an_approved_call_happened(tas: Running) -> None:
    request, word = await lost_after_approval(tas)
    await tas.caller.ask(rpc.SETTLE_CALL, **word, verdict="happened", actor=request.caller)
    await settled(tas.dsn, request.execution_id, "succeeded")


async def test_a_call_that_needs_nobody_runs_again_on_the_word_of_whoever_asked(tas: Running) -> None:
    above = {"root_run_id": uuid.uuid4(), "trace_id": uuid.uuid4()}
    request = await tas.caller.put(tas.caller.request("orders.refund", **above))
    word = await lost(tas, request)
    await tas.caller.ask(rpc.SETTLE_CALL, **word, verdict="retry", actor=request.caller)
    second = await tas.caller.dispatched(request, times=2)
    assert {name: getattr(second, name) for name in above} == above, "though no request said it again"
    assert second.run is not None and second.run["root_run_id"] == str(above["root_run_id"])


@pytest.mark.parametrize("later", [NEVER, policy()])
async def test_what_the_rules_in_force_do_not_let_through_does_not_run_again(tas: Running, later: str) -> None:
    await tas.caller.apply(OPEN)
    request = await tas.caller.put(tas.caller.request("orders.refund", args=LARGE))
    word = {**await lost(tas, request), "actor": "paula"}
    await tas.caller.apply(later)
    await refused("retry_refused", tas.caller.ask(rpc.SETTLE_CALL, **word, verdict="retry"))
    await settled(tas.dsn, request.execution_id, "unknown")
    await tas.caller.ask(rpc.SETTLE_CALL, **word, verdict="did_not_happen")
    await settled(tas.dsn, request.execution_id, "failed")


async def test_an_approval_of_another_call_lets_nothing_run_again(tas: Running) -> None:
    _, word = await lost_after_approval(tas)
    await tas.caller.apply(policy("quorum: 2"))
    await refused("retry_refused", tas.caller.ask(rpc.SETTLE_CALL, **word, verdict="retry", actor="paula"))


async def test_an_invocation_says_whose_call_it_is_and_its_ticket_attests_that_at_every_attempt(tas: Running) -> None:
    caller, root = tas.caller, uuid.uuid4()
    more = {"root_run_id": root, "labels": {"team": "blue"}, "caller": "ada", "system_params": ("order_id",)}
    registered = await caller.register()
    request = await caller.put(caller.request("orders.find", **more))
    first = await caller.dispatched(request)
    await caller.report(first, status="ticket_expired", result=None)
    again = await caller.dispatched(request, times=2)
    assert (first.attempt, again.attempt) == (1, 2)
    for invocation in (first, again):
        assert invocation.run == {
            "network": "support",
            "agent_key": "billing",
            "caller": "ada",
            "labels": {"team": "blue"},
            "root_run_id": str(root),
            "system_params": ["order_id"],
        }
        claims = TicketVerifier(registered.ticket_keys).open(invocation.ticket)
        assert claims.run_digest == invocation.run_digest == digest(invocation.run)
    plain = await caller.call("orders.find")
    own = {"network": "support", "agent_key": "billing", "caller": "anonymous", "root_run_id": str(plain.run_id)}
    assert (plain.run, plain.root_run_id) == (own, None)
