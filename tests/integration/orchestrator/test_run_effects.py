"""What became of the calls of a stopped run is returned where asked for, and read without arguments and results."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.orchestrator.replay.test_replay import change
from tests.integration.orchestrator.test_task_runs import publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator

from towpath_contracts import rpc
from towpath_contracts.dead_letters import ListDeadLetters
from towpath_contracts.runs.views import CancelRun, GetEvents, GetRun
from towpath_readings.effects import effects_of


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def view_of(peers: Peers, run_id: str, **asked: Any) -> Any:
    return await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, **asked))


async def stopped(peers: Peers) -> str:
    """Let a run do one call, and cancel it in the middle of the second; returns its id."""
    run_id: str = (await submit(peers))["run_id"]

    def calls() -> list[Any]:
        return [request for request in peers.requests if str(request.run_id) == run_id]

    await peers.until(lambda: bool(calls()))
    await peers.finish(calls()[0])
    await peers.until(lambda: len(calls()) == 2)
    await peers.ask(rpc.CANCEL_RUN, CancelRun(project="default", run_id=run_id, actor="ann"))
    return run_id


async def test_the_calls_of_a_stopped_run_are_reported_where_that_is_asked(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = await stopped(peers)
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=run_id))
        found = await view_of(peers, run_id, effects=True)
        assert found.effects == effects_of(entry.event for entry in page.entries)
        assert [effect.tool for effect in found.effects] == ["echo", "echo"]
        assert (await view_of(peers, run_id)).effects == ()
        for extra, known in (({}, 2), ({"effects": False}, 0)):
            reply = await peers.raw("task.get.anonymous", json.dumps({"run_id": run_id, **extra}).encode())
            assert len(json.loads(reply.data)["effects"]) == known

        # Results stay where they are: an event that only the list needs may hold anything beside its outcome.
        await change(
            database(),
            'UPDATE runs.run_event SET event = replace(event::text, \'"result":{\', \'"result":[],"other":{\')::json'
            " WHERE run_id = $1 AND type = 'tool_call_finished'",
            run_id,
        )
        assert (await view_of(peers, run_id, effects=True)).effects == found.effects


async def test_a_run_whose_log_can_not_be_read_says_so_when_it_is_asked_to_stop(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    peers.answer_tools = False
    dsn = database("orchestrator")
    run_id = ""
    async with orchestrator(dsn, nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: bool(peers.requests))
    await change(
        database(),
        "UPDATE runs.run_event SET event = '{\"type\": \"none\"}' WHERE run_id = $1 AND type = 'run_started'",
        run_id,
    )
    async with orchestrator(dsn, nats_server.url()):
        await peers.finish(peers.requests[0])
        asked = ListDeadLetters(project="default", run_id=run_id)
        async with asyncio.timeout(60):
            while (await view_of(peers, run_id)).reason != "log_unreadable":  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.05)
            while not (letters := (await peers.ask(rpc.LIST_DEAD_LETTERS, asked)).letters):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        body = CancelRun(project="default", run_id=run_id, actor="ann").model_dump_json().encode()
        for _ in range(2):
            answer = json.loads((await peers.raw(rpc.CANCEL_RUN.subject, body)).data)
            assert (answer["code"], answer["status"], answer["run_id"]) == ("run_unreadable", 409, run_id)
        assert (await peers.ask(rpc.LIST_DEAD_LETTERS, asked)).letters == letters, "nothing was published"
        assert (await view_of(peers, run_id, effects=True)).status == "quarantined"
