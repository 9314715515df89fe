"""Gates in memory, as those see them who decide: open ones oldest first, closed ones newest first."""

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_testing.tables.table_database import TableSession

Row = dict[str, Any]


class GateTable(dict[UUID, Row]):
    """Gates by their ids, with the indexes that the table has: those that wait, and those of a run.

    A world may hold many gates that were settled long ago; nothing that is asked with every step looks at them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[UUID, Row] = {}
        self._of_run: dict[UUID, list[Row]] = defaultdict(list)

    def add(self, gate: Row) -> None:
        """Add a gate, unless it is there."""
        if gate["gate_id"] in self:
            return
        self[gate["gate_id"]] = gate
        self._of_run[gate["run_id"]].append(gate)
        if gate["status"] == "pending":
            self.waiting[gate["gate_id"]] = gate

    def close(self, gate: Row, **changes: Any) -> None:
        """Change a gate that waits no more."""
        gate.update(changes)
        self.waiting.pop(gate["gate_id"], None)

    def of_run(self, run_id: UUID) -> list[Row]:
        """Return every gate of a run."""
        return self._of_run.get(run_id, [])


class GateRows:
    """Reads the gates that `RunRows` holds."""

    runs: dict[UUID, Row]
    gates: GateTable

    def list_gates(
        self,
        _session: TableSession,
        project: str,
        status: str | None,
        run_id: UUID | None,
        gate_id: UUID | None,
        paused: bool,
        after: UUID | None,
        limit: int,
        root_run_id: UUID | None,
        tool: str | None,
        rule: str | None,
        network: str | None,
        assigned_to: list[str] | None = None,
        _looked_at: int = 0,
    ) -> list[Row]:
        begin = None if after is None else self.gates[after]
        fits = [
            {**gate, "votes": None}
            for gate in (self.gates.waiting if status == "pending" else self.gates).values()
            if gate["project"] == project
            and status in (None, gate["status"])
            and run_id in (None, gate["run_id"])
            and gate_id in (None, gate["gate_id"])
            and (paused or gate["gate_type"] not in NO_QUESTIONS)
            and root_run_id in (None, gate["run_id"], self.runs[gate["run_id"]].get("root_run_id"))
            and network in (None, gate["network"])
            and (assigned_to is None or gate.get("assigned_to", "") in assigned_to)
            and all(value in (None, _said(gate, name)) for name, value in (("tool", tool), ("rule", rule)))
            and (begin is None or (gate["opened_at"], gate["gate_id"]) > (begin["opened_at"], begin["gate_id"]))
        ]
        return sorted(fits, key=lambda gate: (gate["opened_at"], gate["gate_id"]))[:limit]

    def delegate_gate(
        self, _session: TableSession, gate_id: UUID, project: str, to: str, by: str, reason: str
    ) -> UUID | None:
        gate = self.gates.get(gate_id)
        if gate is None or gate["project"] != project or gate["status"] != "pending":
            return None
        gate |= {"assigned_to": to, "assigned_by": by, "assigned_reason": reason}
        return gate_id

    def gates_of_any_status(self, session: TableSession, *values: Any) -> list[Row]:
        return self.list_gates(session, *values)

    def gates_of_status_looked_at(
        self, _session: TableSession, _project: str, _status: str | None, _after: UUID | None, _looked_at: int
    ) -> UUID | None:
        """Return None: the lists of these tables look at all gates."""
        return None

    gates_looked_at = gates_of_status_looked_at

    def gates_of_runs(self, session: TableSession, *values: Any) -> list[Row]:
        return self.list_gates(session, *values)

    def closed_gates(
        self,
        session: TableSession,
        project: str,
        after: UUID | None,
        status: str | None,
        run_id: UUID | None,
        tool: str | None,
        rule: str | None,
        network: str | None,
        limit: int,
        _looked_at: int,
    ) -> list[Row]:
        fits = self.list_gates(session, project, status, run_id, None, True, None, 10**9, None, tool, rule, network)
        closed = [gate for gate in fits if gate["status"] != "pending"]
        begin = None if after is None else (self.gates[after]["closed_at"], after)
        behind = [gate for gate in closed if begin is None or (gate["closed_at"], gate["gate_id"]) < begin]
        return sorted(behind, key=lambda gate: (gate["closed_at"], gate["gate_id"]), reverse=True)[:limit]

    def gates_alike(
        self, session: TableSession, project: str, tool: str, rule: str, after: UUID | None, limit: int
    ) -> list[Row]:
        return self.closed_gates(session, project, after, None, None, tool, rule, None, limit, 0)


def _said(gate: Row, name: str) -> str:
    """Return a generated column of a gate."""
    return str(json.loads(gate["detail"]).get(name) or "")[:200]
