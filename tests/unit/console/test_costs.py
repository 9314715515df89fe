"""Costs: how much of a limit is spent, where the money went, and that an unknown price is never a zero."""

from typing import Any

import pytest
from tests.support.console.recorded_api import RecordedApi, asked_of, drawn

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.burn import burn_bar
from towpath_console.pages.costs import costs, set_budget, spent_by


def balance(spent: int, limit: int | None, reserved: int = 0) -> dict[str, Any]:
    left = None if limit is None else limit - spent - reserved
    return {
        "unit": "usd_micros", "limit": limit, "spent": spent, "reserved": reserved, "left": left, "estimated": 0,
    }  # fmt: skip


def run(network: str, usd: float | None, **more: Any) -> dict[str, Any]:
    cost = {"usd": usd, "price_known": usd is not None}
    return {
        "run_id": f"01a21826-750f-7b51-adac-{network:>012}", "network": network, "caller": "ann", "cost": cost,
        "usage": {"total_tokens": 10, "model_calls": 1}, "status": "completed", "version": 1, "step": 1, "max_steps": 9,
        "created_at": "2026-11-26T14:00:00Z", **more,
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


def test_sums_name_what_has_no_known_price() -> None:
    rows = spent_by("network", [run("a", 1.0), run("b", None), run("b", 0.25), run("c", None)])
    assert [(row["name"], row["usd"], row["runs"], row["unpriced"]) for row in rows] == [
        ("a", 1.0, 1, 0), ("b", 0.25, 2, 1), ("c", 0.0, 1, 1),
    ]  # fmt: skip
    assert [row["share"] for row in rows] == [100.0, 25.0, 0.0]


async def test_the_page_shows_accounts_and_costs_and_never_an_unknown_price_as_nothing() -> None:
    account = {
        "scope": "day", "key": "2026-11-26/caller/<b>ann</b>", "units": [balance(400_000, 500_000)], "soft": 0.8,
        "on_soft": "gate", "set_by": "ben", "set_at": "2026-11-26T14:00:00Z",
    }  # fmt: skip
    runs = [run("a", 1.0), run("c", None), run("d", None, cost=None, usage=None)]
    api = RecordedApi(**{"/v1/budgets": {"accounts": [account]}, "/v1/runs": {"runs": runs, "next_before": None}})
    html = drawn(await costs(asked_of(api)))
    assert "$0.40" in html and "$0.50" in html and "80.0 %" in html and "a person is asked" in html
    assert "price unknown" in html and "Runs whose price nobody knows" in html and "1 have not ended" in html
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


async def test_the_sums_name_of_how_many_runs_they_are_and_lead_to_older_ones() -> None:
    runs = [run("a", None, run_id=f"01a21826-750f-7b51-adac-{number:012}") for number in range(201)]

    class Listed(RecordedApi):
        async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
            if path != "/v1/runs":
                return {"accounts": []}
            return {"runs": runs[: int(params["limit"] or 0)], "next_before": "b"}

    page = await costs(asked_of(Listed()))
    html = drawn(page)
    assert page.data["runs_counted"] == 200 and "Of the newest 200 runs" in html and "before=b" in html
    assert html.count('id="run-') == 8 and "These are the newest 8 of 200." in html
    del runs[8:]
    few = drawn(await costs(asked_of(Listed())))
    assert few.count('id="run-') == 8 and "These are the newest" not in few and "before=b" not in few
