"""Outcomes that are none, or of no call, cost few statements however many come, and an honest one is confirmed."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.statement_count import transactions
from tests.support.tas.tas_caller import query, settled
from tests.support.tas.tas_running import Running, running
from tests.support.waiting import all_sent

from towpath_contracts import rpc, subjects
from towpath_contracts.tools.calls import ToolOutcome
from towpath_fabric.tickets import TicketSigner, TicketVerifier
from towpath_tas.app.calls.tool_outcomes import MAX_UNVOUCHED

FLOOD = 2_000
FEW = FLOOD // 10
"""One statement for each message would be FLOOD; what a service asks anyhow in some seconds is less."""


def of_no_call(_: Running) -> bytes:
    named = {"execution_id": str(uuid.uuid4()), "run_id": str(uuid.uuid4()), "attempt": 1}
    return json.dumps({**named, "tool": "x", "status": "succeeded", "ticket": "a.b", "worker": "w"}).encode()


async def asked_in_all(tas: Running) -> int:
    """End the service, and return how many statements it has asked."""
    tas.service.terminate()
    await tas.service.ended()
    return await transactions(tas.dsn)


async def flood(tas: Running, make: Callable[[Running], bytes], count: int = FLOOD) -> None:
    for _ in range(count):
        await tas.caller.nc.publish(subjects.TOOL_OUTCOME, make(tas))
    await all_sent(tas.caller.nc)


@pytest.mark.parametrize("make", [lambda _: b"{}", of_no_call], ids=["unreadable", "of no call"])
async def test_a_flood_of_bad_outcomes_costs_few_statements_and_the_next_good_one_is_taken(
    nats_server: Any, database: Callable[..., str], folder: Path, make: Callable[[Running], bytes]
) -> None:
    async with running(nats_server, database, folder) as tas:
        await tas.caller.set_up()
        call = await tas.caller.call("orders.find")
        await flood(tas, make)
        key = await tas.caller.report(call)
        await tas.caller.confirmation(key)
        await settled(tas.dsn, call.execution_id, "succeeded")
        await tas.caller.quiet("TOOLOUT")
        assert await asked_in_all(tas) < FEW
        (kept,) = await query(tas.dsn, "SELECT count(*) AS letters FROM runs.dead_letter WHERE stream = 'TOOLOUT'")
        assert kept["letters"] == 1_000, "as many as are kept"
        assert tas.caller.confirmed == [key]


async def test_copies_of_one_outcome_cost_few_statements_and_are_confirmed(
    nats_server: Any, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        await tas.caller.set_up()
        call = await tas.caller.call("orders.find")
        told = {"tool": call.tool, "status": "succeeded", "worker": "w1", "ticket": call.ticket}
        outcome = ToolOutcome(execution_id=call.execution_id, run_id=call.run_id, attempt=call.attempt, **told)
        headers = {rpc.CONFIRM_HEADER: tas.caller.inbox}
        for _ in range(FLOOD):
            await tas.caller.nc.publish(subjects.TOOL_OUTCOME, outcome.model_dump_json().encode(), headers=headers)
        await tas.caller.confirmation(outcome.key)
        await tas.caller.quiet("TOOLOUT")
        assert await asked_in_all(tas) < FEW
        assert len(await query(tas.dsn, "SELECT 1 FROM runs.dead_letter")) == 0


async def test_outcomes_whose_key_is_gone_are_all_confirmed_in_the_end(
    nats_server: Any, database: Callable[..., str], folder: Path
) -> None:
    """More than the ledger is asked about at once: the rest is set aside, and taken when it comes again."""
    async with running(nats_server, database, folder) as tas:
        await tas.caller.set_up()
        calls = [await tas.caller.call("orders.find") for _ in range(MAX_UNVOUCHED + 8)]
        keys = (await tas.caller.register()).ticket_keys
        gone = Ed25519PrivateKey.generate()
        tickets = [TicketSigner(gone).sign(renamed(TicketVerifier(keys).open(call.ticket), gone)) for call in calls]
        left = set(range(len(calls)))
        for _ in range(5):
            named = {place: await tas.caller.report(calls[place], ticket=tickets[place]) for place in sorted(left)}
            await tas.caller.quiet("TOOLOUT")
            left = {place for place, key in named.items() if key not in tas.caller.confirmed}
            if not left:
                break
        assert not left
        noted = await tas.caller.audit(phase="evidence")
        assert {entry.execution_id for entry in noted} == {call.execution_id for call in calls}


def renamed(claims: Any, key: Ed25519PrivateKey) -> Any:
    return claims.model_copy(update={"key_id": TicketSigner(key).key_id})
