"""What a run has reserved and spent, account by account.

Exact and bounded. What an attempt reserves is in the log, so folding the log gives the same accounts, whatever a newer
version would reserve. The rows in Postgres change by what changes here, in the same transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from towpath_contracts.budgets import NOTHING, Amounts, BudgetRefusal, ModelPrice, RunBudgetAccount
from towpath_engine.state.replace import replace

MAX_LOST = 32
"""Attempts without an answer whose late report is waited for; an older one stays estimated for good."""


class SpendingRestriction(StrEnum):
    """How far the budget restricts what the run may ask for: not at all, to little, to one last answer, to nothing."""

    ALL = "all"
    LEAN = "lean"
    LAST_ANSWER = "last_answer"
    ANSWERING = "answering"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class SpendingAccount:
    """One account that the run spends from; the amounts are this run's part of it."""

    scope: str
    key: str
    agent_key: str = ""
    reserved: Amounts = NOTHING
    spent: Amounts = NOTHING
    estimated: Amounts = NOTHING


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What one attempt of one effect may cost, in the accounts (by number) that it was reserved in."""

    effect_id: UUID
    attempt: int
    accounts: tuple[int, ...]
    amounts: Amounts
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """The accounts of a run. `path` are those that everything is charged to now; accounts are only ever added."""

    accounts: tuple[SpendingAccount, ...] = ()
    path: tuple[int, ...] = ()
    prices: dict[str, ModelPrice] = field(default_factory=dict)
    holds: tuple[Reservation, ...] = ()
    lost: tuple[Reservation, ...] = ()
    means: SpendingRestriction = SpendingRestriction.ALL
    refused: BudgetRefusal | None = None
    warned: tuple[str, ...] = ()

    def charged(self, agent_key: str) -> tuple[int, ...]:
        """Return the numbers of the accounts that *agent_key* spends from."""
        return tuple(number for number in self.path if self.accounts[number].agent_key in ("", agent_key))

    def held(self, effect_id: UUID, attempt: int) -> Reservation | None:
        """Return what is reserved for this attempt."""
        return next((h for h in self.holds if h.effect_id == effect_id and h.attempt == attempt), None)

    def estimated(self, effect_id: UUID, attempt: int) -> Reservation | None:
        """Return what this attempt was settled at because no answer came."""
        return next((h for h in self.lost if h.effect_id == effect_id and h.attempt == attempt), None)


def apply_scopes(
    budget: BudgetState | None, scopes: Iterable[RunBudgetAccount], prices: dict[str, ModelPrice]
) -> BudgetState:
    """Return the accounts with *scopes* as what is charged from now on; what they hold already stays."""
    before = budget or BudgetState()
    accounts = list(before.accounts)
    places = {(account.scope, account.key): number for number, account in enumerate(accounts)}
    path = []
    for scope in scopes:
        number = places.get((scope.scope, scope.key))
        if number is None:
            number = len(accounts)
            accounts.append(SpendingAccount(scope=scope.scope, key=scope.key, agent_key=scope.agent_key))
        path.append(number)
    return replace(before, accounts=tuple(accounts), path=tuple(path), prices={**before.prices, **prices})


def reserve(budget: BudgetState, hold: Reservation) -> BudgetState:
    """Reserve the amounts of *hold*."""
    return replace(_changed(budget, hold.accounts, reserved=hold.amounts), holds=(*budget.holds, hold))


def settle(budget: BudgetState, hold: Reservation, actual: Amounts, estimated: Amounts = NOTHING) -> BudgetState:
    """Spend *actual* in the place of what was held; *estimated* is the part of it that was not counted."""
    released = NOTHING.minus(hold.amounts)
    changed = _changed(budget, hold.accounts, reserved=released, spent=actual, estimated=estimated)
    return replace(changed, holds=tuple(h for h in budget.holds if h is not hold))


def settle_as_lost(budget: BudgetState, hold: Reservation) -> BudgetState:
    """This attempt is not answered any more: it is spent at its worst case until a late report corrects that."""
    settled = settle(budget, hold, hold.amounts, hold.amounts)
    return replace(settled, lost=(*budget.lost, hold)[-MAX_LOST:])


def correct(budget: BudgetState, hold: Reservation, actual: Amounts, estimated: Amounts = NOTHING) -> BudgetState:
    """Put what an attempt really used in the place of its estimate."""
    changed = _changed(budget, hold.accounts, spent=actual.minus(hold.amounts), estimated=estimated.minus(hold.amounts))
    return replace(changed, lost=tuple(h for h in budget.lost if h is not hold))


def charge(budget: BudgetState, numbers: tuple[int, ...], actual: Amounts) -> BudgetState:
    """Spend what nothing was held for: it was asked before the budget was."""
    return _changed(budget, numbers, spent=actual)


def _changed(
    budget: BudgetState,
    numbers: tuple[int, ...],
    *,
    reserved: Amounts = NOTHING,
    spent: Amounts = NOTHING,
    estimated: Amounts = NOTHING,
) -> BudgetState:
    accounts = list(budget.accounts)
    for number in numbers:
        account = accounts[number]
        accounts[number] = replace(
            account,
            reserved=account.reserved.plus(reserved),
            spent=account.spent.plus(spent),
            estimated=account.estimated.plus(estimated),
        )
    return replace(budget, accounts=tuple(accounts))


@dataclass(frozen=True, kw_only=True)
class AccountChange:
    """By how much one account changes with a transition."""

    scope: str
    key: str
    reserved: Amounts
    spent: Amounts
    estimated: Amounts


def account_changes(before: BudgetState | None, after: BudgetState) -> list[AccountChange]:
    """Return what a transition from *before* to *after* changes in the accounts that many runs share."""
    olds = before.accounts if before is not None else ()
    found = []
    for number, account in enumerate(after.accounts):
        old = olds[number] if number < len(olds) else SpendingAccount(scope=account.scope, key=account.key)
        if old is not account:
            one = AccountChange(
                scope=account.scope,
                key=account.key,
                reserved=account.reserved.minus(old.reserved),
                spent=account.spent.minus(old.spent),
                estimated=account.estimated.minus(old.estimated),
            )
            if not (one.reserved.nothing and one.spent.nothing and one.estimated.nothing):
                found.append(one)
    return found


def new_reservations(before: BudgetState | None, after: BudgetState) -> list[Reservation]:
    """Return what the transition reserves for what is asked now."""
    known = {(h.effect_id, h.attempt) for h in before.holds} if before is not None else set()
    return [h for h in after.holds if (h.effect_id, h.attempt) not in known]
