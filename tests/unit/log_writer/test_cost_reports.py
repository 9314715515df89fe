"""What costs by name leave out is counted, and no time is summed that is longer than a report may be."""

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.costs import CostReport, GetCosts
from towpath_fabric.clock import wall
from towpath_log_writer.app.history_queries import CostQueries


async def report(names: int, since: date) -> CostReport:
    """Return the report of a project with so many names, of which the database gives as many as it is asked for."""
    row = {"usd": 1.0, "tokens": 2, "model_calls": 1, "runs": 1, "unpriced": 0}

    async def fetch(_query: str, *given: Any) -> list[Any]:
        if len(given) != 4:  # days, and models without a price
            return []
        return [{**row, "name": f"n{number}", "names": names} for number in range(min(names, given[3]))]

    queries = CostQueries(SimpleNamespace(fetch=fetch))
    return await queries.get_costs(GetCosts(project="shop", by="label", since=since))


@pytest.mark.parametrize(("names", "left_out"), [(0, 0), (200, 0), (201, 1), (1_000, 800)])
async def test_the_two_hundred_dearest_names_are_told_and_the_others_counted(names: int, left_out: int) -> None:
    found = await report(names, wall().date())
    assert (len(found.names), found.left_out) == (min(names, 200), left_out)


async def test_a_report_begins_92_days_ago_at_the_earliest() -> None:
    edge = wall().date() - timedelta(days=92)
    assert (await report(1, edge + timedelta(days=1))).left_out == 0, "a day later, so that midnight changes nothing"
    with pytest.raises(ProblemError, match="at most 92 days"):
        await report(1, edge - timedelta(days=1))
