"""Answers what a project has spent, from sums kept by day: a few rows are read, however many runs there were."""

from datetime import timedelta
from typing import Any

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
from towpath_fabric.clock import wall
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_log_writer.adapters.history_tables import QUERIES


class CostQueries:
    """Serves `svc.log_writer.get_costs`."""

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
            raise ProblemError(problem("unavailable", "costs can't be read right now", retry_after_s=2)) from error
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
