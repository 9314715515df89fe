"""Erasures: asked for, confirmed or withdrawn, and carried out.

Each step is one transaction with its entry of the audit. What was confirmed is carried out by whoever confirmed it, in
batches; what an interruption leaves is finished by any replica. Of a run every owner of tables erases its own, the run
log first, and the erasure is done when all have.
"""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.tools.erasures import (
    DecideErasure,
    ErasureList,
    ErasureView,
    ListErasures,
    RequestErasure,
)
from towpath_fabric.clock import monotonic
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.postgres.run_erasures import ERASURE_FAILED, DeferredErasures
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES as LEDGER
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.core.erasure_rules import (
    EXPIRES,
    MAX_RUNS,
    ErasureRules,
    RunToErase,
    decide,
    requested_detail,
    runs_of,
    selection_problem,
    time_problem,
    tree_problem,
)

QUERIES = Queries.load("towpath_tas.adapters", "erasures.sql")

MAX_OPEN = 1_000
"""Erasures of one project that are not carried out yet: somebody has to read them."""

BATCH = 5_000
MAX_BATCHES_PER_REQUEST = 20
"""Whoever confirms waits for as many; the rest follows."""

FINISH_EVERY_S = 2.0

AWAIT_RUN_S = 15.0
"""Whoever confirms the erasure of a run waits so long for its owners; the rest follows."""

LOOK_S = 0.25


class Erasures:
    """Answers requests about erasures, and carries out those that are confirmed."""

    def __init__(self, pool: Any, rules: ErasureRules, log: Logger) -> None:
        self._pool = pool
        self._rules = rules
        self._log = log
        self._deferred = DeferredErasures()

    async def request(self, request: RequestErasure) -> ErasureView:
        """Store what is asked for; raises ProblemError where nothing is named, or too much waits already."""
        refused = selection_problem(request)
        if refused is not None:
            raise ProblemError(refused)
        async with self._pool.acquire() as connection, connection.transaction():
            waiting = await connection.fetchval(QUERIES.open_erasures, request.project, EXPIRES)
            if waiting >= MAX_OPEN:
                raise ProblemError(
                    problem("limit_exceeded", f"{waiting} erasures wait; confirm or withdraw some first")
                )
            tree: list[RunToErase] = []
            if request.kind == "run" and request.run_id is not None:
                tree = await _tree(connection, request.run_id)
                refused = tree_problem(request.run_id, request.project, tree)
                if refused is not None:
                    raise ProblemError(refused)
            now = await connection.fetchval(QUERIES.now)
            refused = time_problem(request, now)
            if refused is not None:
                raise ProblemError(refused)
            erasure = ErasureView(
                erasure_id=new_run_id(),
                kind=request.kind,
                project=request.project,
                status="requested",
                reason=request.reason,
                requested_by=request.actor,
                requested_at=now,
                alone_from=now + self._rules.delay,
                run_id=request.run_id,
                execution_id=request.execution_id,
                caller=request.caller,
                before=request.before,
                runs=len(runs_of(tree)),
                run_ids=runs_of(tree),
            )
            await connection.execute(
                QUERIES.add,
                *(erasure.erasure_id, erasure.project, erasure.run_id, erasure.execution_id, erasure.caller),
                *(erasure.before, erasure.reason, erasure.requested_by, erasure.requested_at, erasure.alone_from),
                *(erasure.kind, erasure.run_ids),
            )
            await _note(connection, erasure, "audit.erase_requested", request.actor, requested_detail(request, erasure))
        return self._told(erasure)

    async def decide(self, request: DecideErasure) -> ErasureView:
        """Confirm and carry out, or withdraw; raises ProblemError where this person can't, or it is settled.

        Only what is still to be decided is locked: an erasure that is carried out is locked for long.
        """
        found = await self._find(request)
        if found.status == "requested":
            await self._settle(request)
        else:
            repeated = decide(found, request, self._rules, found.requested_at)
            if isinstance(repeated, Problem):
                raise ProblemError(repeated)
        if request.verdict == "confirm" and found.kind == "run":
            await self._await_owners(request)
        elif request.verdict == "confirm":
            await self.carry_out(request.erasure_id, MAX_BATCHES_PER_REQUEST)
        return self._told(await self._find(request))

    async def _settle(self, request: DecideErasure) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            erasure = _found(await connection.fetchrow(QUERIES.lock, request.project, request.erasure_id), request)
            now = await connection.fetchval(QUERIES.now)
            tree = await _tree(connection, erasure.run_id) if erasure.kind == "run" else []
            decision = decide(erasure, request, self._rules, now, tree)
            if isinstance(decision, Problem):
                raise ProblemError(decision)
            if decision is not None:
                await connection.execute(QUERIES.settle, erasure.erasure_id, decision.status, request.actor, now)
                await _note(connection, erasure, decision.phase, request.actor, decision.detail)

    async def _find(self, request: DecideErasure) -> ErasureView:
        return _found(await self._pool.fetchrow(QUERIES.find, request.project, request.erasure_id), request)

    def _told(self, erasure: ErasureView) -> ErasureView:
        """Return *erasure* as it is shown: with whether who asked may confirm it now, which is no part of it."""
        return erasure.model_copy(update={"single_person": self._rules.single_person})

    async def _await_owners(self, request: DecideErasure) -> None:
        """Wait until every owner of tables has erased its part of a run, at most AWAIT_RUN_S."""
        until = monotonic() + AWAIT_RUN_S
        while monotonic() < until:
            found = await self._find(request)
            if found.status == "done":
                return
            if "runs" in found.parts and "tas" not in found.parts:
                await self.carry_out(request.erasure_id, MAX_BATCHES_PER_REQUEST)
            await asyncio.sleep(LOOK_S)

    async def list(self, request: ListErasures) -> ErasureList:
        """Return a page of the project's erasures; raises ProblemError for one that is named and is none."""
        if request.erasure_id is not None:
            row = await self._pool.fetchrow(QUERIES.find, request.project, request.erasure_id)
            return ErasureList(erasures=(self._told(_found(row, request)),))
        asked = (request.project, request.before, request.limit + 1)
        if request.status is None:
            rows = await self._pool.fetch(QUERIES.listed, *asked)
        else:
            rows = await self._pool.fetch(QUERIES.listed_of_status, *asked, request.status)
        page = tuple(self._told(ErasureView.model_validate(dict(row))) for row in rows[: request.limit])
        return ErasureList(erasures=page, next_before=page[-1].erasure_id if len(rows) > request.limit else None)

    async def carry_out(self, erasure_id: UUID, batches: int) -> None:
        """Erase what a confirmed erasure names, at most so many batches of it; what is done stays as it is."""
        for _ in range(batches):
            try:
                gone = await self._pool.fetchval(QUERIES.erase_payloads, erasure_id, BATCH)
            except asyncpg.RaiseError:  # not confirmed, or done meanwhile by another replica
                return
            if gone < BATCH:
                return

    async def run(self) -> None:
        """Finish what was interrupted, for ever."""
        while True:
            try:
                await self.finish()
            except (*DATABASE_DOWN, *ERASURE_FAILED) as error:
                self._log.warning("confirmed erasures were not finished", error=str(error))
            await asyncio.sleep(FINISH_EVERY_S)

    async def finish(self) -> None:
        """Go on with what was confirmed and is not done."""
        for row in await self._pool.fetch(QUERIES.unfinished, self._deferred.ids()):
            erasure_id = row["erasure_id"]
            await self._deferred.carry_out(erasure_id, self.carry_out(erasure_id, MAX_BATCHES_PER_REQUEST), self._log)


async def _tree(connection: Any, run_id: UUID | None) -> list[RunToErase]:
    rows = await connection.fetch(QUERIES.tree, run_id, MAX_RUNS + 1)
    return [RunToErase(**dict(row)) for row in rows]


def _found(row: Any, request: DecideErasure | ListErasures) -> ErasureView:
    if row is None:
        raise ProblemError(problem("erasure_not_found", f"{request.erasure_id} is no erasure of this project"))
    return ErasureView.model_validate(dict(row))


async def _note(connection: Any, erasure: ErasureView, phase: str, actor: str, detail: dict[str, Any]) -> None:
    word = phase.rpartition("_")[2]
    entry = platform_audit_row(erasure.project, phase, word, actor=actor, run_id=erasure.run_id, detail=detail)
    await connection.execute(LEDGER.add_audit, [entry])
