"""Since when costs are summed: whole days, today among them, and no longer than they are told for."""

from datetime import date

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.app.routes.operations.costs import first_day

TODAY = date(2026, 11, 26)


@pytest.mark.parametrize(
    ("since", "day"),
    [("1d", TODAY), ("7d", date(2026, 11, 20)), ("92d", date(2026, 8, 27)), ("2026-11-02", date(2026, 11, 2))],
)
def test_a_number_of_days_has_today_among_them(since: str, day: date) -> None:
    assert first_day(since, TODAY) == day


@pytest.mark.parametrize("since", ["93d", "0d", "7", "yesterday", "100d"])
def test_more_days_than_are_summed_and_what_is_no_time_are_refused_with_what_is_possible(since: str) -> None:
    with pytest.raises(ProblemError, match="a number of days up to 92, as 7d"):
        first_day(since, TODAY)
