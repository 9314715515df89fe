"""The floor: W1 as bare inserts into Postgres, two commits a step; no retries, no queue, no permissions."""

import argparse
import contextlib
import json
from collections.abc import AsyncIterator

import asyncpg

from peers.command import Execute, main
from workload import answer, call, decision

CONNECTIONS = 20
TABLES = """
CREATE TABLE run (run_id text PRIMARY KEY, answer text);
CREATE TABLE event (run_id text, seq int, body text, PRIMARY KEY (run_id, seq));
"""


@contextlib.asynccontextmanager
async def opened(options: argparse.Namespace) -> AsyncIterator[Execute]:
    """Connect and make the tables."""
    async with asyncpg.create_pool(options.database, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        await pool.execute(TABLES)

        async def execute(run_id: str, steps: int) -> str:
            add = "INSERT INTO event VALUES ($1, $2, $3)"
            await pool.execute("INSERT INTO run VALUES ($1, NULL)", run_id)
            for step in range(steps):
                decided = decision("echo", step)
                await pool.execute(add, run_id, 2 * step, json.dumps(decided))
                await pool.execute(add, run_id, 2 * step + 1, json.dumps(call(decided)))
            await pool.execute("UPDATE run SET answer = $2 WHERE run_id = $1", run_id, answer(run_id, steps))
            return answer(run_id, steps)

        yield execute


if __name__ == "__main__":
    main(opened, ("asyncpg",))
