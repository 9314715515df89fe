"""Events of budgets: what a run spends from, what was refused, what was corrected.

As for every event, nothing is emitted where no budget is: a run without one has the log it always had.
"""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import MessagePart
from towpath_contracts.budgets import BudgetRefusal, ChargedAttempt, ModelPrice, RunBudgetAccount
from towpath_contracts.decisions.request import Cost, Usage


class BudgetAccountsApplied(MessagePart):
    """From here on the run spends from these budget accounts, at these prices of models."""

    type: Literal["budget_applied"] = "budget_applied"
    scopes: tuple[RunBudgetAccount, ...]
    prices: dict[str, ModelPrice] = Field(default_factory=dict)


class BudgetRefused(MessagePart):
    """A reservation did not fit. `means` is what the run may still ask for: lean, last_answer or nothing."""

    type: Literal["budget_refused"] = "budget_refused"
    step: int
    refusal: BudgetRefusal
    means: str


class BudgetWarned(MessagePart):
    """So much of a limit is spent that the run is warned, or a person asked (`on_soft`)."""

    type: Literal["budget_warned"] = "budget_warned"
    step: int
    scope: str
    key: str
    unit: str
    limit: int
    spent: int
    on_soft: str


class UsageCorrected(MessagePart):
    """A late report says what an attempt really used that was counted at its worst case, or after it was given up."""

    type: Literal["usage_corrected"] = "usage_corrected"
    request_id: UUID
    model: str = ""
    usage: Usage = Usage()
    cost: Cost = Cost()
    answered: ChargedAttempt
