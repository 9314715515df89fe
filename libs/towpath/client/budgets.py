"""What is limited, over HTTP: `client.budgets` with what was spent, `costs()`, and the project's `client.quotas`."""

from typing import Any, TypedDict, Unpack
from uuid import UUID

from pydantic import ValidationError

from towpath.client.transport import Transport
from towpath.errors import RefusedError
from towpath_contracts.budgets import (
    Budget,
    BudgetAccountList,
    BudgetKind,
    BudgetSet,
    OnSoft,
    ProjectQuota,
    QuotaStatus,
)
from towpath_contracts.problems.input_faults import details_of, summary_of
from towpath_contracts.problems.registry import ProblemDetail, problem
from towpath_contracts.runs.costs import CostPart, CostReport


class BudgetKeywords(TypedDict, total=False):
    """Of `client.budgets.set`: what may be spent, and from which share on who spends it is told."""

    usd: float | None
    tokens: int | None
    model_calls: int | None
    tool_calls: int | None
    soft: float | None
    on_soft: "OnSoft | None"


class BudgetResource:
    """What may be spent in the credential's project, and what is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def show(self, *, caller: str | None = None, run_id: UUID | str | None = None) -> BudgetAccountList:
        """Return the accounts that people have limited, those of one *caller*, or those of one run."""
        given = {"caller": caller, "run_id": None if run_id is None else str(run_id)}
        query = {name: value for name, value in given.items() if value is not None}
        return BudgetAccountList.model_validate(await self._transport.request("GET", "/v1/budgets", query=query))

    async def costs(self, *, by: CostPart = "network", since: str = "7d") -> CostReport:
        """Return what was spent on models, whole days (UTC): `since` is a number of them, as `7d`, or the first one."""
        query = {"by": by, "since": since}
        return CostReport.model_validate(await self._transport.request("GET", "/v1/costs", query=query))

    async def set(
        self,
        kind: BudgetKind,
        name: str | None = None,
        budget: Budget | None = None,
        *,
        per_day: bool = False,
        reason: str = "",
        **limits: Unpack[BudgetKeywords],
    ) -> BudgetSet:
        """Limit a caller or the project, whose *name* may be left out: `set("caller", "ann", tokens=2_000_000)`.

        *limits* are the words of the command line: `usd`, `tokens`, `model_calls`, `tool_calls`, and beside one of
        them `soft` and `on_soft`; or give a *budget*. A limit *per_day* counts each UTC day by itself. Needs the role
        `operator`. Raises RefusedError `request_invalid` with everything that is wrong.
        """
        if budget is not None and limits:
            raise RefusedError(problem("request_invalid", "give a budget, or its limits by name, not both"))
        wanted = budget_of({**limits}) if budget is None else budget
        return await self._set(kind, name, wanted, per_day=per_day, reason=reason)

    async def lift(
        self, kind: BudgetKind, name: str | None = None, *, per_day: bool = False, reason: str = ""
    ) -> BudgetSet:
        """Lift the limit of a caller or the project, or the one *per_day*; what is spent stays counted."""
        return await self._set(kind, name, None, per_day=per_day, reason=reason)

    async def _set(
        self, kind: BudgetKind, name: str | None, budget: Budget | None, *, per_day: bool, reason: str
    ) -> BudgetSet:
        body: dict[str, Any] = {"kind": kind, "per_day": per_day, "reason": reason}
        if name is not None:
            body["name"] = name
        if budget is not None:
            body["budget"] = budget.model_dump(mode="json", exclude_none=True)
        return BudgetSet.model_validate(await self._transport.request("POST", "/v1/budgets", body=body))


class QuotaResource:
    """How many runs the credential's project may have, how many tool calls a minute, and how much it may store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def show(self) -> QuotaStatus:
        """Return each limit, what is used of it, and when it is free again."""
        return QuotaStatus.model_validate(await self._transport.request("GET", "/v1/quota"))

    async def set(
        self,
        *,
        unfinished_runs: int | None = None,
        runs_per_day: int | None = None,
        tool_calls_per_minute: int | None = None,
        stored_bytes: int | None = None,
        reason: str = "",
    ) -> QuotaStatus:
        """Set the quota in place of the one before; what is None has no limit. Needs the role `operator`.

        Raises RefusedError `request_invalid` with everything that is wrong.
        """
        given = {
            "unfinished_runs": unfinished_runs,
            "runs_per_day": runs_per_day,
            "tool_calls_per_minute": tool_calls_per_minute,
            "stored_bytes": stored_bytes,
        }
        try:
            quota = ProjectQuota.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            details = details_of(error)
            raise RefusedError(problem("request_invalid", summary_of(details), errors=details)) from None
        return await self._set(quota, reason)

    async def lift(self, *, reason: str = "") -> QuotaStatus:
        """Lift the quota; what began today is not counted any more."""
        return await self._set(None, reason)

    async def _set(self, quota: ProjectQuota | None, reason: str) -> QuotaStatus:
        body: dict[str, Any] = {"reason": reason}
        if quota is not None:
            body["quota"] = quota.model_dump(mode="json", exclude_none=True)
        return QuotaStatus.model_validate(await self._transport.request("POST", "/v1/quota", body=body))


def budget_of(limits: dict[str, Any]) -> Budget:
    """Return the budget with these *limits*; those that are None are left out.

    Raises RefusedError `request_invalid` with every problem; an unknown word is refused with those that there are.
    """
    try:
        return Budget.model_validate({word: value for word, value in limits.items() if value is not None})
    except ValidationError as error:
        details = tuple(map(_with_amounts, details_of(error)))
        raise RefusedError(problem("request_invalid", summary_of(details), errors=details)) from None


def _with_amounts(found: ProblemDetail) -> ProblemDetail:
    if found.code != "extra_forbidden":
        return found
    return found.model_copy(update={"detail": f"no such limit; there are {', '.join(Budget.model_fields)}"})
