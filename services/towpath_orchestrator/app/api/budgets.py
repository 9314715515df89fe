"""Budgets as people set and see them: limits of callers, projects and days, and what is spent of them.

Who sets a limit is in the audit before it holds. A limit never changes what was spent. A change holds up the runs of
all projects for a moment, so changes are made one after the other, in turns of projects and not too often.
"""

import asyncio
from typing import Any

from towpath_contracts.budgets import (
    UNITS,
    BudgetAccount,
    BudgetAccountList,
    BudgetSet,
    BudgetUnitBalance,
    SetBudget,
    ShowBudgets,
    SpendingLimits,
)
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.switches import OPERATOR
from towpath_fabric.clock import monotonic
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.adapters.budget_store import BUDGETS
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.audited_actions import record_action
from towpath_orchestrator.app.budget_limits import BudgetLimitCache

MOST = 1_000
"""Limits of one project, and accounts in one answer: each change has the limits of all projects read anew."""

CHANGES_EVERY_S = 0.2
"""Between two changes: what was folded before one is folded again behind it, whosever run it is of."""

WAIT_S = 3.0
"""How long a change waits for its turn: its caller waits for an answer for five seconds."""


class BudgetRequests:
    """Answers `svc.orchestrator.set_budget` and `show_budgets`."""

    def __init__(self, pool: Database, bus: MessageBus, limits: BudgetLimitCache) -> None:
        self._pool = pool
        self._bus = bus
        self._limits = limits
        self._turns = WorkTurns(1, lambda _: 1, WAIT_S)
        self._next_at = 0.0

    async def set(self, request: SetBudget) -> BudgetSet:
        """Limit a caller or the project, or lift its limit; needs the role `operator`.

        Raises ProblemError `overloaded` where too many changes come before it, `limit_exceeded` for one limit too many.
        """
        if OPERATOR not in request.roles:
            raise ProblemError(problem("role_missing", f"{request.actor} does not have the role {OPERATOR}"))
        if request.kind == "project" and request.name != request.project:
            raise ProblemError(problem("not_found", f"this credential is of project {request.project}"))
        async with self._turns.held(request.project):
            await asyncio.sleep(max(0.0, self._next_at - monotonic()))
            await self._audit(request)
            changed = await self._store(request)
            self._next_at = monotonic() + CHANGES_EVERY_S
            await self._limits.reload()
        rows = await self._pool.fetch(BUDGETS.shared_accounts, request.project, None, MOST)
        wanted = ("day" if request.per_day else request.kind, request.name)
        found = next((row for row in rows if (row["scope"], row["key"].rpartition("/")[2]) == wanted), None)
        return BudgetSet(account=None if found is None else _account(found), changed=changed)

    async def _audit(self, request: SetBudget) -> None:
        budget = None if request.budget is None else request.budget.model_dump(mode="json")
        await record_action(
            self._bus,
            request,
            "budget.set" if request.budget is not None else "budget.lifted",
            reason=request.reason,
            kind=request.kind,
            name=request.name,
            per_day=request.per_day,
            budget=budget,
        )

    async def _store(self, request: SetBudget) -> bool:
        limited = (request.project, request.kind, request.name, request.per_day)
        budget = request.budget
        limits = SpendingLimits() if budget is None else budget.limits()
        amounts = [getattr(limits, unit) for unit in UNITS]
        soft, on_soft = (1.0, "warn") if budget is None else (budget.soft, budget.on_soft)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(BUDGETS.raise_version)
            if budget is None:
                changed = await connection.fetchval(BUDGETS.lift_limit, *limited) is not None
            else:
                set_by = (request.actor, request.reason, MOST)
                changed = await connection.fetchval(BUDGETS.set_limit, *limited, *amounts, soft, on_soft, *set_by)
                if not changed:
                    detail = f"{request.project} has {MOST} limits; lift one that is not needed any more"
                    raise ProblemError(problem("limit_exceeded", detail))
            await connection.execute(BUDGETS.copy_limit, *limited, *amounts, soft, on_soft)
        return changed

    async def show(self, request: ShowBudgets) -> BudgetAccountList:
        """Show accounts: of a run, of a caller, or all that is limited in the project."""
        if request.run_id is None:
            rows = await self._pool.fetch(BUDGETS.shared_accounts, request.project, request.caller, request.limit)
            return BudgetAccountList(accounts=tuple(_account(row) for row in rows))
        if await self._pool.fetchrow(QUERIES.run_seq, request.run_id, request.project) is None:
            raise ProblemError(problem("run_not_found", f"no run {request.run_id} in the project {request.project}"))
        root = await self._pool.fetchval(BUDGETS.budget_root, request.run_id)
        rows = await self._pool.fetch(BUDGETS.run_accounts, request.project, root, request.limit)
        return BudgetAccountList(accounts=tuple(_account(row) for row in rows))


def _account(row: Any) -> BudgetAccount:
    return BudgetAccount(
        scope=row["scope"],
        key=row["key"],
        units=tuple(_unit(row, unit) for unit in UNITS),
        soft=row["soft"],
        on_soft=row["on_soft"],
        set_by=row["set_by"],
        set_at=row["set_at"],
    )


def _unit(row: Any, unit: Any) -> BudgetUnitBalance:
    limit, spent, reserved = row[f"{unit}_limit"], row[f"{unit}_spent"], row[f"{unit}_reserved"]
    return BudgetUnitBalance(
        unit=unit,
        limit=limit,
        spent=spent,
        reserved=reserved,
        left=None if limit is None else max(0, limit - spent - reserved),
        estimated=row[f"{unit}_estimated"],
    )
