"""The history tables: one transaction per batch, and what a failure of it means.

Cursors move in the same transaction as the rows they stand for, and only from where the writer believed them, so
no event is ever counted twice or left out, however many writers there are. Commits are not waited for on disk: what a
crash of Postgres takes is read again from the run log, except the bodies of model calls and tool logs, which stand
nowhere else. How far sweeps came is waited for, and with it all before it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.decisions.request import LlmCallLog, ToolLog
from towpath_contracts.ids import effect_id
from towpath_contracts.runs.costs import MAX_DAYS
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.postgres.refused_values import VALUE_REFUSED
from towpath_log_writer.core.changes import HistoryChanges, UnreadableEvent
from towpath_log_writer.core.final_state import MAX_STEPS, final_state
from towpath_log_writer.core.rows import CostRow, NewRunRow, RunRowChange, StepRow, ToolCallRow, json_text, plain
from towpath_log_writer.core.sequence import ContiguousEvents

QUERIES = Queries.load("towpath_log_writer.adapters")

INVALID_DATA = (*VALUE_REFUSED, asyncpg.IntegrityConstraintViolationError, ValueError, OverflowError)
"""What is raised for a value that no later attempt could store; everything else passes with time."""

NAMES_OF_DAY = 1_000
"""Labels, agents, models or networks of one project and day whose costs are kept apart; the others are one row."""

KEPT_DAYS = MAX_DAYS + 1
"""For how long costs are kept: as far back as can be asked for, and a day more, since clocks differ."""

Connection = Any
Columns = list[list[Any]]


class CursorsMovedError(Exception):
    """Somebody else wrote history of `runs` meanwhile: read their cursors again."""

    def __init__(self, runs: set[UUID]) -> None:
        super().__init__(f"{len(runs)} cursors moved")
        self.runs = runs


class HistoryStore:
    """Writes history.

    Every method raises INVALID_DATA for what can't be stored, and other errors while Postgres is away or busy.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def held(self, runs: Sequence[UUID]) -> dict[UUID, int]:
        """Return how far the history of each of *runs* goes; 0 for unknown ones."""
        rows = await self._pool.fetch(QUERIES.held, list(runs))
        return {**dict.fromkeys(runs, 0), **{row["run_id"]: row["seq"] for row in rows}}

    async def write(self, segments: Sequence[ContiguousEvents], changes: HistoryChanges) -> None:
        """Store *changes* and move the cursors of *segments*, all or nothing. Raises CursorsMovedError."""
        ordered = sorted(segments, key=lambda segment: segment.run_id)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL synchronous_commit = off")
            moved = await connection.fetch(
                QUERIES.move_cursors,
                [segment.run_id for segment in ordered],
                [segment.project for segment in ordered],
                [segment.seq for segment in ordered],
                [segment.held for segment in ordered],
            )
            if len(moved) < len(ordered):
                raise CursorsMovedError({s.run_id for s in ordered} - {row["run_id"] for row in moved})
            await _write_changes(connection, changes)

    async def forget_marks(self) -> None:
        """Forget marks of messages that were handled alone a day ago or earlier."""
        await self._pool.execute(QUERIES.forget_marks)

    async def forget_costs(self) -> None:
        """Forget the costs of days that no answer reaches any more."""
        await self._pool.execute(QUERIES.forget_costs, KEPT_DAYS)

    async def add_logs(self, calls: Sequence[LlmCallLog], logs: Sequence[ToolLog]) -> None:
        """Store what deciders and workers logged; what is there already stays."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL synchronous_commit = off")
            if calls:
                await connection.execute(QUERIES.add_llm_calls, *_columns(calls, _llm_call))
            if logs:
                await connection.execute(QUERIES.add_tool_logs, *_columns(logs, _tool_log))


class SweepProgressStore:
    """How far sweeps came, and the cursors that they compare with, on one connection that is kept.

    A crash of Postgres ends that connection, so the next method raises an error of DATABASE_DOWN, even where nothing
    was asked while Postgres was away: what was read before may be gone.
    """

    def __init__(self, connection: PinnedDatabaseConnection) -> None:
        self._connection = connection

    async def held(self, runs: Collection[UUID]) -> dict[UUID, int]:
        """Return how far the stored history of each of *runs* goes; 0 for unknown ones."""
        rows = await self._connection.fetch(QUERIES.held, list(runs))
        return {**dict.fromkeys(runs, 0), **{row["run_id"]: row["seq"] for row in rows}}

    async def swept_until(self) -> datetime:
        """Return until when no run is missing."""
        since: datetime = (await self._connection.fetchrow(QUERIES.swept_until))["since"]
        return since

    async def set_swept(self, until: datetime) -> None:
        """Note that no run that moved before *until* is missing; the history that was read before is on disk then."""
        await self._connection.fetch(QUERIES.set_swept, until)

    async def close(self) -> None:
        """Release the connection."""
        await self._connection.close()


async def _write_changes(connection: Connection, changes: HistoryChanges) -> None:
    if changes.new_runs:
        await connection.execute(QUERIES.add_runs, *_columns(changes.new_runs.values(), _new_run))
    if changes.runs:
        await connection.execute(QUERIES.change_runs, *_columns(changes.runs.values(), _run_change))
    if changes.steps:
        await connection.execute(QUERIES.merge_steps, *_columns(changes.steps.values(), _step))
    if changes.tools:
        await connection.execute(QUERIES.merge_tools, *_columns(changes.tools.values(), _tool))
    if changes.unreadable:
        await connection.execute(QUERIES.skip_events, *_columns(changes.unreadable, _unreadable))
    if changes.finished:
        await _add_final_states(connection, changes.finished)
    if changes.costs:  # rows that batches of many runs share: last of all, and so held for the shortest time
        await connection.execute(QUERIES.add_costs, *_columns(changes.costs.values(), _cost), NAMES_OF_DAY)


async def _add_final_states(connection: Connection, finished: Collection[UUID]) -> None:
    """Tell of goal and background runs that have ended what their steps came to."""
    steps: dict[UUID, list[Any]] = {}
    for row in await connection.fetch(QUERIES.steps_of_goals, list(finished), MAX_STEPS):
        steps.setdefault(row["execution_id"], []).append(row)
    if steps:
        states = [json_text(final_state(rows)) for rows in steps.values()]
        await connection.execute(QUERIES.add_final_states, list(steps), states)


def _columns(rows: Any, values: Any) -> Columns:
    """Turn rows into the columns that `unnest` takes."""
    return [list(column) for column in zip(*map(values, rows), strict=True)]


def _new_run(row: NewRunRow) -> tuple[Any, ...]:
    snapshot = json_text(row.snapshot)
    identity = (row.run_id, row.agent_id, row.project, row.kind, row.network)
    return (*identity, row.version, row.caller, row.at, snapshot, row.parent_id)


def _run_change(row: RunRowChange) -> tuple[Any, ...]:
    return (
        row.run_id,
        row.status,
        row.started_at,
        row.completed_at,
        row.total_steps,
        row.final_status,
        row.reason,
        row.escalation_reason,
        row.total_cost_usd,
        row.total_tokens,
        json_text(row.snapshot),
        json_text(row.waits),
    )


def _step(row: StepRow) -> tuple[Any, ...]:
    return (
        row.run_id,
        row.step,
        effect_id(row.run_id, f"step:{row.step}"),
        row.project,
        row.began_at,
        row.ended_at,
        row.agent_id,
        row.epoch,
        row.input_preview,
        row.reasoning,
        row.action,
        json_text(row.result) if row.result else None,
        json_text(row.validation) if row.validation is not None else None,
        row.success,
        row.error,
        row.attempts,
        row.tokens,
        row.cost,
        json_text(row.decisions) if row.decisions else None,
        row.progress,
        row.confidence,
    )


def _tool(row: ToolCallRow) -> tuple[Any, ...]:
    return (
        row.run_id,
        row.execution_id,
        row.project,
        row.step,
        row.call_index,
        row.agent_id,
        row.tool,
        row.status,
        row.args,
        row.result,
        row.result_digest,
        row.result_bytes,
        row.blob,
        row.failure,
        row.denial,
        row.duration_ms,
        row.worker,
        row.policy_version,
        row.requested_at,
        row.finished_at,
    )


def _cost(row: CostRow) -> tuple[Any, ...]:
    return (
        row.run_id,
        row.day,
        row.agent_id,
        row.model,
        row.runs,
        row.calls,
        row.tokens,
        row.usd,
        row.unpriced,
    )


def _unreadable(event: UnreadableEvent) -> tuple[Any, ...]:
    return event.run_id, event.seq, plain(event.type), plain(event.error)


def _llm_call(call: LlmCallLog) -> tuple[Any, ...]:
    return (
        call.run_id,
        call.request_id,
        call.attempt,
        call.call,
        call.project,
        call.step,
        call.agent_key,
        str(call.kind),
        call.model,
        call.started_at,
        call.duration_ms,
        call.usage.input_tokens,
        call.usage.output_tokens,
        call.usage.total_tokens,
        call.cost.usd,
        call.cost.price_source,
        call.prompt_digest,
        call.raw_digest,
        _maybe_plain(call.prompt),
        _maybe_plain(call.raw_text),
        _maybe_plain(call.error),
        call.usage.cached_tokens,
        call.usage.cache_write_tokens,
    )


def _tool_log(log: ToolLog) -> tuple[Any, ...]:
    content = f"log:{log.at.isoformat()}:{log.worker}:{log.level}:{log.message}"
    return (
        log.run_id,
        log.execution_id,
        effect_id(log.execution_id, content),  # the same line, delivered twice, has the same id
        log.project,
        log.toolset,
        log.tool,
        plain(log.worker),
        log.at,
        log.level,
        plain(log.message),
        json_text(log.fields),
    )


def _maybe_plain(text: str | None) -> str | None:
    return None if text is None else plain(text)
