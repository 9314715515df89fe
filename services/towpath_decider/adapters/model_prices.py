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


def price(provider_id: str, model: str, usage: Usage, *, cached_tokens: int = 0, stored_tokens: int = 0) -> Cost:
    """Return the cost of *usage*, of whose input *cached_tokens* came from a cache and *stored_tokens* were put there.

    An unknown model's price is unknown and never 0. What a provider counts is its own word: parts that are more than
    the whole are cut to it, and counts that can have no price are of unknown price. Raises nothing for any count:
    the answer is paid, and is not lost for what it cost.
    """
    prices, source = _prices()
    unknown = Cost(usd=None, price_known=False, price_source=source)
    if min(usage.input_tokens, usage.output_tokens) < 0:
        return unknown
    cached = min(max(0, cached_tokens), usage.input_tokens)
    stored = min(max(0, stored_tokens), usage.input_tokens - cached)
    counted = prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached or None,
        cache_write_tokens=stored or None,
    )
    try:
        total: Decimal = prices.calc_price(counted, model_ref=model, provider_id=provider_id).total_price
        usd = float(total)
    except (LookupError, ValueError, ArithmeticError):
        return unknown
    return Cost(usd=usd, price_known=True, price_source=source) if math.isfinite(usd) else unknown
