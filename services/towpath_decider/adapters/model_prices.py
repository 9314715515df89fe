"""What a model call costs, by the price list of genai-prices, which is part of the package and needs no network."""

import math
from decimal import Decimal
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any

from towpath_contracts.decisions.request import Cost, Usage

PACKAGE = "genai-prices"


@lru_cache(maxsize=1)
def _prices() -> tuple[Any, str]:
    """Load the list at the first call: deciders that only play scripts do without it."""
    return import_module("genai_prices"), f"{PACKAGE} {metadata.version(PACKAGE)}"


def cached_part(input_tokens: int, counted: Any) -> int:
    """Return how many of *input_tokens* a provider *counted* as read from its cache, or stored there.

    That is its own word: nothing and nonsense are 0, and more than the whole is the whole.
    """
    return min(max(0, counted), max(0, input_tokens)) if isinstance(counted, int) else 0


def price(provider_id: str, model: str, usage: Usage) -> Cost:
    """Return the cost of *usage*, with the price of a cache for what was read from one or stored there.

    An unknown model's price is unknown and never 0; so is that of counts that can have no price. Raises nothing for any
    count: the answer is paid, and is not lost for what it cost.
    """
    prices, source = _prices()
    unknown = Cost(usd=None, price_known=False, price_source=source)
    if min(usage.input_tokens, usage.output_tokens) < 0:
        return unknown
    counted = prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
    )
    try:
        total: Decimal = prices.calc_price(counted, model_ref=model, provider_id=provider_id).total_price
        usd = float(total)
    except (LookupError, ValueError, ArithmeticError):
        return unknown
    return Cost(usd=usd, price_known=True, price_source=source) if math.isfinite(usd) else unknown
