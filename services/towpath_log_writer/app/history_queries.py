"""Answers questions about history.

An answer holds nothing of another project, and fits into one message: what does not is on the next page.
"""

import json
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.costs import (
    MAX_DAYS,
    MAX_NAMES,
    MAX_UNPRICED,
    CostReport,
    DayCost,
    GetCosts,
    NamedCost,
    UnpricedModel,
)
from towpath_contracts.runs.views import ExecutionHistory, GetHistory, GetLlmCalls, LlmCalls
from towpath_fabric.clock import wall
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_log_writer.adapters.history_tables import QUERIES

ANSWER_BYTES = 700_000
"""Of the broker's 1 MiB; the rest is for envelopes and the escapes of a second encoding."""

STEPS_AT_ONCE = 200
CALLS_AT_ONCE = 100
LOGS_AT_ONCE = 200


class HistoryQueries:
    """Serves `svc.log_writer.*`."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def get_history(self, request: GetHistory) -> ExecutionHistory:
        """Return the history row of a run, and as many of its steps as fit."""
        try:
            return await self._history(request)
        except DATABASE_DOWN as error:
            raise _unavailable() from error

    async def get_llm_calls(self, request: GetLlmCalls) -> LlmCalls:
        """Return the model calls of a run, oldest first."""
        try:
            return await self._llm_calls(request)
        except DATABASE_DOWN as error:
            raise _unavailable() from error

    async def _history(self, request: GetHistory) -> ExecutionHistory:
        row = await self._pool.fetchrow(QUERIES.run_history, request.run_id, request.project)
        if row is None:
            how = await self._pool.fetchval(QUERIES.erased_how, request.run_id, request.project)
            if how is not None:
                raise ProblemError(problem("run_erased", f"the history of run {request.run_id} was {how}"))
            raise ProblemError(problem("run_not_found", f"no history of run {request.run_id}"))
        steps: list[JsonObject] = []
        tools: list[JsonObject] = []
        after, room = request.after_step, ANSWER_BYTES - _size(row["history"])
        most = request.limit or sys.maxsize
        while True:
            at_once = min(STEPS_AT_ONCE, most - len(steps) + 1)  # one more tells whether there are more
            page = await self._pool.fetch(QUERIES.run_steps, request.run_id, after, at_once)
            calls = await self._calls_of(request.run_id, page) if page else {}
            for found in page:
                number = found["step_number"]
                own = calls.get(number, [])
                room -= _size(found["step"]) + sum(map(_size, own))
                if steps and (room < 0 or len(steps) == most):
                    return self._answer(row, steps, tools, after)
                steps.append(_parse_row(found["step"]))
                tools += [_parse_row(call) for call in own]
                after = number
            if len(page) < at_once:
                return self._answer(row, steps, tools, None)

    async def _calls_of(self, run: UUID, page: Any) -> dict[int, list[str]]:
        first, last = page[0]["step_number"], page[-1]["step_number"]
        calls: dict[int, list[str]] = {}
        for row in await self._pool.fetch(QUERIES.step_tools, run, first, last):
            calls.setdefault(row["step_number"], []).append(row["tool_execution"])
        return calls

    def _answer(
        self, row: Any, steps: list[JsonObject], tools: list[JsonObject], following: int | None
    ) -> ExecutionHistory:
        return ExecutionHistory(
            seq=row["seq"],
            history=_parse_row(row["history"]),
            steps=tuple(steps),
            tool_executions=tuple(tools),
            next_after_step=following,
        )

    async def _llm_calls(self, request: GetLlmCalls) -> LlmCalls:
        rows = await self._pool.fetch(
            QUERIES.llm_calls, request.run_id, request.project, request.after, CALLS_AT_ONCE + 1, request.step
        )
        calls: list[JsonObject] = []
        room = ANSWER_BYTES
        for row in rows[:CALLS_AT_ONCE]:
            room -= _size(row["call"])
            if room < 0 and calls:
                break
            calls.append(_parse_row(row["call"]))
        following = request.after + len(calls) if len(calls) < len(rows) else None
        return LlmCalls(calls=tuple(calls), next_after=following)


class CostQueries:
    """What a project has spent, from sums kept by day: a few rows are read, however many runs there were."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def get_costs(self, request: GetCosts) -> CostReport:
        """Return sums by name and by day; raises ProblemError for a time that is too long."""
        earliest = wall().date() - timedelta(days=MAX_DAYS)
        if request.since < earliest:
            raise ProblemError(problem("request_invalid", f"since: costs of at most {MAX_DAYS} days are summed"))
        place = (request.project, request.since)
        try:
            names = await self._pool.fetch(QUERIES.costs, request.project, request.by, request.since, MAX_NAMES)
            days = await self._pool.fetch(QUERIES.cost_days, *place)
            unpriced = await self._pool.fetch(QUERIES.unpriced_models, *place, MAX_UNPRICED)
        except DATABASE_DOWN as error:
            raise _unavailable() from error
        found = [dict(row) for row in names]
        count = [row.pop("names") for row in found]
        return CostReport(
            by=request.by,
            since=request.since,
            names=tuple(NamedCost(**row) for row in found),
            days=tuple(DayCost(**dict(row)) for row in days),
            unpriced_models=tuple(UnpricedModel(**dict(row)) for row in unpriced),
            left_out=max(0, count[0] - len(found)) if count else 0,
        )


def _unavailable() -> ProblemError:
    return ProblemError(problem("unavailable", "history can't be read right now", retry_after_s=2))


def _size(text: str) -> int:
    return len(text.encode())


def _parse_row(text: str) -> JsonObject:
    """Read a row; one that no message can carry alone is shown without its large values."""
    row: JsonObject = json.loads(text)
    if _size(text) <= ANSWER_BYTES:
        return row
    most = ANSWER_BYTES // 20  # a row has about twenty values
    return {key: value if len(json.dumps(value)) < most else "(too large to show)" for key, value in row.items()}
