"""The owners of a run's rows, each with its own role, on the audit of one database: what erasing a run takes."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import structlog
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import PROJECT, AuditLog, audit_log, fill

from towpath_contracts.tools.erasures import DecideErasure, ErasureView, RequestErasure
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.postgres.run_erasures import RunErasureLoop
from towpath_log_writer.wiring import ERASURES as HISTORY
from towpath_orchestrator.adapters.run_store import ERASURES as RUNS
from towpath_tas.app.audit import erasures

LOG = structlog.get_logger()


class Owners:
    """The owners of a run's rows, each with its own role, on the log of the audit of one database."""

    def __init__(self, log: AuditLog, runs: Any, history: Any) -> None:
        self.log = log
        self.runs = runs
        self.history = history
        self.erase_runs = RunErasureLoop(runs, RUNS, LOG).finish
        self.erase_history = RunErasureLoop(history, HISTORY, LOG).finish

    async def all_runs(self) -> list[UUID]:
        """The runs in the order in which they began."""
        return [row["run_id"] for row in await self.log.owner("SELECT run_id FROM runs.run ORDER BY 1")]

    async def limit(self, *runs: UUID) -> None:
        """Give each run a count of a limited rule, a fence and the mark of a restore."""
        await self.log.owner("INSERT INTO tas.rule_count SELECT run_id, 'r', 1 FROM unnest($1::uuid[]) run_id", runs)
        fences = "INSERT INTO tas.fence (run_id, project, fence) SELECT run_id, $2, 1 FROM unnest($1::uuid[]) run_id"
        await self.log.owner(fences, runs, PROJECT)
        await self.log.owner("INSERT INTO tas.restore VALUES (now(), now(), 'ops', 0, 0)")
        marks = "INSERT INTO tas.restored_run SELECT run_id, $2, lost_since FROM unnest($1::uuid[]) run_id, tas.restore"
        await self.log.owner(marks, runs, PROJECT)

    async def limited(self) -> dict[str, list[UUID]]:
        """Return of which runs there are counts, fences and marks of a restore."""
        tables = ("rule_count", "fence", "restored_run")
        asked = {table: await self.log.owner(f"SELECT run_id FROM tas.{table} ORDER BY 1") for table in tables}
        return {table: [row["run_id"] for row in rows] for table, rows in asked.items()}

    async def confirm(self, run_id: UUID) -> ErasureView:
        """Have dana ask for a run to be erased, and eve confirm it."""
        request = RequestErasure(project=PROJECT, actor="dana", reason="request 4711", kind="run", run_id=run_id)
        asked = await self.log.erasures.request(request)
        word = DecideErasure(project=PROJECT, erasure_id=asked.erasure_id, verdict="confirm", actor="eve")
        return await self.log.erasures.decide(word)

    async def erase(self, run_id: UUID) -> ErasureView:
        """Erase a run."""
        erasure = await self.confirm(run_id)
        for part in (self.erase_runs, self.erase_history, self.log.erasures.finish):
            await part()
        (row,) = await self.log.owner("SELECT status, parts FROM tas.erasure WHERE erasure_id = $1", erasure.erasure_id)
        assert (row["status"], row["parts"]) == ("done", ["runs", "blobs", "history", "tas"])
        return erasure


@pytest.fixture
async def owners(database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Owners]:
    monkeypatch.setattr(erasures, "AWAIT_RUN_S", 0.0)
    pools = [await open_pool(database(role), 2, "test") for role in ("orchestrator", "log_writer")]
    async with audit_log(database(), database("tas")) as log:
        await fill(log, 20, run_calls=10)
        await log.owner("UPDATE runs.run SET project = $1, status = 'completed', ended_at = now()", PROJECT)
        yield Owners(log, *pools)
    for pool in pools:
        await pool.close()
