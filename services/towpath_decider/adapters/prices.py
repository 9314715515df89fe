"""What a model call costs, by the price list of genai-prices, which is part of the package and needs no network."""

from decimal import Decimal
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any

from towpath_contracts.deciding import Cost, Usage

PACKAGE = "genai-prices"


@lru_cache(maxsize=1)
def _prices() -> tuple[Any, str]:
    """Load the list at the first call: deciders that only play scripts do without it."""
    return import_module("genai_prices"), f"{PACKAGE} {metadata.version(PACKAGE)}"


def price(provider_id: str, model: str, usage: Usage, *, cached_tokens: int = 0, stored_tokens: int = 0) -> Cost:
    """Return the cost of *usage*, of whose input *cached_tokens* came from a cache and *stored_tokens* were put there.

    An unknown model's price is unknown and never 0.
    """
    prices, source = _prices()
    counted = prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached_tokens or None,
        cache_write_tokens=stored_tokens or None,
    )
    try:
        total: Decimal = prices.calc_price(counted, model_ref=model, provider_id=provider_id).total_price
    except LookupError:
        return Cost(usd=None, price_known=False, price_source=source)
    return Cost(usd=float(total), price_known=True, price_source=source)
