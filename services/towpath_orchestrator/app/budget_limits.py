"""The limits that people set, kept in memory.

They are a guess that nothing is built on: a transition is committed only while the version of the limits that it knows
of is the one in Postgres, and a run begins with those that are read together with the time. So a limit holds from the
moment it is set, on every replica. What is left of it stands in Postgres, in the account itself, and is checked there.
"""

from typing import Any

from towpath_contracts.budgets import UNITS, SpendingLimits
from towpath_fabric.ports import Database
from towpath_orchestrator.adapters.budget_store import BUDGETS
from towpath_orchestrator.core.budget_scopes import BudgetLimit, BudgetLimits, PriceOf


class BudgetLimitCache:
    """Reloads the limits when their version changes. One per process."""

    def __init__(self, pool: Database, price_of: PriceOf) -> None:
        self._pool = pool
        self.version = -1
        self.scopes = BudgetLimits(price_of)

    async def load(self) -> None:
        """Load the limits, unless they are loaded."""
        if self.version < 0:
            await self.reload()

    async def use_version(self, version: int) -> None:
        """Load the limits anew where theirs is another version."""
        if version != self.version:
            await self.reload()

    async def reload(self) -> None:
        rows = await self._pool.fetch(BUDGETS.limits)
        self.scopes.use((row["project"], _limit(row)) for row in rows if row["project"] is not None)
        self.version = rows[0]["version"]


def _limit(row: Any) -> BudgetLimit:
    return BudgetLimit(
        kind=row["kind"],
        name=row["name"],
        per_day=row["per_day"],
        limits=SpendingLimits(**{unit: row[unit] for unit in UNITS}),
        soft=row["soft"],
        on_soft=row["on_soft"],
    )
