"""The accounts in Postgres: opened before they are first spent from, changed by the commit of a batch.

What a transition reserves, gives back and spends is written by the statement that moves its run, or not at all.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from towpath_contracts.budgets import NOTHING, UNITS, Amounts, BudgetRefusal, RunBudgetAccount
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events.log import BudgetAccountsApplied
from towpath_contracts.facts import BudgetWarnedFact
from towpath_engine.requests.effects import model_for
from towpath_engine.state.budget import BudgetState, account_changes, new_reservations
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries

BUDGETS = Queries.load("towpath_orchestrator.adapters", "budgets.sql")

ACCOUNTS_KNOWN = 20_000
"""Accounts of which this process remembers that they are open; one it forgot costs one insert that does nothing."""


@dataclass(slots=True)
class BudgetBatchResult:
    """What became of a batch of spending: which runs moved on, and which did not fit.

    What became of a batch: which runs moved on, which did not fit (for good, or beside the others of the batch).

    `unopened` are runs of which an account is missing; `soft` are rows of accounts of which much is spent.
    """

    moved: set[UUID] = field(default_factory=set)
    refused: dict[UUID, BudgetRefusal] = field(default_factory=dict)
    crowded: set[UUID] = field(default_factory=set)
    unopened: set[UUID] = field(default_factory=set)
    soft: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "BudgetBatchResult") -> None:
        """Take over what became of another batch."""
        self.moved |= other.moved
        self.refused |= other.refused
        self.crowded |= other.crowded
        self.unopened |= other.unopened
        self.soft += other.soft

    @property
    def short(self) -> set[UUID]:
        """The runs that stayed where they are, and are what this process thinks they are."""
        return {*self.refused, *self.crowded, *self.unopened}


def read_batch_result(rows: Iterable[Any]) -> BudgetBatchResult:
    """Read what `commit_batch` returned."""
    done = BudgetBatchResult()
    for row in rows:
        if row["what"] == "moved":
            done.moved.add(row["run_id"])
        elif row["what"] == "soft":
            done.soft.append(json.loads(row["detail"]))
        else:
            _read_short(done, row["run_id"], json.loads(row["detail"]))
    return done


def _read_short(done: BudgetBatchResult, run_id: UUID, detail: dict[str, Any]) -> None:
    if detail["missing"]:
        done.unopened.add(run_id)
    elif detail["alone"]:
        names = {"scope": detail["scope"], "key": detail["key"], "unit": detail["unit"], "limit": detail["most"]}
        unpriced = detail["unpriced"] or ""
        refusal = BudgetRefusal(
            **names, spent=detail["spent"], reserved=detail["reserved"], wanted=detail["asked"], unpriced=unpriced
        )
        known = done.refused.get(run_id)
        if known is None or (known.scope, known.key, known.unit) > (refusal.scope, refusal.key, refusal.unit):
            done.refused[run_id] = refusal
    else:
        done.crowded.add(run_id)


def charge_rows(before: RunState | None, after: RunState) -> list[dict[str, Any]]:
    """Return by how much a transition changes each account; `asked` is what it reserves for what is asked now.

    `unpriced` names the model that is asked where its price is unknown: what has a limit of money then refuses it.
    """
    budget = after.budget
    if budget is None:
        return []
    old = before.budget if before is not None else None
    asked, unpriced = _asked(old, budget), _unpriced(old, after, budget)
    rows = []
    for one in account_changes(old, budget):
        wanted = asked.get((one.scope, one.key), NOTHING)
        row: dict[str, Any] = {"run_id": str(after.run_id), "project": after.created.project}
        row |= {"scope": one.scope, "key": one.key}
        row["unpriced"] = unpriced if (one.scope, one.key) in asked else ""
        for unit in UNITS:
            row[f"{unit}_asked"] = getattr(wanted, unit)
            row[f"{unit}_freed"] = getattr(wanted, unit) - getattr(one.reserved, unit)
            row[f"{unit}_spent"] = getattr(one.spent, unit)
            row[f"{unit}_estimated"] = getattr(one.estimated, unit)
        rows.append(row)
    return rows


def _asked(before: BudgetState | None, after: BudgetState) -> dict[tuple[str, str], Amounts]:
    asked: dict[tuple[str, str], Amounts] = {}
    for hold in new_reservations(before, after):
        for number in hold.accounts:
            account = after.accounts[number]
            name = (account.scope, account.key)
            asked[name] = asked.get(name, NOTHING).plus(hold.amounts)
    return asked


def _unpriced(before: BudgetState | None, state: RunState, after: BudgetState) -> str:
    """Return the model that is asked now where nobody knows its price; at most one is asked at a time."""
    for hold in new_reservations(before, after):
        model = model_for(state, DecisionKind(state.asked)) if hold.amounts.model_calls else ""
        if model and model not in after.prices:
            return model
    return ""


class BudgetAccountOpener:
    """Opens accounts before a batch first spends from them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def open(
        self, lane: PinnedDatabaseConnection, charged: Iterable[tuple[RunState, Iterable[BudgetAccountsApplied]]]
    ) -> None:
        """Open the accounts that these events name, where this process does not know that they are open."""
        own: list[dict[str, Any]] = []
        shared: list[dict[str, Any]] = []
        for state, events in charged:
            for scope in (scope for event in events for scope in event.scopes):
                place = (state.created.project, scope.scope, scope.key)
                if place not in self._known:
                    (own if scope.limits is not None else shared).append(_opened(state.created.project, scope))
        if own:
            await lane.fetch(BUDGETS.open_own_accounts, json.dumps(own))
        if shared:
            await lane.fetch(BUDGETS.open_shared_accounts, json.dumps(shared))
        for row in (*own, *shared):
            self._known[row["project"], row["scope"], row["key"]] = None
        while len(self._known) > ACCOUNTS_KNOWN:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Believe of no account any more that it is open."""
        self._known.clear()


def _opened(project: str, scope: RunBudgetAccount) -> dict[str, Any]:
    row: dict[str, Any] = {"project": project, "scope": scope.scope, "key": scope.key}
    if scope.limits is not None:
        return {**row, **scope.limits.model_dump(), "soft": scope.soft, "on_soft": scope.on_soft}
    kind, name = str(scope.scope), scope.key
    if scope.scope == "day":
        _day, kind, name = scope.key.split("/", 2)
    return {**row, "kind": kind, "name": name, "per_day": scope.scope == "day"}


def budget_warnings(row: dict[str, Any], state: RunState) -> list[BudgetWarnedFact]:
    """Return the warnings about the account in *row* that a run which spends from it does not have yet."""
    budget = state.budget
    if budget is None or state.is_final or state.created.project != row["project"]:
        return []
    if not any(budget.accounts[n].scope == row["scope"] and budget.accounts[n].key == row["key"] for n in budget.path):
        return []
    found = []
    for unit in UNITS:
        limit, spent = row[f"{unit}_limit"], row[f"{unit}_spent"]
        known = f"{row['scope']}:{row['key']}:{unit}" in budget.warned
        if limit is not None and spent > 0 and spent >= row["soft"] * limit and not known:
            names: dict[str, Any] = {"scope": row["scope"], "key": row["key"], "unit": unit}
            found.append(
                BudgetWarnedFact(run_id=state.run_id, **names, limit=limit, spent=spent, on_soft=row["on_soft"])
            )
    return found
