"""What models cost at most: the operator's own list first, then that of genai-prices, which needs no network.

An upper bound, fixed in the run's log when its budget is applied; what a call really cost comes with its answer.
"""

from decimal import Decimal
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from towpath_contracts.base import DEFERRED, ClientMessagePart
from towpath_contracts.budgets import MICROS, ModelPrice
from towpath_contracts.problems.input_faults import describe_validation_error

FREE = ModelPrice(input_micros=0, output_micros=0)
PROVIDERS = {"gemini": "google", "openai": "openai", "anthropic": "anthropic"}
"""The names of providers in that list."""

MILLION = 1_000_000
THOUSAND = 1_000


class TokenPrice(ClientMessagePart):
    """Dollars for a million tokens."""

    input_usd: Decimal
    output_usd: Decimal

    def micros(self) -> ModelPrice:
        """Return it in millionths, rounded up."""
        return ModelPrice(input_micros=_up(self.input_usd), output_micros=_up(self.output_usd))


_adapter: TypeAdapter[dict[str, TokenPrice]] = TypeAdapter(dict[str, TokenPrice], config=DEFERRED)


def _up(usd: Decimal) -> int:
    return int(-(-usd * MICROS // 1))


class ModelPrices:
    """Answers what a model costs; every answer is remembered."""

    def __init__(self, file: Path | None) -> None:
        """Read the operator's list, which maps models (globs, the first that fits) to prices; raises ValueError."""
        self._own = {} if file is None else _read(file)
        self._known: dict[str, ModelPrice | None] = {}

    def price_of(self, model: str) -> ModelPrice | None:
        """Return the most that *model* costs, None where nobody knows."""
        if model not in self._known:
            own = next((price for pattern, price in self._own.items() if fnmatchcase(model, pattern)), None)
            self._known[model] = own.micros() if own is not None else _listed(model)
        return self._known[model]


def _read(file: Path) -> dict[str, TokenPrice]:
    import yaml  # noqa: PLC0415 - only for operators who have such a file

    try:
        return _adapter.validate_python(yaml.safe_load(file.read_text("utf-8")) or {})
    except ValidationError as error:
        msg = f"{file}: {describe_validation_error(error)}"
        raise ValueError(msg) from error


def _listed(model: str) -> ModelPrice | None:
    """Look a model up; of a price with steps the highest is taken."""
    provider, _, name = model.partition(":")
    if provider in ("scripted", "local"):  # nobody is paid by the token
        return FREE
    if provider not in PROVIDERS:
        return None
    prices: Any = import_module("genai_prices")

    def cost(input_tokens: int, output_tokens: int) -> Decimal:
        usage = prices.Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        total: Decimal = prices.calc_price(usage, model_ref=name, provider_id=PROVIDERS[provider]).total_price
        return total

    try:
        input_usd = max(cost(MILLION, 0), cost(THOUSAND, 0) * THOUSAND)
        output_usd = max(cost(MILLION, MILLION) - cost(MILLION, 0), cost(0, MILLION))
    except LookupError:
        return None
    return TokenPrice(input_usd=input_usd, output_usd=output_usd).micros()
