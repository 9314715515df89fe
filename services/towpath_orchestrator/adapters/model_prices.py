"""What models cost at most: the operator's own list first, then that of genai-prices, which needs no network.

An upper bound, fixed in the run's log when its budget is applied; what a call really cost comes with its answer.
"""

from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

from towpath_contracts.budgets import ModelPrice
from towpath_contracts.decisions.request import Cost, Usage
from towpath_fabric.prices.model_price_list import MILLION, ModelPriceList, TokenPrice

FREE = ModelPrice(input_micros=0, output_micros=0)
PROVIDERS = {"gemini": "google", "openai": "openai", "anthropic": "anthropic"}
"""The names of providers in that list."""

THOUSAND = 1_000


class ModelPrices:
    """Answers what a model costs; every answer is remembered."""

    def __init__(self, file: Path | None) -> None:
        """Read the operator's list, which maps models (globs, the first that fits) to prices; raises ValueError."""
        self._own = ModelPriceList(file)
        self._known: dict[str, ModelPrice | None] = {}

    def price_of(self, model: str) -> ModelPrice | None:
        """Return the most that *model* costs, None where nobody knows."""
        if model not in self._known:
            own = self._own.price_of(model)
            self._known[model] = own.micros() if own is not None else _listed(model)
        return self._known[model]

    def cost_of(self, model: str, usage: Usage) -> Cost | None:
        """Return what *usage* of *model* cost by the operator's list; None where that does not say."""
        return self._own.cost_of(model, usage)


def _listed(model: str) -> ModelPrice | None:
    """Look a model up; of a price with steps the highest is taken."""
    provider, _, name = model.partition(":")
    if provider in ("scripted", "local"):  # nobody is paid by the token
        return FREE
    if provider not in PROVIDERS:
        return None
    prices: Any = import_module("genai_prices")

    def cost(input_tokens: int, output_tokens: int, stored: int | None = None) -> Decimal:
        usage = prices.Usage(input_tokens=input_tokens, output_tokens=output_tokens, cache_write_tokens=stored)
        total: Decimal = prices.calc_price(usage, model_ref=name, provider_id=PROVIDERS[provider]).total_price
        return total

    try:
        input_usd = max(cost(MILLION, 0), cost(THOUSAND, 0) * THOUSAND)
        # What a provider's prompt cache stores may cost more than what is only read.
        input_usd = max(input_usd, cost(MILLION, 0, MILLION), cost(THOUSAND, 0, THOUSAND) * THOUSAND)
        output_usd = max(cost(MILLION, MILLION) - cost(MILLION, 0), cost(0, MILLION))
    except LookupError:
        return None
    return TokenPrice(input_usd=input_usd, output_usd=output_usd).micros()
