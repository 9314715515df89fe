"""What the processes of orchestrator and TAS are wired with: consumers that extend, and their housekeeping."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry
from structlog import get_logger
from tests.conftest import DatabaseUrl, Nats
from tests.support.service_process import service_process
from tests.support.waiting import eventually

from towpath_contracts import subjects
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.app import reconciler
from towpath_orchestrator.app.reconciler import Reconciler
from towpath_orchestrator.metrics import OrchestratorMetrics

FIRST = {
    "INBOX": subjects.RUN_INBOX_ALL.replace(">", "x"),
    "TASKS": subjects.TASK_ENQUEUE_ALL.replace("*", "x"),
    "TOOLREQ": subjects.TOOL_REQUEST,
    "TOOLOUT": subjects.TOOL_OUTCOME,
}
"""Where something is sent to each stream whose messages may wait in a process for longer than the ack wait."""


async def test_both_services_extend_what_waits_in_them_and_the_orchestrator_looks_for_unused_blobs(
    nats_server: Nats, database: DatabaseUrl, tmp_path: Path
) -> None:
    url, client = nats_server.url(), await nats.connect(nats_server.url())
    extended: set[str] = set()

    async def note(message: Msg) -> None:
        stream = next((name for name in FIRST if f".{name}." in message.subject), None)
        if stream is None or message.data != b"+WPI":
            return
        parts = message.subject.split(".")
        if parts[parts.index(stream) + 2] == "1":  # of what comes again, those that are watched are extended anyhow
            extended.add(stream)

    await client.subscribe("$JS.ACK.>", cb=note)
    owner = await asyncpg.connect(database())
    with (
        service_process("orchestrator", tmp_path, url, database_url=database("orchestrator"), embedded="1") as runs,
        service_process(
            "tas",
            tmp_path,
            url,
            database_url=database("tas"),
            embedded="1",
            ticket_key_file=str(tmp_path / "ticket.key"),
        ) as tas,
    ):
        await asyncio.gather(runs.wait_ready(), tas.wait_ready())
        async with owner.transaction():
            await owner.execute("LOCK TABLE runs.dead_letter, runs.handling_failure IN ACCESS EXCLUSIVE MODE")
            for subject in FIRST.values():
                await client.jetstream().publish(subject, b"no message")
            await eventually(lambda: extended == set(FIRST))
        await runs.counted('towpath_housekeeping_success_timestamp_seconds{task="blobs"}')
    await client.close()
    await owner.close()


async def test_the_orchestrator_forgets_accounts_of_past_days(
    database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pause(_seconds: float) -> None:
        raise KeyError

    pool, owner = await open_pool(database("orchestrator"), 1, "test"), await asyncpg.connect(database())
    account = "INSERT INTO runs.budget (project, scope, key, soft, on_soft) VALUES ('p', 'day', $1, 1, 'warn')"
    await owner.execute(account, "1970-01-01/project/p")
    monkeypatch.setattr(reconciler.asyncio, "sleep", pause)
    nothing: Any = None
    metrics = OrchestratorMetrics(CollectorRegistry())
    with pytest.raises(KeyError):
        await Reconciler(pool, nothing, nothing, nothing, get_logger("test"), nothing, nothing, metrics).clean_up()
    monkeypatch.undo()
    assert await owner.fetchval("SELECT count(*) FROM runs.budget") == 0
    await owner.close()
    await pool.close()
