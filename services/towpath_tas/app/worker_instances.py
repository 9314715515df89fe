"""Keeps who works, from what workers say of themselves, and drains one of them.

A drain is stored with its audit entry and told to the process in the answer to whatever it says next, and each time
after that: it holds through lost messages, new connections and restarts of this service. What a worker says of itself
decides nothing else. Nobody but the process itself says it: its id is the digest of what it alone knows.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any
from uuid import UUID

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.switches import OPERATOR
from towpath_contracts.tools.workers import (
    FORGOTTEN_S,
    GONE_S,
    MAX_INSTANCES,
    MAX_LISTED,
    DrainWorker,
    ListWorkers,
    WorkerBeat,
    WorkerDrained,
    WorkerHeard,
    WorkerInstance,
    WorkerList,
    WorkerState,
    is_proved,
)
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import Queries
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.core.call import key_detail

WORKERS = Queries.load("towpath_tas.adapters", "workers.sql")


class WorkerInstances:
    """The worker processes of all projects, in Postgres."""

    def __init__(self, pool: Database) -> None:
        self._pool = pool

    async def beat(self, beat: WorkerBeat) -> WorkerHeard:
        """Note that a process is there; say whether it is to take calls, and which of its runs have ended.

        Raises ProblemError `forbidden`.
        """
        if not is_proved(beat.worker_id, beat.proof):
            raise ProblemError(problem("forbidden", f"this does not come from the worker {beat.worker_id}"))
        said = (beat.name, beat.host, beat.version, beat.slots, beat.in_flight, beat.idle)
        place = (beat.project, beat.toolset, beat.worker_id)
        if beat.ending:  # it did all that it had, so nobody has to look where it has gone
            await self._pool.execute(WORKERS.leave, *place)
            return WorkerHeard(drain=True, ended=await self._ended(beat))
        row = await self._pool.fetchrow(WORKERS.beat, *place, *said, beat.draining)
        if row is None:
            bounds = (FORGOTTEN_S, MAX_INSTANCES, GONE_S)
            await self._pool.execute(WORKERS.begin, *place, *said, beat.up_s, *bounds, beat.draining)
        return WorkerHeard(drain=row is not None and row["drain"], ended=await self._ended(beat))

    async def _ended(self, beat: WorkerBeat) -> tuple[UUID, ...]:
        if not beat.runs:
            return ()
        rows = await self._pool.fetch(WORKERS.ended_runs, beat.project, beat.runs, sorted(FINAL_STATUSES))
        return tuple(row["run_id"] for row in rows)

    async def list(self, request: ListWorkers) -> WorkerList:
        """Return the processes of the project; those that have gone for a while longer."""
        rows = await self._pool.fetch(WORKERS.list_workers, request.project, GONE_S, FORGOTTEN_S, MAX_LISTED)
        return WorkerList(workers=_instances(rows), left_out=rows[0]["found"] - len(rows) if rows else 0)

    async def drain(self, request: DrainWorker) -> WorkerDrained:
        """Let a process take no new calls; raises ProblemError `role_missing`, or `not_found` where nobody is there."""
        if OPERATOR not in request.roles:
            raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {OPERATOR}"))
        place = (request.project, request.worker_id)
        async with self._pool.acquire() as connection, connection.transaction():
            [found] = _instances(await connection.fetch(WORKERS.find_worker, *place, GONE_S)) or [None]
            if found is None or found.state == "gone":
                detail = f"no worker {request.worker_id} says that it is there"
                raise ProblemError(problem("not_found", detail, remedy="List those that do: towpath workers list"))
            changed = found.drained_at is None
            if changed:
                await connection.execute(WORKERS.drain, *place, request.actor, request.reason)
                await connection.execute(QUERIES.add_audit, [_audit_row(request, found)])
            [now] = _instances(await connection.fetch(WORKERS.find_worker, *place, GONE_S))
        return WorkerDrained(worker=now, changed=changed)


def _instances(rows: Iterable[Any]) -> tuple[WorkerInstance, ...]:
    """Return a process for the rows of its toolsets, which stand beside each other."""
    return tuple(_instance(list(own)) for _, own in groupby(rows, lambda row: row["worker_id"]))


def _instance(rows: list[Any]) -> WorkerInstance:
    last = max(rows, key=lambda row: row["heard_at"])
    drained = next((row for row in rows if row["drained_at"] is not None), None)
    return WorkerInstance(
        worker_id=last["worker_id"],
        name=last["name"],
        toolsets=tuple(row["toolset"] for row in rows),
        host=last["host"],
        version=last["version"],
        # A drained process that was forgotten meanwhile, after a long outage, is idle all the same: only these say so.
        state=_state(last, drained=drained is not None or last["idle"]),
        started_at=min(row["started_at"] for row in rows),
        heard_at=last["heard_at"],
        calls=last["calls"],
        slots=last["slots"],
        drained_by=drained["drained_by"] if drained else "",
        drained_at=drained["drained_at"] if drained else None,
        reason=drained["reason"] if drained else "",
    )


def _state(last: Any, *, drained: bool) -> WorkerState:
    if last["gone"]:
        return "gone"
    if not drained:
        return "taking"
    return "drained" if last["idle"] else "draining"


def _audit_row(request: DrainWorker, worker: WorkerInstance) -> tuple[Any, ...]:
    detail = {
        "worker_id": worker.worker_id,
        "name": worker.name,
        "host": worker.host,
        "toolsets": list(worker.toolsets),
        "reason": request.reason,
        **key_detail(request.key_prefix, request.key_commitment),
    }
    return platform_audit_row(request.project, "worker.drained", "drained", actor=request.actor, detail=detail)
