"""Budgets in the commit loop: gives runs the facts about their accounts, remembers refusals, warns.

Nothing here decides what a run may spend; the statement that moves the run does. A refusal comes to the run as a
fact, before the facts that made it ask, and it is tried again by itself.
"""

from datetime import datetime
from uuid import UUID

from prometheus_client import Counter

from towpath_contracts.budgets import BudgetRefusal
from towpath_contracts.events import log as ev
from towpath_contracts.facts import AnyFact, BudgetRefusedFact, BudgetWarnedFact, TimerFiredFact
from towpath_contracts.runs.refused_transition import TransitionRefusedFact
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_orchestrator.adapters.budget_store import BudgetAccountOpener, BudgetBatchResult, budget_warnings
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.commit.inbox import InboxFact, local_fact
from towpath_orchestrator.core.transitions import Transition


class BudgetAccounting:
    """Keeps limits, opened accounts and refusals for the commit loop. One per process."""

    def __init__(self, limits: BudgetLimitCache, refused: Counter) -> None:
        self._limits = limits
        self._refused = refused
        self._accounts = BudgetAccountOpener()
        self._refusals: dict[UUID, list[BudgetRefusal]] = {}
        self.version = -1
        """The version of the limits that a batch began with; its commit is refused where it has changed."""

    async def load(self) -> None:
        """Load the limits before anything is folded."""
        await self._limits.load()
        self.version = self._limits.version

    async def use_version(self, version: int) -> None:
        """Load the limits of this version, or newer ones."""
        await self._limits.use_version(version)
        self.version = self._limits.version

    def with_budget_facts(self, state: RunState, items: list[InboxFact], now: datetime) -> list[InboxFact]:
        """Return *items* behind the facts that the run must have first: its accounts, and what they refused.

        In a run with a budget, answers come before timers: what an answer makes needless is not paid for again.
        """
        if any(isinstance(item.fact, TransitionRefusedFact) for item in items):
            return items  # it comes alone, and parks also a run of which accounts can't be stored
        applied = self._limits.scopes.changed_scopes(state, now)
        refused = self._refusals.get(state.run_id, ())
        if applied is None and not refused:
            return items if state.budget is None else sorted(items, key=_is_timer)
        first: list[AnyFact] = [] if applied is None else [applied]
        first += [BudgetRefusedFact(run_id=state.run_id, refusal=refusal) for refusal in refused]
        return [*map(local_fact, first), *sorted(items, key=_is_timer)]

    async def open_accounts(self, lane: PinnedDatabaseConnection, batch: list[Transition]) -> None:
        """Open the accounts that the batch is the first to spend from."""
        charged = [(moved.state, _applied(moved)) for moved in batch if moved.state.budget is not None]
        if charged:
            await self._accounts.open(lane, charged)

    async def after_commit(self, batch: list[Transition], done: BudgetBatchResult) -> list[BudgetWarnedFact]:
        """Remember what was refused, for the next try; return warnings for runs whose accounts are nearly used up."""
        for run_id in done.moved:
            self._refusals.pop(run_id, None)
        for run_id, refusal in done.refused.items():
            self._refused.inc()
            self._refusals.setdefault(run_id, []).append(refusal)
        if done.unopened:
            self._accounts.forget()
            await self._limits.reload()
        moved = [one.state for one in batch if one.state.run_id in done.moved]
        return [fact for row in done.soft for state in moved for fact in budget_warnings(row, state)]

    def forget(self, run_id: UUID) -> None:
        """Forget refusals of a run whose facts are handed back: they may fit when they come again."""
        self._refusals.pop(run_id, None)


def _is_timer(item: InboxFact) -> bool:
    return isinstance(item.fact, TimerFiredFact)


def _applied(moved: Transition) -> list[ev.BudgetAccountsApplied]:
    return [entry.event for entry in moved.entries if isinstance(entry.event, ev.BudgetAccountsApplied)]
