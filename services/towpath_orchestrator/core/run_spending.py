"""What a run that has ended used and cost, read from its stored outcome: alone, and with every run below it.

The rule: what children used is counted as their parent's log counts it, so no other row is read for a sum.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from towpath_contracts.decisions.request import Cost, Usage
from towpath_engine.reducers.budget import sum_costs, sum_usages


class RunSpending(TypedDict):
    """The fields of RunView that tell what a run used."""

    usage: Usage
    cost: Cost
    tree_usage: Usage
    tree_cost: Cost


def spent_by(outcome: Mapping[str, Any]) -> RunSpending:
    """Return what *outcome* says of tokens and money; one price that is unknown makes the sum of the tree unknown."""
    usage, cost = Usage.model_validate(outcome.get("usage", {})), Cost.model_validate(outcome.get("cost", {}))
    usage_below = Usage.model_validate(outcome.get("usage_below", {}))
    below = Cost.model_validate(outcome["below"]) if "below" in outcome else None
    return RunSpending(
        usage=usage, cost=cost, tree_usage=sum_usages(usage, usage_below), tree_cost=sum_costs(cost, below)
    )
