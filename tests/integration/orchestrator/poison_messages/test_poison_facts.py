"""Facts and tasks whose handling ended the orchestrator each time are set aside, and their runs go on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.integration.orchestrator.test_task_runs import ended, publish, submit
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator, respond
from tests.support.poison_marks import DEATHS, UNREAD, accuse, deliver_unanswered, letters, reason

from towpath_contracts import rpc, subjects
from towpath_contracts.facts import DecisionMadeFact
from towpath_contracts.runs.views import ListRuns
from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER
from towpath_fabric.nats.pull_consumer import deliveries

TASK = {"network": "solo", "user_message": "hello"}


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda _request: respond("done"))
        await found.start()
        yield found
        await found.stop()


def decision(peers: Peers) -> tuple[UUID, bytes]:
    """The decider's answer to the last request, and its run."""
    asked = peers.decisions[-1]
    fact = DecisionMadeFact(
        run_id=asked.run_id,
        request_id=asked.request_id,
        attempt=asked.attempt,
        decision=peers.decide(asked),
        usage=peers.usage,
    )
    return asked.run_id, fact.model_dump_json().encode()


@pytest.mark.parametrize("deaths", [DEATHS, UNREAD], ids=["read", "unread"])
async def test_a_poisonous_answer_is_set_aside_and_its_run_goes_on(
    database: Any, nats_server: Any, peers: Peers, deaths: int
) -> None:
    """Where it is read, the run asks again for what it was the answer to; else the next answer is as good."""
    peers.answer_decisions = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        accepted = await submit(peers)
        await peers.until(lambda: len(peers.decisions) == 1)
    run_id, body = decision(peers)
    await peers.nc.jetstream().publish(subjects.run_inbox("decider", run_id), body)
    (message,) = await deliver_unanswered(peers.nc, INBOX_CONSUMER)
    await accuse(database(), message, deaths)
    peers.answer_decisions = deaths == DEATHS
    async with orchestrator(database("orchestrator"), nats_server.url()) as process:
        if deaths == UNREAD:
            await process.wait_ready()
            await process.counted('towpath_dead_letters_total{stream="INBOX"}')
            await peers.send("decider", run_id, body)
        view = await ended(peers, accepted["run_id"])
    assert (view.status, view.final) == ("completed", {"message": "done"})
    assert len(peers.decisions) >= (2 if deaths == DEATHS else 1)
    (letter,) = await letters(database())
    assert (letter["stream"], str(letter["run_id"]), letter["reason"], letter["body"]) == (
        *("INBOX", accepted["run_id"]),
        *(reason(deaths), body),
    )
    assert (letter["effect_id"] is None) == (deaths == UNREAD), "only what was read says what it was the answer to"


@pytest.mark.parametrize("deaths", [DEATHS, UNREAD], ids=["read", "unread"])
async def test_a_poisonous_task_is_set_aside_and_others_run(
    database: Any, nats_server: Any, peers: Peers, deaths: int
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
    for text in ("poison", "hello"):
        body = json.dumps({**TASK, "user_message": text}).encode()
        await peers.nc.jetstream().publish("task.enqueue.anonymous", body)
    message, innocent = await deliver_unanswered(peers.nc, TASKS_CONSUMER, messages=2)
    await accuse(database(), message, deaths)
    await accuse(database(), innocent, DEATHS - 1)
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await peers.until(lambda: len(peers.decisions) == 1)
        page = await peers.ask(rpc.LIST_RUNS, ListRuns(project="default"))
        assert (await ended(peers, str(page.runs[0].run_id))).status == "completed"
    assert len(page.runs) == 1
    (letter,) = await letters(database())
    assert (letter["stream"], letter["project"], letter["reason"]) == ("TASKS", "default", reason(deaths))
    assert b"poison" in letter["body"]
    assert await marks(database()) == [(deaths, False), (0, False)], "an innocent task is known to be one"


async def marks(dsn: str) -> list[tuple[int, bool]]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch(
        "SELECT deaths, begun_by IS NOT NULL AS marked FROM runs.handling_failure ORDER BY deaths DESC"
    )
    await connection.close()
    return [(row["deaths"], row["marked"]) for row in rows]


async def tasks_delivered(peers: Peers) -> int:
    """Return how often the broker has delivered tasks that wait."""
    info = await peers.nc.jetstream().consumer_info("TASKS", TASKS_CONSUMER.durable)
    return int(info.delivered.consumer_seq) if info.delivered else 0


async def test_a_task_that_is_refused_again_and_again_is_watched_by_nobody(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """An overloaded orchestrator gives it back each time, which is an answer: no mark, and no commit for it."""
    peers.answer_decisions = False
    limits = {"TOWPATH_MAX_QUEUED_RUNS": "0"}
    async with orchestrator(database("orchestrator"), nats_server.url(), **limits):
        await publish(peers)
        assert (await submit(peers))["code"] == "overloaded"
        await peers.nc.jetstream().publish("task.enqueue.anonymous", json.dumps(TASK).encode())
        async with asyncio.timeout(60):
            while (await tasks_delivered(peers)) < 4:  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.1)
    (message,) = await deliver_unanswered(peers.nc, TASKS_CONSUMER, times=1)
    assert deliveries(message) >= 5
    assert (await marks(database()), await letters(database())) == ([], [])
