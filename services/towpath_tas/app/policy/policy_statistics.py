"""Counts decisions and how their calls ended.

The figures are counted from the audit, never stored beside it. A time window is a range of audit ids, so a short one
costs little however long the audit is. A very large one is cut at its old end, and the answer says so.
"""

from datetime import timedelta
from typing import Any

from towpath_contracts.grant_proposals.proposals import CountUsedTools, UsedTool, UsedTools
from towpath_contracts.tools.policy import GetToolCallStatistics, ToolCallCounts, ToolCallStatistics
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.policy.policy_diff import HISTORY, ID_TIME_SLACK, entry_at, shifted

MAX_SCANNED = 250_000
"""Entries counted for one answer: a fifth of a second of Postgres."""

MAX_ROWS = 1_000
MAX_CONSTANT_CHARS = 512
"""Of an argument that all calls gave alike, as JSON; a condition can't hold more."""

DAY = timedelta(days=1)
COUNTS = (
    *("allowed", "denied", "gated", "approved", "refused", "expired"),
    *("succeeded", "failed", "unknown", "void"),
)


class PolicyStatisticsQueries:
    """Answers `policy stats`, and which tools some runs have used."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def statistics(self, request: GetToolCallStatistics) -> ToolCallStatistics:
        """Count the window by the requested dimensions; the 1,000 largest groups at most."""
        until = request.until or await self._pool.fetchval(QUERIES.now)
        since = request.since or shifted(until, -DAY)
        first = await entry_at(self._pool, since, -ID_TIME_SLACK)
        end = await entry_at(self._pool, until, ID_TIME_SLACK)
        complete = end - first <= MAX_SCANNED
        if not complete:
            first = end - MAX_SCANNED
            since = max(since, await self._pool.fetchval(HISTORY.entry_time, first))
        by = list(dict.fromkeys(request.by))
        rows = await self._pool.fetch(HISTORY.statistics, request.project, first, end, since, until, by, MAX_ROWS)
        totals = [row for row in rows if row["whole"]]
        return ToolCallStatistics(
            since=since,
            until=until,
            by=tuple(by),
            total=_figures_of(totals[0], ()),
            rows=tuple(_figures_of(row, by) for row in rows if not row["whole"]),
            complete=complete,
        )

    async def used_tools(self, request: CountUsedTools) -> UsedTools:
        """Count the calls of some runs that succeeded, tool by tool; the 1,000 that most runs used at most."""
        runs = list(request.runs)
        rows = await self._pool.fetch(HISTORY.used_tools, request.project, list(request.roots), runs, MAX_ROWS)
        constants: dict[tuple[str, str], dict[str, str]] = {}
        if request.sinks:
            named = [list(column) for column in zip(*request.sinks, strict=True)]
            alike = (request.project, runs, *named, MAX_CONSTANT_CHARS)
            for row in await self._pool.fetch(HISTORY.constant_arguments, *alike):
                constants.setdefault((row["tool"], row["operation"]), {})[row["argument"]] = row["value"]
        return UsedTools(
            tools=tuple(
                UsedTool(**dict(row), constants=constants.get((row["tool"], row["operation"]), {})) for row in rows
            )
        )


def _figures_of(row: Any, by: "list[Any] | tuple[()]") -> ToolCallCounts:
    counts: dict[str, int] = {name: row[name] for name in COUNTS}
    decided = counts["allowed"] + counts["denied"] + counts["gated"]
    ended = counts["succeeded"] + counts["failed"] + counts["unknown"]
    return ToolCallCounts(
        key={name: row[name] for name in by},
        **counts,
        denial_rate=counts["denied"] / decided if decided else None,
        success_rate=counts["succeeded"] / ended if ended else None,
    )
