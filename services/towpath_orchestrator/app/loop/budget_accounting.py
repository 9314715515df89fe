"""What the commit loop does about budgets: tell runs what they spend from, remember refusals, warn.

Nothing here decides what a run may spend; the statement that moves the run does. A refusal is told to the run as a
fact, before the facts that made it ask, and it is tried again by itself.
"""

from datetime import datetime
from uuid import UUID

from prometheus_client import Counter

from towpath_contracts.budgets import BudgetRefusal
from towpath_contracts.events import log as ev
from towpath_contracts.facts import AnyFact, BudgetRefused, BudgetWarned, TimerFired
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pinned_connection import Lane
from towpath_orchestrator.adapters.budget_store import Accounts, Committed, warnings
from towpath_orchestrator.adapters.run_store import Moved
from towpath_orchestrator.app.loop.budget_limits import Limits
from towpath_orchestrator.app.loop.inbox import Item


class Charging:
    """The accounts as one commit loop sees them."""

    def __init__(self, limits: Limits, refused: Counter) -> None:
        self._limits = limits
        self._refused = refused
        self._accounts = Accounts()
        self._refusals: dict[UUID, list[BudgetRefusal]] = {}
        self.version = -1
        """Of the limits that a batch began with: what is set while it is folded is newer, and its commit sees that."""

    async def ready(self) -> None:
        """Know what is limited before anything is folded."""
        await self._limits.ready()
        self.version = self._limits.version

    async def saw(self, version: int) -> None:
        """Know the limits of this version, or newer ones."""
        await self._limits.saw(version)
        self.version = self._limits.version

    def told(self, state: RunState, items: list[Item], now: datetime) -> list[Item]:
        """Return *items* behind what the run must know first: what it spends from, and what was refused of it.

        In a run with a budget, answers come before timers: what an answer makes needless is not paid for again.
        """
        news = self._limits.news(state, now)
        refused = self._refusals.get(state.run_id, ())
        if news is None and not refused:
            return items if state.budget is None else sorted(items, key=_is_timer)
        told: list[AnyFact] = [] if news is None else [news]
        told += [BudgetRefused(run_id=state.run_id, refusal=refusal) for refusal in refused]
        return [*(Item(fact=fact, text=fact.model_dump_json()) for fact in told), *sorted(items, key=_is_timer)]

    async def open(self, lane: Lane, batch: list[Moved]) -> None:
        """Open the accounts that the batch is the first to spend from."""
        charged = [(moved.state, _applied(moved)) for moved in batch if moved.state.budget is not None]
        if charged:
            await self._accounts.open(lane, charged)

    async def after(self, batch: list[Moved], done: Committed) -> list[BudgetWarned]:
        """Remember what was refused, for the next try; return what runs are to be told of accounts nearly used up."""
        for run_id in done.moved:
            self._refusals.pop(run_id, None)
        for run_id, refusal in done.refused.items():
            self._refused.inc()
            self._refusals.setdefault(run_id, []).append(refusal)
        if done.unopened:
            self._accounts.forget()
            await self._limits.reload()
        moved = [one.state for one in batch if one.state.run_id in done.moved]
        return [fact for row in done.soft for state in moved for fact in warnings(row, state)]

    def forget(self, run_id: UUID) -> None:
        """The facts of this run are handed back: what was refused may fit when they come again."""
        self._refusals.pop(run_id, None)


def _is_timer(item: Item) -> bool:
    return isinstance(item.fact, TimerFired)


def _applied(moved: Moved) -> list[ev.BudgetApplied]:
    return [entry.event for entry in moved.entries if isinstance(entry.event, ev.BudgetApplied)]
