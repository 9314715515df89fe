"""What a project has spent on models: sums of whole days (UTC), by network, agent, model, label or caller."""

from datetime import date
from typing import Literal

from towpath_contracts.base import Message, MessagePart, Token

CostPart = Literal["network", "agent", "model", "label", "caller"]

MAX_DAYS = 92
"""The most days of one answer."""

MAX_NAMES = 200
MAX_UNPRICED = 50


class CostSum(MessagePart):
    """What models cost; `unpriced` answers, whose price nobody knows, add tokens and no money.

    `runs` are those that began; of agents and models they are not counted.
    """

    usd: float
    tokens: int
    model_calls: int
    runs: int = 0
    unpriced: int = 0


class NamedCost(CostSum):
    """The costs of one network, agent (`network/agent`), model, or label (`key=value`).

    The name is empty for everything that found no room on its day, and for labels that only erased runs had.
    """

    name: str


class DayCost(CostSum):
    """The costs of one day."""

    day: date


class UnpricedModel(MessagePart):
    """A model of which some answers have no known price."""

    name: str
    unpriced: int


class GetCosts(Message):
    """Gateway to log-writer: the costs of a project from a day on."""

    project: Token
    by: CostPart
    since: date


class CostReport(Message):
    """The dearest names first, then by tokens; `left_out` counts names that did not fit.

    A run with two labels is in two rows, so rows of labels need not add up to the days.
    """

    by: CostPart
    since: date
    names: tuple[NamedCost, ...]
    days: tuple[DayCost, ...]
    unpriced_models: tuple[UnpricedModel, ...] = ()
    left_out: int = 0
