"""The table of switches in memory, and what the statements about it do.

As the SQL: setting a switch and moving the registry's version are one commit. And what must hold of them: no call
is stored as sent out, or as begun, while a switch holds it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from towpath_contracts.switches import ActiveSwitch
from towpath_tas.adapters import ledger_tables
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.calls.stop_switches import SWITCHES
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.switches import OpenSwitches
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.table_database import TableDatabase, TableSession

Row = dict[str, Any]
Place = tuple[str, str, str]


class SwitchRows:
    """What is paused."""

    def __init__(
        self, database: TableDatabase, ledger: LedgerRows, runs: RunRows, complain: Callable[[str], None]
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.runs = runs
        self._complain = complain
        ledger.on_change = self._look
        self.open: dict[Place, Row] = {}
        names = SWITCHES._statements
        database.statements |= {text: getattr(self, name) for name, text in names.items()}
        database.statements[QUERIES.lock_project] = self.lock_project
        database.statements[QUERIES.move_registry] = self.move_registry
        database.statements[QUERIES.add_audit] = self.add_audit

    def open_switches(self, _session: TableSession | None, project: str) -> list[Row]:
        found = [row for place, row in self.open.items() if place[0] == project]
        return sorted(found, key=lambda row: (row["paused_at"], row["switch_id"]))

    def find_switch(self, _session: TableSession, *place: str) -> list[Row]:
        found = self.open.get(_place(place))
        return [] if found is None else [found]

    def pause(self, session: TableSession, *values: Any) -> list[Row]:
        place = _place(values)
        if place in self.open:
            return []
        switch_id, reason, by = values[3:]
        row = {"switch_id": switch_id, "kind": place[1], "name": place[2], "reason": reason, "paused_by": by}
        row["paused_at"] = self.database.now()
        session.write(lambda: self.open.__setitem__(place, row))
        return [row]

    def resume(self, session: TableSession, *values: Any) -> list[Row]:
        found = self.open.get(_place(values))
        if found is None:
            return []
        session.write(lambda: self._close(_place(values)))
        return [found]

    def _close(self, place: Place) -> None:
        self.open.pop(place, None)

    def snapshots(self, _session: TableSession, digests: list[str]) -> list[Row]:
        known = self.runs.snapshots
        return [{"digest": digest, "snapshot": known[digest]} for digest in digests if digest in known]

    def running_calls(
        self, _session: TableSession, project: str, run_id: UUID, execution_id: UUID, most: int
    ) -> list[Row]:
        begun = [call for call in self.ledger.calls.values() if call["status"] in ("permitted", "started")]
        after = [call for call in begun if (call["run_id"], call["execution_id"]) > (run_id, execution_id)]
        none = dict.fromkeys(ledger_tables._EDIT)
        found = [none | call for call in after if call["project"] == project]
        return sorted(found, key=lambda call: (call["run_id"], call["execution_id"]))[:most]

    def lock_project(self, session: TableSession, project: str) -> list[Row]:
        self.database.locks.take(session, ("project", project))
        policy, registry = self.ledger.versions.get(project, (0, 0))
        return [{"policy_version": policy, "registry_version": registry}]

    def move_registry(self, session: TableSession, project: str) -> list[Row]:
        def move() -> None:
            policy, registry = self.ledger.versions.get(project, (0, 0))
            self.ledger.versions[project] = (policy, registry + 1)

        session.write(move)
        return []

    def add_audit(self, session: TableSession, entries: list[tuple[Any, ...]]) -> list[Row]:
        for entry in entries:
            session.write(partial(self.database.seen.note, entry[4].replace(".", "_")))
        return []

    def _look(self, before: Row, after: Row) -> None:
        attempts = before.get("status") != "permitted" or before["attempt"] != after["attempt"]
        sent = after["status"] == "permitted" and attempts
        begun = after["status"] == "started" and len(after["claims"]) > len(before["claims"])
        if after["status"] == "requested" and before.get("status") != "requested":
            self.database.seen.note("call_held")
        if (sent or begun) and self.holds(after):
            self._complain(f"{after['execution_id']} became {after['status']} while a switch held it")

    def holds(self, call: Row) -> bool:
        """Return whether anything holds *call* now."""
        rows = self.open_switches(None, call["project"])
        principal = CallPrincipal(
            call["network"], call["agent_key"], call["agent_type"], call["caller"], call["project"]
        )
        return OpenSwitches(ActiveSwitch(**row) for row in rows).find(principal, call["tool"]) is not None


def _place(values: tuple[Any, ...]) -> Place:
    project, kind, name = values[:3]
    return (project, kind, name)
