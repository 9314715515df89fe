"""A request whose authorization ended the process each time is denied without being looked at, on the record."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
from tests.conftest import DatabaseUrl
from tests.support.poison_marks import DEATHS, UNREAD, accuse, deliver_unanswered, letters, reason
from tests.support.tas.tas_caller import query, row
from tests.support.tas.tas_running import Running, running

from towpath_contracts import subjects
from towpath_contracts.streams import TOOLREQ_CONSUMER
from towpath_contracts.tools.calls import ToolRequest


async def send_poison(tas: Running, request: ToolRequest, deaths: int) -> None:
    """Stop the service, and send it *request* as one that ended it *deaths* times."""
    tas.service.terminate()
    await tas.service.ended()
    await tas.caller.nc.jetstream().publish(subjects.TOOL_REQUEST, request.model_dump_json().encode())
    (message,) = await deliver_unanswered(tas.caller.nc, TOOLREQ_CONSUMER)
    await accuse(tas.dsn, message, deaths)


async def test_a_poisonous_request_is_denied_and_kept_as_a_dead_letter(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    async with running(nats_server, database, tmp_path) as tas:
        await tas.caller.set_up()
        asked = tas.caller.request("orders.find")
        await send_poison(tas, asked, DEATHS)
        with tas.start() as service:
            await service.wait_ready()
            denial = await tas.caller.fact(asked, "tool.denied")
            await tas.caller.quiet()
        assert denial["denial"]["violation_type"] == "poison_message", denial
        (letter,) = await letters(tas.dsn)
        assert (letter["stream"], letter["run_id"], letter["reason"]) == ("TOOLREQ", asked.run_id, reason(DEATHS))
        assert (await row(tas.dsn, asked.execution_id))["status"] == "denied"


async def test_a_request_whose_denial_ended_the_process_too_is_kept_and_nothing_else(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    """Its run hears nothing, and asks again with a message that is new."""
    async with running(nats_server, database, tmp_path) as tas:
        await tas.caller.set_up()
        asked = tas.caller.request("orders.find")
        await send_poison(tas, asked, UNREAD)
        with tas.start() as service:
            await service.wait_ready()
            await tas.caller.quiet()
            (letter,) = await letters(tas.dsn)
            assert (letter["stream"], letter["run_id"], letter["reason"]) == ("TOOLREQ", None, reason(UNREAD))
            calls = "SELECT status FROM tas.tool_call WHERE execution_id = $1"
            assert not await query(tas.dsn, calls, asked.execution_id)
            assert not tas.caller.facts.get(asked.execution_id)
            assert (await tas.caller.dispatched(await tas.caller.put(asked))).execution_id == asked.execution_id


async def test_a_poisonous_request_for_a_call_that_was_decided_changes_no_decision(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    """Its call was permitted and may be at work: it is answered from its row, as every repeated request is."""
    async with running(nats_server, database, tmp_path) as tas:
        await tas.caller.set_up()
        asked = tas.caller.request("orders.find")
        await tas.caller.dispatched(await tas.caller.put(asked))
        await tas.caller.quiet()
        await send_poison(tas, asked, DEATHS)
        with tas.start() as service:
            await service.wait_ready()
            await tas.caller.quiet()
        (letter,) = await letters(tas.dsn)
        assert (letter["run_id"], letter["reason"]) == (asked.run_id, reason(DEATHS))
        assert (await row(tas.dsn, asked.execution_id))["status"] == "permitted"
        assert not tas.caller.facts.get(asked.execution_id)


async def test_copies_that_wait_for_a_slow_ledger_accuse_nobody(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    """The broker delivers again what nobody answers in time; the copies wait in the process that is at it."""
    async with running(nats_server, database, tmp_path) as tas:
        await tas.caller.set_up()
        await tas.caller.call("orders.find")
        holder = await asyncpg.connect(tas.dsn)
        async with holder.transaction():
            await holder.execute("LOCK TABLE tas.tool_call IN ACCESS EXCLUSIVE MODE")
            asked = tas.caller.request("orders.find")
            await tas.caller.put(asked)
            await asyncio.sleep(3.5 * TOOLREQ_CONSUMER.ack_wait_s)
        await holder.close()
        assert (await tas.caller.dispatched(asked)).execution_id == asked.execution_id
        await tas.caller.quiet()
        assert await query(tas.dsn, "SELECT deaths FROM runs.handling_failure") == []
