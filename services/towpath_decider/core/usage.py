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


MAX_TOKENS = 10**12
"""Of one call, as a provider counts them: no sum of what budgets and tables hold overflows."""


def reported_usage(read: int, wrote: int, total: int, *, cached: int = 0, stored: int = 0) -> Usage:
    """Return what a provider says that one call used: no count is negative, which would give budgets back.

    Of what was *read* so much was *cached*, and so much *stored* in the provider's cache.
    """
    read, wrote, total, cached, stored = (min(max(0, one), MAX_TOKENS) for one in (read, wrote, total, cached, stored))
    return Usage(
        input_tokens=read,
        output_tokens=wrote,
        total_tokens=total,
        model_calls=1,
        cached_tokens=cached,
        cache_write_tokens=stored,
    )


def add_usage(usages: Iterable[Usage]) -> Usage:
    """Add up *usages*, attempts that failed included."""
    return merge_usage(usages)


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Add up *costs*; the source is that of the last one."""
    return merge_costs(costs)
