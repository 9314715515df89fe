"""What readers of one run ask the tables of schema `runs`: the statements of records.sql, and labels, in memory."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from towpath_contracts.switches import PAUSED
from towpath_testing.tables.gate_rows import GateTable
from towpath_testing.tables.table_database import TableDatabase, TableSession

Row = dict[str, Any]

ALIVE = ("queued", "running", "waiting", "cancelling")


class RunRecordRows:
    """Reads what `RunRows` holds, and changes the labels by which people find it."""

    database: TableDatabase
    runs: dict[UUID, Row]
    later: dict[UUID, UUID]
    """The run that continues another, by that other."""
    events: dict[UUID, dict[int, Row]]
    gates: GateTable

    def whole_run(self, _session: TableSession, run_id: UUID, project: str) -> list[Row]:
        run = self.runs.get(run_id)
        if run is None or run["project"] != project:
            return []
        found = json.loads(self.events[run_id][1]["event"]).get("forked_from")
        forked = {"forked_from": None if found is None else json.dumps(found)}
        return [{**run, "erased_at": None, **forked, "next_run_id": self._later(run_id)}]

    def earlier_run(self, _session: TableSession, run_id: UUID, project: str) -> list[Row]:
        run = self.runs.get(run_id)
        if run is None or run["project"] != project:
            return []
        about_files = ("workspace_changed", "run_forked")
        has_files = any(event["type"] in about_files for event in self.events[run_id].values())
        return [{**run, "erased_at": None, "created": self.events[run_id][1]["event"], "has_files": has_files}]

    def label_run(self, session: TableSession, project: str, run_id: UUID, added: str, removed: list[str]) -> list[Row]:
        def change() -> None:
            run = self.runs.get(run_id)
            if run is not None and run["project"] == project:
                left = {name: value for name, value in json.loads(run["labels"]).items() if name not in removed}
                run["labels"] = json.dumps(left | json.loads(added))

        session.write(change)
        return []

    def later_run(self, _session: TableSession, run_id: UUID) -> list[Row]:
        later = self._later(run_id)
        return [] if later is None else [{"run_id": later}]

    def _later(self, run_id: UUID) -> UUID | None:
        return self.later.get(run_id)

    def waits_of_run(self, _session: TableSession, run_id: UUID, limit: int) -> list[Row]:
        found: list[Row] = []
        below = [run_id]
        for one in below:
            alive = (
                child for child in self.runs.values() if child.get("parent_run_id") == one and child["status"] in ALIVE
            )
            below += [child["run_id"] for child in alive]
            gates = [gate for gate in self._open_gates() if gate["run_id"] == one]
            reasons = gates + self._postponed_decision(one) + self._postponed_call(one)
            found += [{**wait, "run_id": one, "agent_key": self.runs[one]["agent_key"]} for wait in reasons]
        nobody = datetime.max.replace(tzinfo=UTC)
        return sorted(found, key=lambda wait: (wait["run_id"] != run_id, wait.get("opened_at", nobody)))[:limit]

    def _postponed_decision(self, run_id: UUID) -> list[Row]:
        about = ("decision_postponed", "decision_requested", "decision_received", "decision_missed")
        events = (row for _, row in sorted(self.events[run_id].items(), reverse=True) if row["type"] in about)
        last = next(events, None)
        if last is None or last["type"] != about[0]:
            return []
        told = json.loads(last["event"])
        reason = f"{told.get('next_model') or told['model']} is asked again at {told['until']}: {told['message']}"
        waits = datetime.fromisoformat(told["until"]) > self.database.now()
        return [{"gate_type": "model", "reason": reason}] if waits else []

    def _postponed_call(self, run_id: UUID) -> list[Row]:
        told: Row | None = None
        settled: set[str] = set()
        for _, row in sorted(self.events[run_id].items(), reverse=True):
            if row["type"] in ("instruction_issued", "decision_requested"):
                break
            if row["type"] in ("effect_resent", "tool_call_finished", "tool_call_denied"):
                event = json.loads(row["event"])
                settled.add(event.get("execution_id") or event.get("effect_id") or "")
            if (
                row["type"] == "tool_call_postponed"
                and (event := json.loads(row["event"])).get("execution_id") not in settled
            ):
                told = event
                break
        if told is None:
            return []
        reason = f"{told['tool']} is asked for again at {told['until']}: {told['message']}"
        waits = datetime.fromisoformat(told["until"]) > self.database.now()
        return [{"gate_type": "quota", "reason": reason}] if waits else []

    def paused_gates(self, _session: TableSession, project: str, switch_id: str, after: UUID, limit: int) -> list[Row]:
        paused = [gate for gate in self._open_gates() if gate["gate_type"] == PAUSED and gate["project"] == project]
        held = [gate for gate in paused if json.loads(gate["detail"])["switch"]["switch_id"] == switch_id]
        return sorted((gate for gate in held if gate["gate_id"] > after), key=lambda gate: gate["gate_id"])[:limit]

    def _open_gates(self) -> list[Row]:
        return sorted(self.gates.waiting.values(), key=lambda gate: (gate["opened_at"], gate["gate_id"]))
