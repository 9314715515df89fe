"""DBOS Transact with its default settings: client and workflows in one process, two durable steps a step of W1."""

import argparse
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dbos import DBOS, SetWorkflowID

from peers.command import Execute, main
from workload import answer, call, decision


@DBOS.step()
async def decide(step: int) -> dict[str, Any]:
    """The model's decision, as a durable step."""
    return decision("echo", step)


@DBOS.step()
async def act(decided: dict[str, Any]) -> dict[str, Any]:
    """The tool call, as a durable step."""
    return call(decided)


@DBOS.workflow()
async def agent(run_id: str, steps: int) -> str:
    """One run."""
    for step in range(steps):
        await act(await decide(step))
    return answer(run_id, steps)


@contextlib.asynccontextmanager
async def opened(options: argparse.Namespace) -> AsyncIterator[Execute]:
    """Launch DBOS on the database."""
    DBOS(config={"name": "towpath-w1", "system_database_url": options.database, "log_level": "WARNING"})
    DBOS.launch()

    async def execute(run_id: str, steps: int) -> str:
        with SetWorkflowID(run_id):
            return await agent(run_id, steps)

    try:
        yield execute
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(opened, ("dbos", "psycopg"))
