"""A database, a broker and run logs around a log-writer, and questions about what it wrote."""

import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import nats
from tests.conftest import DatabaseUrl
from tests.support.orchestrator.run_log import RunLog, wait_for

from towpath_contracts.rpc import GET_HISTORY
from towpath_contracts.runs.views import ExecutionHistory, GetHistory
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.settings import Settings

RUN_COLUMNS = (
    "status, final_status, total_steps, total_tokens, total_cost_usd, reason, completed_at, state_snapshot - 'task_id'"
)
STEP_COLUMNS = (
    'step_number, "timestamp", ended_at, duration_ms, reasoning, action, validation, success, error, attempt_number,'
    " tokens_used, cost_usd"
)


@dataclass
class Place:
    """A log-writer's surroundings."""

    log: RunLog
    bus: Bus
    database: Any
    address: str

    async def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.database.fetch(query, *arguments)]

    async def seq(self, run: uuid.UUID) -> int:
        return int(await self.database.fetchval("SELECT seq FROM history.run_cursor WHERE run_id = $1", run) or 0)

    async def complete(self, *runs: uuid.UUID, within_s: float = 60.0) -> None:
        """Wait until history holds everything that the log holds of *runs*."""

        async def check() -> bool:
            held = {row[0]: row[1] for row in await self.rows("SELECT run_id, seq FROM history.run_cursor")}
            return all(held.get(run) == len(self.log.runs[run].entries) for run in runs)

        await wait_for(check, within_s)

    async def told(self, run: uuid.UUID) -> list[list[tuple[Any, ...]]]:
        """Return everything that the tables say of a run, without its own ids."""
        return [
            await self.rows(f"SELECT {RUN_COLUMNS} FROM history.agent_execution_history WHERE id = $1", run),
            await self.rows(
                f"SELECT {STEP_COLUMNS} FROM history.agent_execution_steps WHERE execution_id = $1 ORDER BY 1", run
            ),
            await self.rows(
                "SELECT step_number, call_index, tool, args::text, status, result::text, worker, requested_at,"
                " finished_at FROM history.tool_execution WHERE run_id = $1 ORDER BY 1, 2",
                run,
            ),
        ]

    async def history(
        self, run: uuid.UUID, project: str = "default", after: int = -1, limit: int | None = None
    ) -> ExecutionHistory:
        """Ask the log-writer."""
        request = GetHistory(project=project, run_id=run, after_step=after, limit=limit)
        answer = await self.bus.request(GET_HISTORY, request)
        assert isinstance(answer, ExecutionHistory)
        return answer

    def settings(self) -> dict[str, str]:
        """What a log-writer is told here."""
        return {"database_url": self.address, "history_linger_ms": "10", "history_sweep_s": "0.3"}


@asynccontextmanager
async def open_place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    """Set everything up but the log-writer."""
    nc = await nats.connect(nats_server.url())
    await ensure_streams(nc)
    log = RunLog(nc)
    await log.start()
    bus = Bus("gateway", Settings.load(nats_url=nats_server.url()))
    await bus.connect()
    pool = await asyncpg.create_pool(database(), min_size=1, max_size=2)
    yield Place(log=log, bus=bus, database=pool, address=database("log_writer"))
    await pool.close()
    await bus.close()
    await nc.close()


def new_run() -> uuid.UUID:
    """Return an id that no other run has."""
    return uuid.UUID(int=random.getrandbits(128))
