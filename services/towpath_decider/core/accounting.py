"""Tokens and money of the calls of one request, added up.

Law: an unknown price is unknown and never 0; one call with an unknown price makes the sum unknown.
"""

from collections.abc import Iterable

from towpath_contracts.deciding import Cost, Usage

NO_USAGE = Usage()
"""No call was made."""

NOTHING = Cost(usd=0.0, price_known=True)
"""The cost of no answer at all: providers charge for what they return."""


def add_usage(usages: Iterable[Usage]) -> Usage:
    """Add up *usages*."""
    input_tokens = output_tokens = total_tokens = model_calls = 0
    for usage in usages:
        input_tokens += usage.input_tokens
        output_tokens += usage.output_tokens
        total_tokens += usage.total_tokens
        model_calls += usage.model_calls
    return Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total_tokens, model_calls=model_calls
    )


def add_costs(costs: Iterable[Cost]) -> Cost:
    """Add up *costs*; the source is that of the last one."""
    total = NOTHING
    for cost in costs:
        if total.usd is None or cost.usd is None:
            total = Cost(usd=None, price_known=False, price_source=cost.price_source)
        else:
            total = Cost(usd=total.usd + cost.usd, price_known=True, price_source=cost.price_source)
    return total
