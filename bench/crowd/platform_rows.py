"""Fills the database of a platform: clones of the runs that it has executed, and rows that belong to no run."""

import asyncio
from typing import Any
from uuid import UUID

from crowd.cloned_runs import clone_runs
from crowd.executed_runs import Executed
from crowd.other_rows import add_other_rows

SEALED_WITHIN_S = 300
COUNTED = {
    "runs": "runs.run",
    "events": "runs.run_event",
    "open gates": "runs.gate WHERE status = 'pending'",
    "closed gates": "runs.gate WHERE status <> 'pending'",
    "calls": "tas.tool_call",
    "audit entries": "tas.audit_record",
    "steps": "history.agent_execution_steps",
}


async def fill(owner: Any, executed: Executed, runs: int, gates: int) -> dict[str, int]:
    """Have *runs* runs, *gates* of which wait for a person; return how many rows there are then."""
    more = runs - len(executed)
    approved = more // 4
    counts = {executed.approved: approved, executed.short: more - approved - gates + 1, executed.waiting: gates - 1}
    await owner.execute("SET synchronous_commit = off")
    await clone_runs(owner, {UUID(run_id): count for run_id, count in counts.items()})
    await add_other_rows(owner, max(100, runs // 20))
    await settle(owner)
    return {what: await owner.fetchval(f"SELECT count(*) FROM {rows}") for what, rows in COUNTED.items()}


async def settle(owner: Any) -> None:
    """Wait until every entry of the audit is sealed, and have the planner know all tables."""
    async with asyncio.timeout(SEALED_WITHIN_S):
        while await owner.fetchval("SELECT EXISTS (SELECT FROM tas.audit_unsealed)"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await owner.execute("VACUUM ANALYZE")
