"""Answers questions about runs, events, gates and blobs; changes nothing.

Every answer is of the asking project; a run of another project does not exist.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import asyncpg
from pydantic import ValidationError

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.idle_runs import IdleRun, IdleRunList, ListIdleRuns
from towpath_contracts.runs.records import ForkedFrom
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.tree import ChildPurpose, GetTree, RunTreeNode, tree_of
from towpath_contracts.runs.views import (
    ChangedRunList,
    GatePage,
    GateView,
    GetEvents,
    GetEventsSince,
    GetRun,
    ListChangedRuns,
    ListGates,
    ListRuns,
    RunPage,
    RunSeq,
    RunView,
)
from towpath_contracts.tools.call_summaries import question_of_gate
from towpath_contracts.tools.calls import BlobChunk, GetBlobChunk
from towpath_fabric.batch_loader import KeyBatchLoader
from towpath_fabric.clock import monotonic
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_orchestrator.adapters.run_store import QUERIES, let_others, read_entry
from towpath_orchestrator.app.api.run_export import erased_problem
from towpath_orchestrator.app.api.run_views import ListedRuns, view
from towpath_orchestrator.app.state_cache import RunWaiters
from towpath_readings.effects import EFFECT_EVENTS, TELLS_EFFECTS, CallOutcomeCollector, EventOutcomeFields

RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")

LOOK_S = 0.25
"""What requests wait for is looked at this often, in one query for all: another replica may have moved a run."""

PAGE_BYTES = 600_000
"""A page is cut here, below the broker's 1 MiB; its reader asks on from where it ends."""

RUNS_LOOKED_AT = 10_000
"""Runs that one page is chosen from, the newest of its project or status; the next page goes on behind them."""

GATES_LOOKED_AT = 10_000
"""Gates that one page is chosen from where it is filtered; the next page goes on behind them."""

CLOSED_LOOKED_AT = 2_000
"""Gates that one page of closed ones is chosen from, the newest: what older ones say is in the audit."""

MAX_EFFECTS = 1_000
"""Effects in one answer: about 200 KB, well below the broker's 1 MiB."""

MAX_WAITS = 50
"""Gates and models that one answer names as what a run waits for; `GET /v1/gates?root_run_id=` lists all gates."""

EVENTS_AT_ONCE = 200
"""Events read at once for the list of effects; arguments and results stay in the database."""

WAITING = frozenset({"running", "waiting"})
"""Statuses of runs that may have open gates; while others of its calls go on, a run that waits is `running`."""

CHUNK_BYTES = 256 * 1024
"""Largest piece of a blob in one message."""

MAX_CHUNKS = 4_096
"""Behind so many pieces there is nothing: a bytea has at most 1 GB."""


def within_page(rows: list[Any], column: str) -> list[Any]:
    """Return the first rows whose *column* fits one page together, at least one."""
    kept: list[Any] = []
    size = 0
    for row in rows:
        size += len(row[column] or "")
        if kept and size > PAGE_BYTES:
            break
        kept.append(row)
    return kept


def _whole(row: Any) -> RunView:
    """Add what only the first event holds, and which run comes next; lists do without."""
    text = row["forked_from"]
    forked = None if text is None else ForkedFrom.model_validate_json(text)
    return view(row).model_copy(update={"forked_from": forked, "next_run_id": row["next_run_id"]})


def _unknown(run_id: UUID, project: str | None) -> ProblemError:
    return ProblemError(
        problem("run_not_found", f"no run {run_id}" + (f" in the project {project}" if project else ""))
    )


def _effect_report(text: str) -> EventOutcomeFields | None:
    """Read what an event reports of calls; None where it can't be read: the log of a parked run may be damaged."""
    try:
        return EventOutcomeFields.model_validate_json(text)
    except ValidationError:
        return None


def _purposes(rows: list[Any]) -> dict[UUID, ChildPurpose]:
    """Return what children are for, by their ids."""
    purposes = {}
    for row in rows:
        fields = {name: json.loads(row[name] or '""') for name in ("purpose", "subject")}
        purposes[UUID(json.loads(row["child_id"]))] = ChildPurpose(**fields)
    return purposes


def _wait(row: Any, run_id: UUID) -> str:
    """Say what a run waits for: its own gate or model, or that of a run below it, which is named."""
    own = f"{row['gate_type']}: {row['reason']}"
    return own if row["run_id"] == run_id else f"{row['agent_key']} in run {row['run_id']}: {own}"


def _gate(row: Any) -> GateView:
    fields = dict(row)
    fields["detail"] = json.loads(fields["detail"])
    fields["votes"] = json.loads(fields["votes"] or "[]")
    detail = fields["detail"]
    return GateView(**fields, quorum=detail.get("quorum", 1), summary=question_of_gate(fields["gate_type"], detail))


def _family(request: ListRuns) -> tuple[UUID | None, UUID | None, UUID | None]:
    return request.parent_run_id, request.root_run_id, request.thread_id


def _members(request: ListRuns, asked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the statement that finds the runs of a page, and its values."""
    if any(_family(request)):
        return QUERIES.runs_of_family, *asked, *_family(request)
    return QUERIES.runs_of_project if request.status is None else QUERIES.runs_of_status, *asked


def _values_of(request: ListGates, status: str | None) -> tuple[Any, ...]:
    """Return the values of the statements that list gates in the order in which they were opened."""
    whose = None if request.assigned_to is None else list(request.assigned_to)
    return (
        *(request.project, status, request.run_id, request.gate_id, request.paused, request.after, request.limit + 1),
        *(request.root_run_id, request.tool, request.rule, request.network, whose),
    )


def _first_gates(rows: list[Any]) -> tuple[GateView, ...]:
    """Return the first gates that fit one page together, as they are sent; at least one."""
    shown: list[GateView] = []
    size = 0
    for row in rows:
        gate = _gate(row)
        size += len(gate.model_dump_json().encode())
        if shown and size > PAGE_BYTES:
            break
        shown.append(gate)
    return tuple(shown)


def _as_asked(request: ListGates, gates: tuple[GateView, ...]) -> tuple[GateView, ...]:
    """Return *gates*, without those that votes have decided where only what a person can settle is asked for."""
    return tuple(one for one in gates if request.paused or one.status != "pending" or not one.is_decided_by_votes)


class RunQueries:
    """Read side of the orchestrator."""

    def __init__(
        self, pool: Database, changes: RunWaiters, endings: RunWaiters, *, reads: Database | None = None
    ) -> None:
        """*changes* are woken by every transition, *endings* only by the last one: most requests wait for that.

        Lists of runs and of closed gates come from *reads*, where it is given; it may be a moment behind *pool*.
        """
        self._pool = pool
        self._reads = reads or pool
        self._changes = changes
        self._endings = endings
        self._statuses = KeyBatchLoader(self._load_statuses)
        self._looker: asyncio.Task[None] | None = None
        self._listed = ListedRuns(self._reads)
        self._in_trees = ListedRuns(pool)

    async def get_run(self, request: GetRun) -> RunView:
        """Return a run as it is; what became of its calls only where that is asked."""
        row = await self._pool.fetchrow(RECORDS.whole_run, request.run_id, request.project)
        if row is None:
            raise _unknown(request.run_id, request.project)
        if row["erased_at"] is not None:
            raise erased_problem(request.run_id, row)
        run = await self._with_waits(_whole(row))
        return await self._with_effects(run) if request.effects else run

    async def await_end(self, request: GetRun) -> None:
        """Wait until the run has ended, at most `wait_ms`."""
        await self._await(request, self._endings, lambda found: found["status"] in FINAL_STATUSES)

    async def await_news(self, request: GetEvents) -> None:
        """Wait until the run's log goes on behind `after`, or has ended, at most `wait_ms`."""

        def is_new(found: Any) -> bool:
            return found["seq"] > request.after or found["status"] in FINAL_STATUSES

        await self._await(request, self._changes, is_new)

    async def _await(self, request: GetRun | GetEvents, wakers: RunWaiters, is_over: Callable[[Any], bool]) -> None:
        until = monotonic() + request.wait_ms / 1000
        while True:
            found = await self._statuses.get(request.run_id)
            if found is None or found["project"] != request.project:
                raise _unknown(request.run_id, request.project)
            now = monotonic()
            if is_over(found) or now >= until:
                return
            if self._looker is None or self._looker.done():
                self._looker = asyncio.create_task(self._look_for_others(), name="run-waits")
            await wakers.wait(request.run_id, until - now, is_over)

    async def _look_for_others(self) -> None:
        """Wake requests whose runs another replica has moved, as long as any wait; where that fails, all look anew."""
        while waited := {*self._changes.run_ids(), *self._endings.run_ids()}:
            await asyncio.sleep(LOOK_S)
            try:
                found = await self._load_statuses(list(waited))
            except (*DATABASE_DOWN, asyncpg.PostgresError):
                found = None
            for run_id in waited:
                for wakers in (self._changes, self._endings):
                    if found is None or run_id not in found:
                        wakers.wake(run_id)
                    else:
                        wakers.wake_if_over(run_id, found[run_id])

    async def _load_statuses(self, run_ids: list[UUID]) -> dict[UUID, Any]:
        return {row["run_id"]: row for row in await self._pool.fetch(QUERIES.run_statuses, run_ids)}

    async def _with_waits(self, run: RunView) -> RunView:
        """Add what an unfinished run waits for, if it waits for anything."""
        if run.status not in WAITING:
            return run
        rows = await self._pool.fetch(RECORDS.waits_of_run, run.run_id, MAX_WAITS)
        return run.model_copy(update={"waits": tuple(_wait(row, run.run_id) for row in rows)})

    async def _with_effects(self, run: RunView) -> RunView:
        """Add what became of the calls of a run that was stopped, or ended without its answer."""
        if run.status not in TELLS_EFFECTS:
            return run
        listed = CallOutcomeCollector()
        after = 0
        while rows := await self._pool.fetch(RECORDS.run_effects, run.run_id, after, EFFECT_EVENTS, EVENTS_AT_ONCE):
            for report in filter(None, (_effect_report(row["event"]) for row in rows)):
                listed.add(report)
            after = rows[-1]["seq"]
        left_out = max(0, len(listed.effects) - MAX_EFFECTS)
        return run.model_copy(update={"effects": listed.effects[left_out:], "effects_left_out": left_out})

    async def list_runs(self, request: ListRuns) -> RunPage:
        """Return a page of runs, newest first."""
        label = None
        if request.label is not None:
            key, _, value = request.label.partition("=")
            label = json.dumps({key: value})
        last = await self._last_looked_at(request)
        asked = (request.project, request.status, request.network, label, request.before, request.limit)
        found = await self._reads.fetch(*_members(request, (*asked, request.depth, request.kind, last)))
        ids = [row["run_id"] for row in found]
        rows = await self._reads.fetch(QUERIES.list_runs, request.project, ids, PAGE_BYTES) if ids else []
        runs = tuple(await self._listed.views(request.project, rows))
        more = len(runs) == request.limit or (bool(rows) and len(rows) < rows[0]["found"])
        return RunPage(runs=runs, next_before=runs[-1].run_id if more else last)

    async def _last_looked_at(self, request: ListRuns) -> UUID | None:
        """Return the last run that a page is chosen from where what it asks for may be rare; None where all are."""
        filters = (request.network, request.label, request.kind, request.depth)
        if all(one is None for one in filters) or any(_family(request)):
            return None
        query = QUERIES.runs_looked_at if request.status is None else QUERIES.runs_of_status_looked_at
        last: UUID | None = await self._reads.fetchval(
            query, request.project, request.status, request.before, RUNS_LOOKED_AT
        )
        return last

    async def events(self, request: GetEvents) -> EventPage:
        """Return a page of a run's log as it is; who wants to wait awaits the news first."""
        return await self._page(request.run_id, request.project, request.after, request.limit)

    async def events_since(self, request: GetEventsSince) -> EventPage:
        """Return a page of any run's log, for services that read every project."""
        return await self._page(request.run_id, None, request.after, request.limit)

    async def _page(self, run_id: UUID, project: str | None, after: int, limit: int) -> EventPage:
        run = await self._pool.fetchrow(QUERIES.run_seq, run_id, project)
        if run is None:
            raise _unknown(run_id, project)
        if run["erased_at"] is not None:
            raise erased_problem(run_id, run)
        wanted = (run_id, after, limit, PAGE_BYTES)
        rows = await self._pool.fetch(QUERIES.events_page, *wanted) if run["seq"] > after else []
        entries = []
        for row in rows:
            entries.append(read_entry(row))
            await let_others(row["event"])
        return EventPage(run_id=run_id, entries=tuple(entries), seq=run["seq"], status=run["status"])

    async def sweep(self, request: ListChangedRuns) -> ChangedRunList:
        """Return the runs that moved since a time, so that readers find events that were not published to them."""
        rows = await self._pool.fetch(QUERIES.sweep_runs, request.since, request.limit)
        runs = tuple(RunSeq(**dict(row)) for row in rows)
        return ChangedRunList(runs=runs, until=runs[-1].updated_at if runs else request.since)

    async def idle(self, request: ListIdleRuns) -> IdleRunList:
        """Return the runs that nobody advances, of every project, for the watchdog."""
        asked = (request.overdue_s, request.quiet_s, request.queued_s, request.limit)
        rows = await self._pool.fetch(QUERIES.idle_runs, *asked)
        return IdleRunList(runs=tuple(IdleRun(**dict(row)) for row in rows))

    async def tree(self, request: GetTree) -> RunTreeNode:
        """Return a run and everything below it, as far as the limit goes."""
        rows = await self._pool.fetch(QUERIES.tree, request.run_id, request.project, request.limit + 1)
        if not rows:
            raise ProblemError(problem("run_not_found", f"no run {request.run_id} in {request.project}"))
        if rows[0]["erased_at"] is not None:
            raise erased_problem(request.run_id, rows[0])
        shown = within_page(rows[: request.limit], "user_message")
        parents = {row["parent_run_id"] for row in shown[1:]}
        purposes = await self._pool.fetch(QUERIES.tree_steps, list(parents)) if parents else []
        runs = await self._in_trees.views(request.project, shown)
        return tree_of(runs, _purposes(purposes), truncated=len(rows) > len(shown))

    async def list_gates(self, request: ListGates) -> GatePage:
        """Return gates of a project; where `after` is no gate, nothing is behind it."""
        status = None if request.status in (None, "all") else request.status
        if request.newest:
            rows = await self._closed_gates(request, status)
        elif any((request.run_id, request.gate_id, request.root_run_id)):
            rows = await self._pool.fetch(QUERIES.gates_of_runs, *_values_of(request, status))
        else:
            page = await self._gates_in_order(request, status)
            return page.model_copy(update={"gates": _as_asked(request, page.gates)})
        shown = _first_gates(rows[: request.limit])
        next_after = shown[-1].gate_id if len(shown) < len(rows) else None
        return GatePage(gates=_as_asked(request, shown), next_after=next_after)

    async def _gates_in_order(self, request: ListGates, status: str | None) -> GatePage:
        """Return gates in the order in which they were opened. A filtered page may be empty and not the last one."""
        filters = (request.tool, request.rule, request.network, request.assigned_to)
        filtered = not request.paused or any(one is not None for one in filters)
        most = GATES_LOOKED_AT if filtered else request.limit + 1
        query = QUERIES.gates_of_any_status if status is None else QUERIES.list_gates
        rows = await self._pool.fetch(query, *_values_of(request, status), most)
        last = None
        if filtered and len(rows) <= request.limit:
            looked = QUERIES.gates_looked_at if status is None else QUERIES.gates_of_status_looked_at
            last = await self._pool.fetchval(looked, request.project, status, request.after, most)
            if last is not None:  # gates that were settled in between have moved it on: what is before it is read anew
                rows = await self._pool.fetch(query, *_values_of(request, status), most)
        shown = _first_gates(rows[: request.limit])
        if len(shown) < len(rows):
            return GatePage(gates=shown, next_after=shown[-1].gate_id)
        return GatePage(gates=shown, next_after=last)

    async def refusal_of(self, run_id: UUID, act_id: UUID) -> str | None:
        """Return why a run could not take what a person did to it; None where that is not known."""
        reason: str | None = await self._pool.fetchval(QUERIES.refused_act, run_id, str(act_id))
        return reason

    async def _closed_gates(self, request: ListGates, status: str | None) -> list[Any]:
        tool, rule, network = request.tool, request.rule, request.network
        if tool is not None and rule is not None and (status, request.run_id, network) == (None, None, None):
            alike = (request.project, tool, rule, request.after, request.limit + 1)
            return list(await self._reads.fetch(QUERIES.gates_alike, *alike))
        asked = (request.project, request.after, status, request.run_id, tool, rule, network, request.limit + 1)
        return list(await self._reads.fetch(QUERIES.closed_gates, *asked, CLOSED_LOOKED_AT))

    async def blob(self, request: GetBlobChunk) -> BlobChunk:
        """Return one piece of a blob of the project of the run that is named."""
        start = min(max(0, request.index), MAX_CHUNKS) * CHUNK_BYTES
        row = await self._pool.fetchrow(QUERIES.get_blob, request.digest, request.run_id, start, CHUNK_BYTES)
        if row is None:
            raise ProblemError(problem("not_found", f"no blob {request.digest}"))
        total = max(1, -(-row["bytes"] // CHUNK_BYTES))
        text = base64.b64encode(row["piece"]).decode()
        return BlobChunk(digest=request.digest, index=request.index, total=total, data_base64=text)
