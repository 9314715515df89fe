"""Which accounts a run spends from, by what people have limited; and what models cost."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from genai_prices import Usage, calc_price
from tests.support.engine.machine import RUN, agent, snapshot, task

from towpath_contracts.budgets import Budget, BudgetRefusal, ChildRunBudget, ModelPrice
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.children import ParentRun
from towpath_orchestrator.adapters.model_prices import ModelPrices
from towpath_orchestrator.app.budget_limits import BUDGETS, BudgetLimitCache
from towpath_orchestrator.core.budget_scopes import BudgetLimits

NOW = datetime(2026, 11, 22, 23, 59, tzinfo=UTC)
CHILD = UUID(int=7)


class Rows:
    """A database that holds these limits."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows

    async def fetch(self, statement: str) -> list[dict[str, Any]]:
        assert statement == BUDGETS.limits
        base = {"version": 1, "usd_micros": None, "tokens": 5, "model_calls": None, "tool_calls": None}
        return [{**base, "soft": 0.8, "on_soft": "warn", **row} for row in self.rows] or [{**base, "project": None}]


async def limits(*rows: dict[str, Any], prices: Any = lambda _model: None) -> BudgetLimits:
    database: Any = Rows(*rows)
    found = BudgetLimitCache(database, prices)
    await found.load()
    return found.scopes


def paths(scopes: Any) -> list[tuple[str, str]]:
    return [(one.scope, one.key) for one in scopes]


async def test_budget_the_accounts_of_a_run_are_those_above_it() -> None:
    """run < agent < caller < project < day, each by its own key; other callers' limits are not of this run."""
    network = snapshot(agent("a", allow_respond=True, budget=Budget(tokens=9)), agent("b"))
    project = {"project": "default", "kind": "project", "name": "default"}
    mine = {"project": "default", "kind": "caller", "name": "me"}
    found = await limits(
        {**mine, "per_day": False},
        {**mine, "name": "you", "per_day": False},
        {**project, "per_day": False},
        {**project, "per_day": True},
    )
    scopes = found.scopes_of(RUN, task(network, budget=Budget(tokens=3)), network, NOW)
    assert paths(scopes) == [
        ("run", str(RUN)),
        ("agent", f"{RUN}/a"),
        ("caller", "me"),
        ("project", "default"),
        ("day", "2026-11-22/project/default"),
    ]
    assert [one.limits is not None for one in scopes] == [True, True, False, False, False]


async def test_budget_a_child_spends_from_its_root_and_no_more_than_is_carved_out_for_it() -> None:
    found, network = await limits(), snapshot()
    parent = ParentRun(run_id=RUN, root_id=RUN, step=1, index=0, depth=1)
    carved = (ChildRunBudget(run_id=CHILD, budget=Budget(tokens=2)),)
    child = task(network, budget=Budget(tokens=3), parent=parent, carve_outs=carved)
    scopes = found.scopes_of(CHILD, child, network, NOW)
    assert paths(scopes) == [("run", str(CHILD)), ("run", str(RUN))]
    assert [one.limits.tokens for one in scopes if one.limits] == [2, 3]
    grandchild = found.scopes_of(UUID(int=8), child, network, NOW)
    assert paths(grandchild) == paths(scopes)


async def test_budget_a_fork_and_what_is_below_it_spend_from_the_accounts_of_the_run_that_it_is_of() -> None:
    found, network = await limits(), snapshot()
    forked = task(network, budget=Budget(tokens=3), budget_root=RUN)
    parent = ParentRun(run_id=CHILD, root_id=CHILD, step=1, index=0, depth=1)
    for run_id, one in ((CHILD, forked), (UUID(int=8), forked.model_copy(update={"parent": parent}))):
        assert paths(found.scopes_of(run_id, one, network, NOW)) == [("run", str(RUN))]


async def test_budget_a_run_that_nobody_limits_has_no_account() -> None:
    found, network = (
        await limits({"project": "other", "kind": "project", "name": "other", "per_day": False}),
        snapshot(),
    )
    assert found.scopes_of(RUN, task(network), network, NOW) == ()
    assert not found.check(RUN, task(network), network, NOW)


async def test_budget_money_needs_a_price_and_tokens_do_not() -> None:
    found, network = await limits(), snapshot()
    assert found.check(RUN, task(network, model="x:y", budget=Budget(tokens=3)), network, NOW)
    with pytest.raises(ProblemError, match="price_unknown: no price is known of x:y"):
        found.check(RUN, task(network, model="x:y", budget=Budget(usd=3)), network, NOW)


def test_budget_prices_are_the_operators_first_and_then_the_lists(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text('"openai:ours-*": {input_usd: 0.5, output_usd: 2}\n')
    prices = ModelPrices(file)
    assert prices.price_of("openai:ours-2") == ModelPrice(input_micros=500_000, output_micros=2_000_000)
    assert prices.price_of("scripted:task") == ModelPrice(input_micros=0, output_micros=0)
    listed = prices.price_of("gemini:gemini-2.5-flash")
    assert listed is not None
    assert 0 < listed.input_micros < listed.output_micros
    million = Usage(input_tokens=1_000_000)
    said = calc_price(million, model_ref="gemini-2.5-flash", provider_id="google").total_price
    assert listed.input_micros == 1_000_000 * said, "so much, and no more, is set aside for a million tokens"
    assert prices.price_of("gemini:no-such-model") is None
    assert prices.price_of("agent:triage") is None
    file.write_text('"openai:x": {input_usd: much}\n')
    with pytest.raises(ValueError, match="input_usd"):
        ModelPrices(file)


def test_a_refusal_names_the_least_limit_that_would_do() -> None:
    refused = BudgetRefusal(scope="run", key="r", unit="tokens", limit=1_000, spent=900, reserved=50, wanted=9_400)
    assert "10350 tokens is the least that would do" in refused.describe()
