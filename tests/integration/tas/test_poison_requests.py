"""A request whose authorization ended the process each time is denied without being looked at, on the record."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import nats
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl
from tests.support.tas.tas_caller import row
from tests.support.tas.tas_calls import after, request

from towpath_contracts import subjects
from towpath_contracts.streams import TOOLOUT_CONSUMER, TOOLREQ_CONSUMER
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import PullConsumer, nak
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.tickets import TicketSigner
from towpath_tas.metrics import TasMetrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring import CallWiring, TasConnections

DEATHS = 3


async def deliver_unanswered(nc: Any, database: DatabaseUrl, times: int) -> None:
    """Have the one message come as after *times* deaths that it was in a batch of, and DEATHS that it was alone."""
    consumer = PullConsumer(nc, TOOLREQ_CONSUMER)
    await consumer.start()
    for _ in range(times):
        (message,) = await asyncio.wait_for(consumer.take(1), 10)
        await nak(message, 0)
    await consumer.stop()
    connection = await asyncpg.connect(database())
    mark = (
        "INSERT INTO runs.handling_failure (stream, sequence, failures, unfinished, last) VALUES ($1, $2, 0, $3, now())"
    )
    await connection.execute(mark, "TOOLREQ", delivery_number(message), DEATHS)
    await connection.close()


async def test_a_poisonous_request_is_denied_and_kept_as_a_dead_letter(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    settings = TasSettings.load(nats_url=nats_server.url(), database_url=database("tas"), max_handling_deaths=DEATHS)
    bus, pool, registry = Bus("tas", settings), await open_pool(database("tas"), 4, "test"), CollectorRegistry()
    nc = await nats.connect(nats_server.url())
    asked = request(deadline=after(600))
    try:
        await ensure_streams(nc)
        await nc.jetstream().publish(subjects.TOOL_REQUEST, asked.model_dump_json().encode())
        await deliver_unanswered(nc, database, 2)
        await bus.connect()
        consumers = [PullConsumer(bus.nc, spec) for spec in (TOOLREQ_CONSUMER, TOOLOUT_CONSUMER)]
        ports = TasConnections(pool=pool, bus=bus, asked=consumers[0], ended=consumers[1])
        signer = TicketSigner(Ed25519PrivateKey.generate())
        parts = CallWiring(ports, signer, settings, TasMetrics(registry), structlog.get_logger())
        await parts.read_time()
        await consumers[0].start()
        loop = asyncio.create_task(parts.loops[0]())
        told = await nc.jetstream().pull_subscribe(subjects.run_inbox("tas", asked.run_id), "orchestrator", "INBOX")
        (message,) = await told.fetch(1, timeout=10)
        denial = json.loads(message.data)
        assert (denial["type"], denial["denial"]["violation_type"]) == ("tool.denied", "poison_message"), denial
        for _ in range(500):
            if not (await nc.jetstream().stream_info("TOOLREQ")).state.messages:
                break
            await asyncio.sleep(0.02)
        loop.cancel()
        await consumers[0].stop()
        letters = await pool.fetch("SELECT stream, run_id, failures, reason FROM runs.dead_letter")
        assert [(letter["stream"], letter["run_id"]) for letter in letters] == [("TOOLREQ", asked.run_id)]
        assert letters[0]["reason"] == f"poison_message: handling it alone ended the process {DEATHS} times"
        assert (await row(database(), asked.execution_id))["status"] == "denied"
    finally:
        await nc.close()
        await bus.nc.close()
        pool.terminate()
