"""Waking runs that wait for a switch, as soon as it holds nothing any more.

A convenience, and no more: a run that is not woken asks again by itself, at the latest with its next resend. So
the facts are given to this process's own loop, and are not stored before the answer.
"""

from typing import Any
from uuid import UUID

from towpath_contracts.facts import AnyFact, GateResolved
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.switches import WakePaused
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.app.loop.commit_loop import CommitLoop

RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")

AT_ONCE = 500
"""Gates read at once; a switch may hold thousands."""


class Waking:
    """Answers `svc.orchestrator.wake_paused`."""

    def __init__(self, pool: Database, loop: CommitLoop) -> None:
        self._pool = pool
        self._loop = loop

    async def wake(self, request: WakePaused) -> ActionDone:
        """Tell every run that waits behind a gate of this pause that it may go on."""
        after, woken = UUID(int=0), 0
        while rows := await self._waiting(request, after):
            for row in rows:
                self._loop.add(_resumed(request, row))
            after, woken = rows[-1]["gate_id"], woken + len(rows)
        return ActionDone(detail=f"{woken} call(s) go on")

    async def _waiting(self, request: WakePaused, after: UUID) -> list[Any]:
        rows: list[Any] = await self._pool.fetch(
            RECORDS.paused_gates, request.project, str(request.switch_id), after, AT_ONCE
        )
        return rows


def _resumed(request: WakePaused, row: Any) -> AnyFact:
    return GateResolved(
        run_id=row["run_id"],
        fact_id=f"{row['gate_id']}:resumed",
        gate_id=row["gate_id"],
        verdict="resumed",
        reason=request.reason,
        by=request.actor,
    )
