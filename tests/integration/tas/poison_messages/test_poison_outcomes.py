"""Outcomes whose handling ended the tool-access service each time are set aside, and their worker may forget them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DatabaseUrl
from tests.support.poison_marks import DEATHS, UNREAD, accuse, deliver_unanswered, letters, reason
from tests.support.tas.tas_caller import query, row
from tests.support.tas.tas_running import Running, running

from towpath_contracts import rpc, subjects
from towpath_contracts.streams import TOOLOUT_CONSUMER
from towpath_contracts.tools.calls import ToolInvocation, ToolOutcome
from towpath_tas.app.calls.tool_outcomes import outcome_number


async def stopped_before_an_outcome(tas: Running) -> tuple[ToolInvocation, ToolOutcome]:
    """Have a call sent, and the service stopped; returns the outcome that the worker has."""
    await tas.caller.set_up()
    call = await tas.caller.call("orders.find")
    tas.service.terminate()
    await tas.service.ended()
    outcome = ToolOutcome(
        execution_id=call.execution_id,
        run_id=call.run_id,
        attempt=call.attempt,
        tool=call.tool,
        status="succeeded",
        result={"ok": True},
        worker="w1",
        ticket=call.ticket,
    )
    return call, outcome


async def send(tas: Running, outcome: ToolOutcome, named: str | None, copies: int = 1) -> None:
    headers = {rpc.CONFIRM_HEADER: tas.caller.inbox}
    if named is not None:
        headers[rpc.OUTCOME_HEADER] = named
    for _ in range(copies):
        body = outcome.model_dump_json().encode()
        await tas.caller.nc.jetstream().publish(subjects.TOOL_OUTCOME, body, headers=headers)


@pytest.mark.parametrize("deaths", [DEATHS, UNREAD], ids=["read", "unread"])
async def test_a_poisonous_outcome_is_set_aside_and_confirmed_with_all_its_copies(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path, deaths: int
) -> None:
    """A worker sends an outcome until it is confirmed; deaths by one copy accuse the others."""
    async with running(nats_server, database, tmp_path) as tas:
        call, outcome = await stopped_before_an_outcome(tas)
        await send(tas, outcome, f"{outcome.key} {call.ticket}", copies=3)
        first, *_ = await deliver_unanswered(tas.caller.nc, TOOLOUT_CONSUMER, messages=3)
        await accuse(tas.dsn, first, deaths, number=outcome_number(first))
        with tas.start() as service:
            await service.wait_ready()
            await tas.caller.confirmation(outcome.key, times=3)
            await tas.caller.quiet("TOOLOUT")
        found = await letters(tas.dsn)
        assert [letter["reason"] for letter in found] == [reason(deaths)] * 3
        owners = {(letter["run_id"], letter["effect_id"], letter["project"]) for letter in found}
        assert owners == {(call.run_id, call.execution_id, call.project)}
        assert (await row(tas.dsn, call.execution_id))["status"] == "permitted", "the run's next request decides"


@pytest.mark.parametrize("named", ["another", "forged", "too long", "none"])
async def test_an_unread_outcome_without_a_good_ticket_is_confirmed_to_nobody(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path, named: str
) -> None:
    async with running(nats_server, database, tmp_path) as tas:
        call, outcome = await stopped_before_an_outcome(tas)
        header = {
            "another": f"{tas.caller.request('orders.find').execution_id}:1 {call.ticket}",
            "forged": f"{outcome.key} {call.ticket[:-8]}AAAAAAAA",
            "too long": f"{outcome.key} {'A' * 20_000}",
            "none": None,
        }[named]
        await send(tas, outcome, header)
        (message,) = await deliver_unanswered(tas.caller.nc, TOOLOUT_CONSUMER)
        await accuse(tas.dsn, message, UNREAD, number=outcome_number(message))
        with tas.start() as service:
            await service.wait_ready()
            await tas.caller.quiet("TOOLOUT")
            await asyncio.sleep(0.2)
        (letter,) = await letters(tas.dsn)
        assert (letter["run_id"], letter["project"], letter["reason"]) == (None, None, reason(UNREAD))
        assert tas.caller.confirmed == []


async def test_an_outcome_that_ended_few_processes_is_handled_and_its_mark_is_gone(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    async with running(nats_server, database, tmp_path) as tas:
        call, outcome = await stopped_before_an_outcome(tas)
        await send(tas, outcome, f"{outcome.key} {call.ticket}")
        (message,) = await deliver_unanswered(tas.caller.nc, TOOLOUT_CONSUMER)
        await accuse(tas.dsn, message, DEATHS - 1, number=outcome_number(message))
        with tas.start() as service:
            await service.wait_ready()
            await tas.caller.confirmation(outcome.key)
            await tas.caller.quiet("TOOLOUT")
        assert (await row(tas.dsn, call.execution_id))["status"] == "succeeded"
        marks = await query(tas.dsn, "SELECT deaths, begun_by FROM runs.handling_failure")
        assert [(mark["deaths"], mark["begun_by"]) for mark in marks] == [(0, None)]
