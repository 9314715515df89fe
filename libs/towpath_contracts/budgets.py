"""Budgets: what may be spent, by whom, and what was; quotas: how many runs, tool calls and bytes a project may have.

Money is counted in whole millionths of a dollar, so that sums are exact. The worst case is reserved before
anything is asked; what nobody answered for stays spent at that worst case and is marked `estimated`. A quota limits
how many runs are accepted, and ends none of those that were: their tool calls wait for the next minute.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, model_validator

from towpath_contracts.base import ClientMessagePart, Message, MessagePart, Token

Unit = Literal["usd_micros", "tokens", "model_calls", "tool_calls"]
UNITS: tuple[Unit, ...] = ("usd_micros", "tokens", "model_calls", "tool_calls")

Scope = Literal["run", "agent", "caller", "project", "day"]
"""From the inside out: a run, an agent in it, everything of a caller, of a project, and either of these on one day."""

OnSoft = Literal["warn", "gate"]

MICROS = 1_000_000
MAX_LIMIT = 10**15
"""A thousand million dollars, or as many tokens as nobody has: sums stay within 64 bits."""

SOFT = 0.8
"""Part of a limit that may be spent before a warning is given."""


STEP_LIMITS = frozenset({"steps", "max_steps", "turns", "max_turns", "iterations"})
TIME_LIMITS = frozenset({"wall", "seconds", "time", "timeout", "timeout_ms", "deadline"})
"""What some call limits of steps and of time; here these are no amounts that are reserved and spent."""


class Amounts(MessagePart):
    """An amount of each unit: money, tokens, model calls and tool calls."""

    usd_micros: int = 0
    tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the sum."""
        return Amounts.model_construct(**{unit: getattr(self, unit) + getattr(other, unit) for unit in UNITS})

    def minus(self, other: "Amounts") -> "Amounts":
        """Return the difference, which may be negative."""
        return Amounts.model_construct(**{unit: getattr(self, unit) - getattr(other, unit) for unit in UNITS})

    @property
    def nothing(self) -> bool:
        """Whether it is zero of everything."""
        return not any(getattr(self, unit) for unit in UNITS)


NOTHING = Amounts()


class SpendingLimits(MessagePart):
    """The limit of each unit: money, tokens, model calls and tool calls; None is no limit."""

    usd_micros: int | None = None
    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None


class Budget(ClientMessagePart):
    """What may be spent: dollars, tokens, model calls and tool calls; what is left out has no limit.

    Once `soft` of a limit is spent the run is warned (`warn`), or waits for a person (`gate`).
    """

    usd: float | None = Field(default=None, ge=0, le=MAX_LIMIT / MICROS)
    tokens: int | None = Field(default=None, ge=0, le=MAX_LIMIT)
    model_calls: int | None = Field(default=None, ge=0, le=MAX_LIMIT)
    tool_calls: int | None = Field(default=None, ge=0, le=MAX_LIMIT)
    soft: float = Field(default=SOFT, gt=0, le=1)
    on_soft: OnSoft = "warn"

    @model_validator(mode="before")
    @classmethod
    def _limits_amounts_alone(cls, written: Any) -> Any:
        """Say where the most steps and the time of a run are said: many frameworks have them in one object."""
        others = {str(name) for name in written} if isinstance(written, Mapping) else set()
        if others & STEP_LIMITS:
            msg = "a budget limits no steps: say max_steps beside it, of the run or of the network"
            raise ValueError(msg)
        if others & TIME_LIMITS:
            msg = "a budget limits no time: say timeout_ms beside it, or in Python deadline, such as 10m"
            raise ValueError(msg)
        return written

    @model_validator(mode="after")
    def _limits_something(self) -> "Budget":
        if all(one is None for one in (self.usd, self.tokens, self.model_calls, self.tool_calls)):
            msg = "give at least one of usd, tokens, model_calls, tool_calls"
            raise ValueError(msg)
        return self

    def limits(self) -> SpendingLimits:
        """Return the limits in whole units; money is rounded down."""
        usd = None if self.usd is None else math.floor(round(self.usd * MICROS, 3))
        return SpendingLimits(
            usd_micros=usd, tokens=self.tokens, model_calls=self.model_calls, tool_calls=self.tool_calls
        )


class ChildRunBudget(MessagePart):
    """The most that a child run, with its own children, may have of what its root may spend."""

    run_id: UUID
    budget: Budget


class ModelPrice(MessagePart):
    """What a model costs at most, in millionths of a dollar for a million tokens."""

    input_micros: int = Field(ge=0)
    output_micros: int = Field(ge=0)

    def of(self, input_tokens: int, output_tokens: int) -> int:
        """Return the price of so many tokens in millionths of a dollar, rounded up."""
        return -((-input_tokens * self.input_micros - output_tokens * self.output_micros) // MICROS)


class RunBudgetAccount(MessagePart):
    """One account that a run spends from. `limits` are given for those of the run itself: others stand in Postgres.

    An account of scope `agent` is charged with what its `agent_key` causes alone.
    """

    scope: Scope
    key: str
    agent_key: str = ""
    limits: SpendingLimits | None = None
    soft: float = SOFT
    on_soft: OnSoft = "warn"


class BudgetRefusal(MessagePart):
    """Why a reservation was refused: of `limit` so much is spent and reserved, and `wanted` does not fit.

    `unpriced` names a model whose price nobody knows: money is limited there, and what it costs can't be counted.
    """

    scope: Scope
    key: str
    unit: Unit
    limit: int
    spent: int
    reserved: int
    wanted: int
    unpriced: str = Field(default="", exclude_if=lambda model: not model)

    def describe(self) -> str:
        """Return the reason in words, and the least limit that would be enough.

        `the run's budget of 1000 tokens: 900 spent, 0 reserved, 400 more wanted; …`
        """
        owner = "the run's" if self.scope == "run" else f"the {self.scope} {self.key}'s"
        limit = format_amount(self.unit, self.limit)
        if self.unpriced:
            return f"no price is known of {self.unpriced}, and {owner} budget of {limit} is money"
        used = f"{format_amount(self.unit, self.spent)} spent, {format_amount(self.unit, self.reserved)} reserved"
        message = f"{owner} budget of {limit}: {used}, {format_amount(self.unit, self.wanted)} more wanted"
        least = format_amount(self.unit, self.spent + self.reserved + self.wanted)
        return f"{message}; the worst case is reserved before anything is asked, so {least} is the least that would do"


def format_amount(unit: str, amount: int) -> str:
    """Write an amount as people read it: `$0.25`, `1200 tokens`."""
    if unit == "usd_micros":
        text = f"{amount / MICROS:.6f}".rstrip("0")
        whole, _, part = text.partition(".")
        return f"${whole}.{part.ljust(2, '0')}"
    return f"{amount} {unit.replace('_', ' ')}"


class ChargedAttempt(MessagePart):
    """The attempt that an answer is to, and whose model calls paid for it; told in runs that have a budget.

    `called_in` is the attempt whose model calls were paid where that was an earlier one (0: its own), and `uncounted`
    how many of its calls ended without anybody knowing what they used.
    """

    attempt: int
    called_in: int = 0
    uncounted: int = 0


BudgetKind = Literal["caller", "project"]


class SetBudget(Message):
    """Gateway to orchestrator: limit a caller or the project, in all or for each UTC day; no `budget` lifts it."""

    project: Token
    kind: BudgetKind
    name: Token
    per_day: bool = False
    budget: Budget | None
    actor: str
    roles: tuple[str, ...] = ()
    reason: str = Field(default="", max_length=2_000)
    key_prefix: str = ""
    key_commitment: str = ""


class ShowBudgets(Message):
    """Accounts of a project: all that people have limited, those of one caller, or those of one run."""

    project: Token
    caller: str | None = None
    run_id: UUID | None = None
    limit: int = Field(default=200, ge=1, le=1_000)


class BudgetUnitBalance(MessagePart):
    """What one account holds of one unit. `left` is None without a limit; `estimated` is a part of `spent`."""

    unit: Unit
    limit: int | None
    spent: int
    reserved: int
    left: int | None
    estimated: int


class BudgetAccount(MessagePart):
    """One account: whose, what is limited, spent, reserved and left."""

    scope: Scope
    key: str
    units: tuple[BudgetUnitBalance, ...]
    soft: float
    on_soft: OnSoft
    set_by: str = ""
    set_at: datetime | None = None


class BudgetAccountList(Message):
    """Accounts, the wider ones last."""

    accounts: tuple[BudgetAccount, ...]


class BudgetSet(Message):
    """The account as it stands now; None where nothing limits it any more."""

    account: BudgetAccount | None
    changed: bool


QuotaName = Literal["unfinished_runs", "runs_per_day", "tool_calls_per_minute", "stored_bytes"]
QUOTA_NAMES: tuple[QuotaName, ...] = ("unfinished_runs", "runs_per_day", "tool_calls_per_minute", "stored_bytes")
TASK_QUOTAS: tuple[QuotaName, ...] = ("unfinished_runs", "stored_bytes", "runs_per_day")
"""Those that a task is refused by; of several the last one is told."""

MAX_UNFINISHED_RUNS = 100_000
"""They are counted whenever a task of the project is accepted; a count of so many takes some hundredths of a second."""

MAX_RUNS_PER_DAY = 10**9

MAX_TOOL_CALLS_PER_MINUTE = 10**6
"""More than any installation lets through."""

MAX_STORED_BYTES = 10**15
"""A thousand terabytes, which no Postgres server holds."""


class ProjectQuota(ClientMessagePart):
    """What a project may have: runs that have not ended or begin on one UTC day, tool calls a minute, stored bytes.

    What is left out has no limit.
    """

    unfinished_runs: int | None = Field(default=None, ge=0, le=MAX_UNFINISHED_RUNS)
    runs_per_day: int | None = Field(default=None, ge=0, le=MAX_RUNS_PER_DAY)
    tool_calls_per_minute: int | None = Field(default=None, ge=1, le=MAX_TOOL_CALLS_PER_MINUTE)
    stored_bytes: int | None = Field(default=None, ge=1, le=MAX_STORED_BYTES)

    @model_validator(mode="after")
    def _limits_something(self) -> "ProjectQuota":
        if all(getattr(self, name) is None for name in QUOTA_NAMES):
            msg = f"give at least one of {', '.join(QUOTA_NAMES)}"
            raise ValueError(msg)
        return self


class SetQuota(Message):
    """Gateway to orchestrator: set the quota of a project in place of the one before; no `quota` lifts it."""

    project: Token
    quota: ProjectQuota | None
    actor: str
    roles: tuple[str, ...] = ()
    reason: str = Field(default="", max_length=2_000)
    key_prefix: str = ""
    key_commitment: str = ""


class ShowQuota(Message):
    """The quota of a project, and what is used of it."""

    project: Token


class QuotaUse(MessagePart):
    """One limit of a quota and what is used of it; `frees_at` is known of what is counted by the day or minute."""

    name: QuotaName
    limit: int
    used: int
    frees_at: datetime | None = None


class QuotaStatus(Message):
    """The quota of a project as it stands; without `uses` there is none."""

    project: str
    uses: tuple[QuotaUse, ...] = ()
    set_by: str = ""
    set_at: datetime | None = None
    reason: str = ""
