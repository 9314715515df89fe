"""Tokens and money of the calls of one request, added up.

An unknown price is unknown and never 0; one call with an unknown price makes the sum unknown.
"""

from collections.abc import Iterable

from towpath_contracts.decisions.request import Cost, Usage
from towpath_readings.nodes import merge_costs, merge_usage

NO_USAGE = Usage()
"""No call was made."""

NOTHING = Cost(usd=0.0, price_known=True)
"""The cost of no answer at all: providers charge for what they return."""


def add_usage(usages: Iterable[Usage]) -> Usage:
    """Add up *usages*, attempts that failed included."""
    return merge_usage(usages)


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Add up *costs*; the source is that of the last one."""
    return merge_costs(costs)
