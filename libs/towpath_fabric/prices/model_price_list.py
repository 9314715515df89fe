"""The operator's own prices of models: one file for every service that counts money (docs/budgets.md).

It comes before every other list: whoever hosts or fine-tunes a model knows alone what it costs.
"""

from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from towpath_contracts.base import DEFERRED, ClientMessagePart
from towpath_contracts.budgets import MICROS, ModelPrice
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.problems.input_faults import describe_validation_error

SOURCE = "price file"
"""What a cost names as the source of its price."""

MILLION = 1_000_000


class TokenPrice(ClientMessagePart):
    """Dollars for a million tokens."""

    input_usd: Decimal = Field(ge=0)
    output_usd: Decimal = Field(ge=0)

    def micros(self) -> ModelPrice:
        """Return it in millionths, rounded up."""
        return ModelPrice(input_micros=_up(self.input_usd), output_micros=_up(self.output_usd))

    def cost_of(self, usage: Usage) -> Cost:
        """Return what *usage* costs; tokens that a provider counts as neither are taken for written ones."""
        wrote = max(usage.output_tokens, usage.total_tokens - usage.input_tokens)
        usd = (self.input_usd * max(0, usage.input_tokens) + self.output_usd * max(0, wrote)) / MILLION
        return Cost(usd=float(usd), price_known=True, price_source=SOURCE)


price_file: TypeAdapter[dict[str, TokenPrice]] = TypeAdapter(dict[str, TokenPrice], config=DEFERRED)
"""What the file holds: prices by globs of models."""


def _up(usd: Decimal) -> int:
    return int(-(-usd * MICROS // 1))


class ModelPriceList:
    """Maps models to prices by globs, of which the first that fits holds."""

    def __init__(self, file: Path | None) -> None:
        """Read *file*; without one nothing has a price here. Raises ValueError."""
        self._prices = {} if file is None else _read(file)

    def price_of(self, model: str) -> TokenPrice | None:
        """Return the price of *model*, None where the file names none."""
        return next((price for pattern, price in self._prices.items() if fnmatchcase(model, pattern)), None)

    def cost_of(self, model: str, usage: Usage) -> Cost | None:
        """Return what *usage* of *model* costs; None where the file does not say, or nobody counted any tokens."""
        counted = usage.total_tokens or usage.input_tokens or usage.output_tokens
        price = self.price_of(model) if counted else None
        return None if price is None else price.cost_of(usage)


def _read(file: Path) -> dict[str, TokenPrice]:
    import yaml  # noqa: PLC0415 - only for operators who have such a file

    try:
        return price_file.validate_python(yaml.safe_load(file.read_text("utf-8")) or {})
    except ValidationError as error:
        msg = f"{file}: {describe_validation_error(error)}"
        raise ValueError(msg) from error
