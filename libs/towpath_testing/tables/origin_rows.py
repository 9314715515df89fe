"""What the tool-access service reads of a run to find where values come from, in memory.

As the SQL: the first event and no other; calls that were let through or denied and are not known yet, in the order of
their steps; and events about answers behind a place in the log.
"""

from typing import Any
from uuid import UUID

from towpath_tas.adapters.origin_tables import QUERIES
from towpath_testing.tables.ledger_rows import LedgerRows
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.table_database import TableDatabase, TableSession

Row = dict[str, Any]
TOLD = (
    "run_id",
    "execution_id",
    "project",
    "tool",
    "tool_version",
    "step",
    "effect_class",
    "toolset",
    "status",
    "fact",
)
ANSWERED = ("child_started", "child_ended", "note_given")
OWN = '"worker":"platform"'
DECIDED = ("permitted", "started", "unknown", "succeeded", "failed", "denied")


class OriginRows:
    """Tasks and outputs, as they stand in the tables of the others."""

    def __init__(self, database: TableDatabase, ledger: LedgerRows, runs: RunRows) -> None:
        self._ledger = ledger
        self._runs = runs
        database.statements |= {text: getattr(self, name) for name, text in QUERIES._statements.items()}

    def read_tasks(self, _session: TableSession, run_ids: list[UUID]) -> list[Row]:
        first = ((run_id, self._runs.events[run_id].get(1)) for run_id in run_ids)
        return [{"run_id": r, "created": row["event"]} for r, row in first if row and row["type"] == "run_created"]

    def read_outputs(
        self, _session: TableSession, run_ids: list[UUID], known: list[UUID], most: int, places: list[int | None]
    ) -> list[Row]:
        found = []
        for run_id, place in zip(run_ids, places, strict=True):
            calls = [self._ledger.calls[key] for key in self._ledger.by_run[run_id] if key not in known]
            over = [call for call in calls if call["status"] in DECIDED]
            over.sort(key=lambda call: (call["step"], call["call_index"]))
            for call in over[:most]:
                asked = call.get("asked_args")
                args = {"args": asked or call["args"], "edited_args": call["args"] if asked else None}
                found.append({name: call[name] for name in TOLD} | args | {"seq": None})
            if place is not None:
                found += self._answers(run_id, place)[:most]
        return found

    def _answers(self, run_id: UUID, place: int) -> list[Row]:
        logged = sorted((seq, row) for seq, row in self._runs.events[run_id].items() if seq > place)
        return [
            {"run_id": run_id, "seq": seq, "fact": row["event"]}
            for seq, row in logged
            if row["type"] in ANSWERED or (row["type"] == "tool_call_finished" and OWN in row["event"])
        ]

    def spec_of(self, _session: TableSession, project: str, name: str, _version: int) -> list[Row]:
        return [{"spec": row["spec"]} for row in self._ledger.tools_of[project] if row["name"] == name]

    def head_of_blob(self, _session: TableSession, project: str, digest: str, most: int) -> list[Row]:
        data = self._runs.blobs.get((project, digest))
        return [] if data is None else [{"size": len(data), "head": data[:most]}]
