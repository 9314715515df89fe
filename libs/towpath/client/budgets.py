"""Budgets over HTTP: `client.budgets.show()` and `set()`."""

from typing import Any
from uuid import UUID

from towpath.client.transport import Transport
from towpath_contracts.budgets import Budget, BudgetAccounts, BudgetKind, BudgetSet


class Budgets:
    """What may be spent in the credential's project, and what is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def show(self, *, caller: str | None = None, run_id: UUID | str | None = None) -> BudgetAccounts:
        """Return the accounts that people have limited, those of one *caller*, or those of one run."""
        given = {"caller": caller, "run_id": None if run_id is None else str(run_id)}
        query = {name: value for name, value in given.items() if value is not None}
        return BudgetAccounts.model_validate(await self._transport.request("GET", "/v1/budgets", query=query))

    async def set(
        self, kind: BudgetKind, name: str | None, budget: Budget | None, *, per_day: bool = False, reason: str = ""
    ) -> BudgetSet:
        """Limit a caller or the project (its *name* may be left out); without a *budget* the limit is lifted.

        Needs the role `operator`. A limit *per_day* counts each UTC day by itself.
        """
        body: dict[str, Any] = {"kind": kind, "per_day": per_day, "reason": reason}
        if name is not None:
            body["name"] = name
        if budget is not None:
            body["budget"] = budget.model_dump(mode="json", exclude_none=True)
        return BudgetSet.model_validate(await self._transport.request("POST", "/v1/budgets", body=body))
