"""Costs: what a project has spent on models, by network, agent, model, label and day.

Whoever may read runs may read what they cost; a credential sees nothing outside its own project.
"""

import re
from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.costs import MAX_DAYS, CostPart, CostReport, GetCosts
from towpath_fabric.clock import wall
from towpath_gateway.app.dependencies import Dependencies, RunsReader, documented, json_answer
from towpath_gateway.app.strict_requests import BoundedJsonRoute

router = APIRouter(prefix="/v1/costs", route_class=BoundedJsonRoute, tags=["costs"])

_DAYS = re.compile(r"([1-9][0-9]?)d")


@router.get("", response_model=CostReport, responses=documented(), summary="What was spent")
async def get_costs(
    dependencies: Dependencies,
    principal: RunsReader,
    by: CostPart = "network",
    since: Annotated[str, Query(max_length=10, description="days, today among them (`7d`), or a day (UTC)")] = "7d",
) -> Response:
    """Return sums of whole days (UTC), the dearest first; prices that nobody knows are counted beside them."""
    request = GetCosts(project=principal.project, by=by, since=first_day(since, wall().date()))
    return json_answer(await dependencies.platform.request(rpc.GET_COSTS, request))


def first_day(since: str, today: date) -> date:
    """Read `7d`, or a day; raises ProblemError `request_invalid`."""
    if (days := _DAYS.fullmatch(since)) is not None and int(days[1]) <= MAX_DAYS:
        return today - timedelta(days=int(days[1]) - 1)
    try:
        return date.fromisoformat(since)
    except ValueError:
        why = f"since: a number of days up to {MAX_DAYS}, as 7d, or a day, as 2026-11-26"
        raise ProblemError(problem("request_invalid", why)) from None
