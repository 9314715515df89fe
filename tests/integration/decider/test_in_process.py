"""A decider inside the test, where its waits can be shortened: long calls, an absent database, a lost stream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import nats
import pytest
from prometheus_client import CollectorRegistry
from tests.support.decider.decision_requests import (
    POOL,
    OrchestratorPeer,
    all_acknowledged,
    eventually,
    pending,
    shorten_ack_wait,
)
from tests.support.decider.decisions import RESPOND, numbered, request

from towpath_contracts import subjects
from towpath_contracts.facts import DecisionMadeFact
from towpath_contracts.rpc import BLOB_GET_RUNS, DEAD_LETTER_RUNS
from towpath_contracts.streams import decide_consumer
from towpath_decider.adapters.script_source import BlobScriptSource, FileScriptSource
from towpath_decider.adapters.scripted import ScriptedProvider
from towpath_decider.app.decider import Decider
from towpath_decider.app.decision_service import DecisionMaker
from towpath_decider.metrics import DeciderMetrics
from towpath_embedded.servers.nats import Nats
from towpath_fabric import request_loop
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.logs import get_logger
from towpath_fabric.turns.task_end import end_tasks


@pytest.fixture
async def orchestrator(nats_server: Nats) -> AsyncIterator[OrchestratorPeer]:
    nc = await nats.connect(nats_server.url())
    await ensure_streams(nc, (decide_consumer(POOL),))
    orchestrator = OrchestratorPeer(nc)
    await nc.subscribe(subjects.RUN_INBOX_ALL, cb=orchestrator.on_fact)
    await nc.subscribe(BLOB_GET_RUNS.subject, cb=orchestrator.on_blob_get)
    await nc.subscribe(DEAD_LETTER_RUNS.subject, cb=orchestrator.on_dead)
    yield orchestrator
    await nc.close()


@pytest.fixture
async def in_process(
    nats_server: Nats, orchestrator: OrchestratorPeer
) -> AsyncIterator[Callable[[], Awaitable[Decider]]]:
    """Start a decider inside the test, where its waits can be shortened."""
    bus = Bus("decider", Settings.load(nats_url=nats_server.url()))
    started: list[tuple[Decider, list[asyncio.Task[None]]]] = []

    async def start() -> Decider:
        await bus.connect()
        scripted = ScriptedProvider(blobs=BlobScriptSource(bus), files=FileScriptSource(None), allowed=True)
        decisions, metrics = DecisionMaker({"scripted": scripted}), DeciderMetrics(CollectorRegistry())
        decider = Decider(bus, decisions, get_logger("decider"), metrics, pool=POOL, concurrency=4)
        await decider.start()
        loops = [asyncio.create_task(decider.take_requests()), asyncio.create_task(decider.keep_alive())]
        started.append((decider, loops))
        return decider

    yield start
    for decider, loops in started:
        await decider.stop()
        await end_tasks(loops)
    await bus.close()


async def test_a_long_call_is_kept_alive_and_made_once(
    orchestrator: OrchestratorPeer, in_process: Callable[[], Awaitable[Decider]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_loop, "PROGRESS_EVERY_S", 0.2)
    monkeypatch.setattr(request_loop, "CHECK_S", 0.1)
    await shorten_ack_wait(orchestrator, 1)
    await in_process()
    await orchestrator.ask(request(script=orchestrator.script([{**RESPOND, "delay_ms": 2_500}])))
    await orchestrator.until(1)
    await all_acknowledged(orchestrator)
    info = await orchestrator.nc.jetstream().consumer_info("DECIDE", decide_consumer(POOL).durable)
    assert (info.num_redelivered or 0) == 0
    assert len(orchestrator.facts) == 1


async def test_no_more_is_fetched_than_can_begin(
    orchestrator: OrchestratorPeer, in_process: Callable[[], Awaitable[Decider]]
) -> None:
    await in_process()
    slow, quick = orchestrator.script([{**RESPOND, "delay_ms": 6_000}]), orchestrator.script([RESPOND])
    for number in range(10):
        await orchestrator.ask(numbered(number, script=slow if number < 4 else quick))
    await eventually(lambda: orchestrator.blobs_asked == 2)
    await asyncio.sleep(0.3)
    info = await orchestrator.nc.jetstream().consumer_info("DECIDE", decide_consumer(POOL).durable)
    assert (info.num_ack_pending, info.num_pending) == (4, 6)
    await orchestrator.until(10)
    await all_acknowledged(orchestrator)


async def test_a_fact_that_could_not_be_stored_is_stored_later_and_only_then_acknowledged(
    orchestrator: OrchestratorPeer, in_process: Callable[[], Awaitable[Decider]]
) -> None:
    await in_process()
    js = orchestrator.nc.jetstream()
    await js.delete_stream("INBOX")
    await orchestrator.ask(request(script=orchestrator.script([RESPOND])))
    await eventually(lambda: orchestrator.blobs_asked == 2)
    await asyncio.sleep(0.5)
    assert await pending(orchestrator) == 1
    await ensure_streams(orchestrator.nc)
    await all_acknowledged(orchestrator)
    assert (await js.stream_info("INBOX")).state.messages == 1


async def test_an_outage_of_the_platform_is_no_answer_to_a_request(
    orchestrator: OrchestratorPeer, in_process: Callable[[], Awaitable[Decider]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_loop, "AWAY_PAUSE_S", 0.05)
    await in_process()
    orchestrator.database_is_away = True
    await orchestrator.ask(request(script=orchestrator.script([RESPOND])))
    await eventually(lambda: orchestrator.blobs_refused >= 5)  # more often than a conversation has attempts
    assert orchestrator.facts == []
    orchestrator.database_is_away = False
    (fact,) = await orchestrator.until(1)
    assert isinstance(fact, DecisionMadeFact)
    await all_acknowledged(orchestrator)


async def test_a_consumer_that_vanished_is_made_again(
    orchestrator: OrchestratorPeer, in_process: Callable[[], Awaitable[Decider]]
) -> None:
    await in_process()
    js = orchestrator.nc.jetstream()
    await js.delete_stream("DECIDE")
    await ensure_streams(orchestrator.nc)
    await orchestrator.ask(request(script=orchestrator.script([RESPOND])))
    assert isinstance((await orchestrator.until(1))[0], DecisionMadeFact)
