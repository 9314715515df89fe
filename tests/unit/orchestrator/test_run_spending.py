"""What a stored outcome says of a run's tokens and money: alone, and with every run below it."""

from towpath_contracts.decisions.request import Cost, Usage
from towpath_orchestrator.app.api.run_views import spent_by

OWN = {"usage": {"total_tokens": 10, "model_calls": 1}, "cost": {"usd": 0.25, "price_known": True}}


def test_a_run_without_children_has_used_what_its_tree_has() -> None:
    spent = spent_by(OWN)
    assert spent["usage"] == spent["tree_usage"] == Usage(total_tokens=10, model_calls=1)
    assert spent["cost"] == spent["tree_cost"] == Cost(usd=0.25, price_known=True)


def test_the_tree_of_a_run_includes_what_its_children_used() -> None:
    below = {"usage_below": {"total_tokens": 30, "model_calls": 2}, "below": {"usd": 0.5, "price_known": True}}
    spent = spent_by({**OWN, **below})
    assert spent["usage"] == Usage(total_tokens=10, model_calls=1)
    assert spent["tree_usage"] == Usage(total_tokens=40, model_calls=3)
    assert spent["tree_cost"] == Cost(usd=0.75, price_known=True)


def test_an_unknown_price_below_makes_the_cost_of_the_tree_alone_unknown() -> None:
    spent = spent_by({**OWN, "below": {"usd": None, "price_known": False}})
    assert (spent["cost"].usd, spent["tree_cost"].usd, spent["tree_cost"].price_known) == (0.25, None, False)
