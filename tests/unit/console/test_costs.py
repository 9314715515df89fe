"""Costs: how much of a limit is spent, where the money went, and that an unknown price is never a zero."""

from typing import Any

import pytest
from tests.support.console.recorded_api import RecordedApi, asked_of, drawn

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.bars import bar_chart
from towpath_console.drawings.burn import burn_bar
from towpath_console.pages.costs import costs, set_budget, with_shares


def balance(spent: int, limit: int | None, reserved: int = 0) -> dict[str, Any]:
    left = None if limit is None else limit - spent - reserved
    return {
        "unit": "usd_micros", "limit": limit, "spent": spent, "reserved": reserved, "left": left, "estimated": 0,
    }  # fmt: skip


def sums(usd: float, **more: Any) -> dict[str, Any]:
    return {"usd": usd, "tokens": 10, "model_calls": 1, "runs": 1, "unpriced": 0, **more}


def report(by: str, *names: dict[str, Any]) -> dict[str, Any]:
    days = [sums(1.0, day="2026-11-24"), sums(0.25, day="2026-11-26", unpriced=3)]
    return {
        "by": by, "since": "2026-11-20", "names": list(names), "days": days, "left_out": 2,
        "unpriced_models": [{"name": "openai:<b>mine</b>", "unpriced": 3}],
    }  # fmt: skip


def test_a_bar_never_leaves_its_track_and_says_when_it_is_used_up() -> None:
    for spent, reserved, state in ((0, 0, "within"), (79, 0, "within"), (70, 10, "near"), (100, 0, "used up")):
        bar = burn_bar(balance(spent, 100, reserved), 0.8)
        assert bar is not None and bar.state == state, (spent, reserved)
    over = burn_bar(balance(300, 100, 50), 0.8)
    assert over is not None and (over.spent, over.reserved, over.percent) == (100.0, 0.0, 300.0)
    nothing = burn_bar(balance(0, 0), 0.8)
    assert nothing is not None and nothing.state == "used up"
    assert burn_bar(balance(5, None), 0.8) is None


def test_a_chart_has_a_bar_for_each_day_that_cost_something_and_never_leaves_its_frame() -> None:
    bars = bar_chart([0.0, 2.0, None, 1.0, 0.001])
    assert [bar.height for bar in bars] == [24.0, 12.0, 0.5]
    assert all(bar.x >= 0 and bar.x + bar.width <= 100 and bar.y + bar.height <= 24.001 for bar in bars)
    assert bar_chart([]) == [] and bar_chart([0.0]) == []


def test_shares_are_of_the_dearest() -> None:
    assert [row["share"] for row in with_shares([sums(1.0), sums(0.25), sums(0.0)])] == [100.0, 25.0, 0.0]


async def test_the_page_shows_accounts_and_costs_and_never_an_unknown_price_as_nothing() -> None:
    account = {
        "scope": "day", "key": "2026-11-26/caller/<b>ann</b>", "units": [balance(400_000, 500_000)], "soft": 0.8,
        "on_soft": "gate", "set_by": "ben", "set_at": "2026-11-26T14:00:00Z",
    }  # fmt: skip
    found = report("label", sums(1.25, name="team=<i>"), sums(0.0, name="", unpriced=3))
    api, query = RecordedApi(**{"/v1/budgets": {"accounts": [account]}, "/v1/costs": found}), {"by": "label"}
    html = drawn(await costs(asked_of(api, query)), query)
    assert ("/v1/costs", {"by": "label", "since": "7d"}) in api.asked
    assert "$0.40" in html and "$0.50" in html and "80.0 %" in html and "a person is asked" in html
    assert "price unknown" in html and "Models whose price nobody knows" in html and "3 answers" in html
    assert "the most on 2026-11-24" in html and "/runs?label=team%3D%3Ci%3E" in html and "2 more are not shown" in html
    assert "<b>mine" not in html and "<i>" not in html.replace("<i class", "")
    assert "<b>ann" not in html and "each UTC day" in html


async def test_a_budget_is_sent_as_the_api_takes_it_and_lifted_without_one() -> None:
    api = RecordedApi()
    form = {"kind": "caller", "name": "ann", "per_day": "yes", "usd": "2.5", "tokens": "1000", "soft": "90"}
    await set_budget(asked_of(api), {**form, "on_soft": "gate", "reason": "new"})
    budget = {"on_soft": "gate", "usd": 2.5, "tokens": 1000, "soft": 0.9}
    body = {"kind": "caller", "name": "ann", "per_day": True, "reason": "new", "budget": budget}
    assert api.sent == [("POST", "/v1/budgets", body)]
    await set_budget(asked_of(api), {"kind": "project", "per_day": "no", "lift": "yes", "reason": "r"})
    assert api.sent[1][2] == {"kind": "project", "name": None, "per_day": False, "reason": "r"}


async def test_what_is_no_number_is_refused_with_every_field_named() -> None:
    api = RecordedApi()
    with pytest.raises(ApiRefusalError) as refused:
        await set_budget(asked_of(api), {"kind": "project", "usd": "much", "tokens": "1.5"})
    assert [error["pointer"] for error in refused.value.problem["errors"]] == ["/usd", "/tokens"]
    assert api.sent == []
