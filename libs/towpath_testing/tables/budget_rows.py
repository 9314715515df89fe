"""The accounts of schema `runs` in memory, and what the statements of budgets.sql do to them.

The same conditions as in budgets.sql: runs of one batch are taken in turn, those that only give back first, and
one that does not fit is left out.
"""

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from towpath_contracts.budgets import UNITS
from towpath_orchestrator.adapters.budget_store import BUDGETS
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.table_database import TableDatabase, TableSession

Row = dict[str, Any]
Place = tuple[str, str, str]


class BudgetRows:
    """Limits that people set, and accounts. `unguarded` takes the condition away: a mutant."""

    def __init__(self, database: TableDatabase, runs: RunRows) -> None:
        self.database = database
        self.runs = runs
        self.version = 0
        self.limits: dict[tuple[str, str, str, bool], Row] = {}
        self.accounts: dict[Place, Row] = {}
        self.worst: dict[Place, dict[str, int]] = defaultdict(dict)
        self.unguarded = False
        database.statements |= {
            BUDGETS.limits: self.all_limits,
            BUDGETS.open_own_accounts: self.open_own,
            BUDGETS.open_shared_accounts: self.open_shared,
            BUDGETS.forget_past_days: runs.nothing,
            QUERIES.commit_batch: self.commit,
        }

    def limit(self, project: str, kind: str, name: str, *, per_day: bool = False, **amounts: int) -> None:
        """Set a limit, as `set_limit` and `copy_limit` do it."""
        row: Row = {unit: amounts.get(unit) for unit in UNITS} | {"soft": 0.8, "on_soft": "warn"}
        self.limits[project, kind, name, per_day] = row
        self.version = self.runs.budget_version = self.version + 1
        for (owner, scope, key), account in self.accounts.items():
            day = scope == "day" and key == f"{self.database.now():%Y-%m-%d}/{kind}/{name}"
            if owner == project and (day if per_day else (scope, key) == (kind, name)):
                account.update({f"{unit}_limit": row[unit] for unit in UNITS})

    def all_limits(self, _session: TableSession) -> list[Row]:
        rows = [
            {"version": self.version, "project": p, "kind": k, "name": n, "per_day": d, **row}
            for (p, k, n, d), row in self.limits.items()
        ]
        return rows or [{"version": self.version, "project": None}]

    def open_own(self, _session: TableSession, rows: str) -> list[Row]:
        for row in json.loads(rows):
            self._open(row, {unit: row[unit] for unit in UNITS}, row["soft"], row["on_soft"])
        return []

    def open_shared(self, _session: TableSession, rows: str) -> list[Row]:
        for row in json.loads(rows):
            limit = self.limits.get((row["project"], row["kind"], row["name"], row["per_day"]))
            if limit is not None:
                self._open(row, {unit: limit[unit] for unit in UNITS}, limit["soft"], limit["on_soft"])
        return []

    def _open(self, row: Row, limits: Row, soft: float, on_soft: str) -> None:
        place = (row["project"], row["scope"], row["key"])
        if place not in self.accounts:
            self.database.seen.note(f"account_{row['scope']}")
            counted = {f"{unit}_{what}": 0 for unit in UNITS for what in ("spent", "reserved", "estimated")}
            names = {"project": place[0], "scope": place[1], "key": place[2], "soft": soft, "on_soft": on_soft}
            self.accounts[place] = {**names, **{f"{unit}_limit": limits[unit] for unit in UNITS}, **counted}

    def commit(self, session: TableSession, *v: Any) -> list[Row]:
        """`commit_batch`: runs that do not fit are left out, the others move and are charged."""
        if self.runs.outdated(v[22]):
            return []
        wanted = dict(zip(v[0], v[1], strict=True))
        charges: list[Row] = [
            row for row in json.loads(v[28]) if self._is_at(UUID(row["run_id"]), wanted[UUID(row["run_id"])])
        ]
        short = [] if self.unguarded else self._short(charges)
        left_out = {UUID(one["run_id"]) for one in short}
        columns = list(zip(*[row for row in zip(*v[:13], strict=True) if row[0] not in left_out], strict=True))
        kept = [list(column) for column in columns] if columns else [[] for _ in range(13)]
        moved = {row["run_id"] for row in self.runs.commit_batch(session, *kept, *v[13:])}
        changed = self._charge([row for row in charges if UUID(row["run_id"]) in moved])
        rows: list[Row] = [{"what": "moved", "run_id": run_id, "detail": None} for run_id in moved]
        rows += [{"what": "short", "run_id": UUID(one["run_id"]), "detail": json.dumps(one)} for one in short]
        rows += [{"what": "soft", "run_id": None, "detail": json.dumps(row)} for row in changed if _much(row)]
        return rows

    def _is_at(self, run_id: UUID, seq: int) -> bool:
        return run_id in self.runs.runs and self.runs.runs[run_id]["seq"] == seq

    def _short(self, charges: list[Row]) -> list[Row]:
        so_far: dict[tuple[Place, str], int] = defaultdict(int)
        short = []
        unsure = {row["run_id"] for row in charges if self._may_stay(row)}
        for row in sorted(charges, key=lambda one: (one["run_id"] in unsure, one["run_id"])):
            place = (row["project"], row["scope"], row["key"])
            account = self.accounts.get(place)
            for unit in UNITS:
                own = row[f"{unit}_asked"] - row[f"{unit}_freed"] + row[f"{unit}_spent"]
                used_up = so_far[place, unit] + own
                so_far[place, unit] += max(0, own) if row["run_id"] in unsure else own
                row_of_run = {"run_id": row["run_id"], "scope": row["scope"], "key": row["key"], "unit": unit}
                if account is None:
                    short.append({**row_of_run, "missing": True, "alone": None})
                    continue
                most, used = account[f"{unit}_limit"], account[f"{unit}_spent"] + account[f"{unit}_reserved"]
                unpriced = row.get("unpriced") or None if unit == "usd_micros" and most is not None else None
                over = most is not None and row[f"{unit}_asked"] > 0 and most < used + used_up
                if over or unpriced:
                    alone = most < used + own or bool(unpriced)
                    amounts = {name: account[f"{unit}_{name}"] for name in ("spent", "reserved")}
                    amounts |= {"asked": row[f"{unit}_asked"], "most": most, "unpriced": unpriced}
                    short.append({**row_of_run, **amounts, "missing": False, "alone": alone})
                    self.database.seen.note("budget_short_alone" if alone else "budget_short_beside")
        return short

    def _may_stay(self, row: Row) -> bool:
        there = (row["project"], row["scope"], row["key"]) in self.accounts
        return not there or bool(row.get("unpriced")) or any(row[f"{u}_asked"] > 0 for u in UNITS)

    def _charge(self, charges: list[Row]) -> list[Row]:
        changed = {}
        for row in charges:
            place = (row["project"], row["scope"], row["key"])
            account = changed[place] = self.accounts[place]
            for unit in UNITS:
                account[f"{unit}_spent"] += row[f"{unit}_spent"]
                account[f"{unit}_reserved"] += row[f"{unit}_asked"] - row[f"{unit}_freed"]
                account[f"{unit}_estimated"] += row[f"{unit}_estimated"]
        for place, account in changed.items():  # the changes of one statement become visible together
            for unit in UNITS:
                used = account[f"{unit}_spent"] + account[f"{unit}_reserved"]
                self.worst[place][unit] = max(self.worst[place].get(unit, 0), used)
        return list(changed.values())


def _much(row: Row) -> bool:
    return any(
        row[f"{u}_limit"] is not None and 0 < row[f"{u}_spent"] >= row["soft"] * row[f"{u}_limit"] for u in UNITS
    )
