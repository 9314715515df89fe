"""Carries messages between parents and children. What is lost here is asked for again by the parent."""

import asyncio

from towpath_contracts import subjects
from towpath_contracts.facts import CancelRequestedFact, ChildReportedFact
from towpath_contracts.runs.children import AskChildStatus
from towpath_engine.handlers.children import report_for_parent
from towpath_engine.state.run import RunState
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.core.child_reports import answer_parent


class ChildRunReporter:
    """Posts reports to parents, and answers parents that ask. One per process."""

    def __init__(self, pool: Database, bus: MessageBus, log: Logger) -> None:
        self._pool = pool
        self._bus = bus
        self._log = log
        self._asking: set[asyncio.Task[None]] = set()

    async def report_to_parent(self, child: RunState) -> None:
        """Post what a child has to report; a parent that misses it asks."""
        report = report_for_parent(child)
        if report is not None:
            await self._post(report)

    def ask(self, request: AskChildStatus) -> None:
        """Find out how far a child is, and stop it where its parent wants that; nothing here is waited for."""
        task = asyncio.create_task(self._ask(request))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, request: AskChildStatus) -> None:
        try:
            row = await self._pool.fetchrow(QUERIES.child_report, request.child_id, request.run_id)
        except DATABASE_DOWN as error:
            self._log.debug("a child is asked later: postgres is away", error=str(error))
            return
        for fact in answer_parent(request, row):
            await self._post(fact)

    async def _post(self, fact: ChildReportedFact | CancelRequestedFact) -> None:
        await self._bus.publish(subjects.run_inbox("orchestrator", fact.run_id), fact.model_dump_json().encode())
