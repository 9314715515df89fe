"""The tables of schema `runs` in memory, and what the orchestrator's statements do to them.

The same conditions as in queries.sql: a run moves only from the seq that was expected, an event has its seq once,
a key makes one run. The names of the methods are those of the statements.
"""

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_testing.tables.gate_rows import GateRows, GateTable
from towpath_testing.tables.record_rows import ALIVE, RunRecordRows
from towpath_testing.tables.table_database import TableDatabase, TableSession, refuse_twice

ACTIVE = ("running", "cancelling")
HOLDER = ("project", "caller", "network")
CLAIMED_FOR = timedelta(seconds=5)

Row = dict[str, Any]

_TIMES = ("wake_at", "started_at")
_UNMOVED: Row = {"reason": "", "fence": 0, "ended_at": None, "outcome": None, "calls": "{}"}
_OF_NO_THREAD: Row = {"continues": None, "thread_id": None}
"""What a run is born with, where nothing else is said."""


class RunRows(RunRecordRows, GateRows):
    """Runs, their events, facts, gates, keys, snapshots and dead letters."""

    def __init__(self, database: TableDatabase) -> None:
        self.database = database
        self.runs: dict[UUID, Row] = {}
        self.later: dict[UUID, UUID] = {}
        self.events: dict[UUID, dict[int, Row]] = defaultdict(dict)
        self.facts: dict[UUID, dict[int, Row]] = defaultdict(dict)
        self.gates = GateTable()
        self.keys: dict[tuple[str, str, str], Row] = {}
        self.saved: dict[UUID, Row] = {}
        self.snapshots: dict[str, str] = {}
        self.versions: list[Row] = []
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.dead_letters: list[Row] = []
        self.failures: dict[tuple[str, int], int] = defaultdict(int)
        self.deaths: dict[tuple[str, int], int] = defaultdict(int)
        self.marks: dict[tuple[str, int], tuple[datetime, UUID]] = {}
        self.callers: dict[str, str] = {}
        self.over_at: dict[UUID, datetime] = {}
        self.ignore_seq = False
        self.budget_version = 0
        database.statements |= {
            text: getattr(self, name)
            for queries in (QUERIES, Queries.load("towpath_orchestrator.adapters", "records.sql"))
            for name, text in queries._statements.items()
            if hasattr(self, name)
        }

    def now(self, _session: TableSession) -> list[Any]:
        return [(self.database.now(),)]

    def now_and_budgets(self, _session: TableSession) -> list[Row]:
        return [{"now": self.database.now(), "budgets": self.budget_version, "quotas": 0}]

    def times(self, _session: TableSession, run_ids: list[UUID]) -> list[Row]:
        seen = {"now": self.database.now(), "budgets": self.budget_version}
        found: list[Row] = [{**seen, "run_id": r, "seq": self.runs[r]["seq"]} for r in run_ids if r in self.runs]
        return found or [{**seen, "run_id": None, "seq": None}]

    def commit_plain_batch(self, _session: TableSession, *v: Any) -> list[Row]:
        """Runs, events and facts; the last value is the version of the limits that the transitions know of."""
        return [{"what": "moved", "run_id": run_id, "detail": None} for run_id in self._move(*v)]

    def _move(self, *v: Any) -> dict[UUID, Any]:
        if self.outdated(v[22]):
            return {}
        names = ("run_id", "expected", "seq", "status", "reason", "fence", "wake_at", "agent_key", "step")
        wanted = {row[0]: row for row in zip(*v[:13], strict=True)}
        at = v[13]
        moved = {r: row for r, row in wanted.items() if r in self.runs and self._expected(r, row[1])}
        events = [row for row in zip(*v[14:18], strict=True) if row[0] in moved]
        facts = [row for row in zip(*v[18:21], strict=True) if row[0] in moved]
        for run_id, seq, _type, _text in events:
            if not self.ignore_seq:
                refuse_twice(self.events[run_id], seq, "run_event_pkey")
        for run_id, first, _text in facts:
            if not self.ignore_seq:
                refuse_twice(self.facts[run_id], first, "run_fact_pkey")
        for run_id, row in moved.items():
            values = dict(zip(names, row, strict=False))
            del values["expected"]
            ends = {"started_at": row[9], "ended_at": row[10], "outcome": row[11], "calls": row[12], "updated_at": at}
            if row[10] is not None and self.runs[run_id]["ended_at"] is None:
                self.over_at[run_id] = self.database.now()
            self.runs[run_id].update(values | ends)
        self._add_events(events, at)
        self._add_facts(facts, at, v[21])
        return moved

    def commit_batch(self, _session: TableSession, *v: Any) -> list[Row]:
        """Runs, events and facts, gates, children; `BudgetRows` does the charges."""
        moved, at = self._move(*v), v[13]
        self._gates(moved, at, json.loads(v[23]), json.loads(v[24]))
        self._start_children({str(run_id) for run_id in moved}, at, *v[25:27])
        return [{"what": "moved", "run_id": run_id, "detail": None} for run_id in moved]

    def _start_children(self, parents: set[str], at: datetime, runs: str, events: str) -> None:
        born = {row["run_id"]: row for row in json.loads(runs) if row["parent_run_id"] in parents}
        for name, row in born.items():
            times = {key: None if row[key] is None else datetime.fromisoformat(row[key]) for key in _TIMES}
            ids: Row = {key: UUID(row[key]) for key in ("run_id", "parent_run_id", "root_run_id")}
            ids |= {"trace_id": None if row["trace_id"] is None else UUID(row["trace_id"])}
            ends = {**_UNMOVED, **_OF_NO_THREAD, "created_at": at, "updated_at": at}
            self.runs[UUID(name)] = {**row, "labels": json.dumps(row["labels"]), **ids, **times, **ends}
            self.database.seen.note("child_born")
        first = [one for one in json.loads(events) if one["run_id"] in born]
        self._add_events([(UUID(one["run_id"]), one["seq"], one["type"], one["event"]) for one in first], at)

    def child_report(self, _session: TableSession, run_id: UUID, parent: UUID) -> list[Row]:
        run = self.runs.get(run_id)
        if run is None or run.get("parent_run_id") != parent:
            return []
        names = ("seq", "status", "reason", "outcome")
        return [{**{name: run[name] for name in names}, "ended": run["ended_at"] is not None}]

    def outdated(self, budgets: int) -> bool:
        """Return whether limits were set since version *budgets*."""
        if budgets != self.budget_version:
            self.database.seen.note("limits_moved")
        return budgets != self.budget_version

    def _expected(self, run_id: UUID, seq: int) -> bool:
        if self.runs[run_id]["seq"] == seq:
            return True
        self.database.seen.note("seq_conflict")
        return self.ignore_seq

    def _add_events(self, rows: list[Any], at: datetime) -> None:
        for run_id, seq, kind, text in rows:
            from_json(text)  # the column takes JSON alone
            self.events[run_id][seq] = {"run_id": run_id, "seq": seq, "at": at, "type": kind, "event": text}
            if self.database.seen.traces:
                self.database.seen.trace(f"{at:%H:%M:%S.%f} log {str(run_id)[-4:]} {seq} {kind} {text[:160]}")

    def _add_facts(self, rows: list[Any], at: datetime, version: str) -> None:
        for run_id, first, text in rows:
            self.facts[run_id][first] = {"first_seq": first, "at": at, "fact": text, "engine_version": version}

    def _gates(self, moved: dict[UUID, Any], at: datetime, opened: list[Row], closed: list[Row]) -> None:
        """All three parts see the table as it was before the statement, as CTEs do."""
        for gate in closed:
            found = self.gates.get(UUID(gate["gate_id"]))
            if UUID(gate["run_id"]) in moved and found is not None:
                verdict = {"status": gate["status"], "verdict": gate["verdict"], "closed_reason": gate["reason"]}
                self.gates.close(found, **verdict, closed_at=at, closed_by=gate["by"])
        named = {UUID(gate["gate_id"]) for gate in closed}
        for run_id in [run_id for run_id, row in moved.items() if row[10] is not None]:
            for left in self.gates.of_run(run_id):
                if left["status"] == "pending" and left["gate_id"] not in named:
                    self.gates.close(left, status="void", closed_at=at, closed_reason="the run ended")
        for gate in opened:
            if UUID(gate["run_id"]) in moved:
                self.gates.add(_gate_row(gate, at))
                self.database.seen.note(f"gate_{gate['gate_type']}")

    def create_runs(self, _session: TableSession, *v: Any) -> list[Row]:
        names: tuple[str, ...] = (
            *("run_id", "project", "network", "version", "snapshot_digest", "status", "seq", "wake_at", "caller"),
            *("priority", "agent_key", "step", "max_steps", "user_message", "labels", "debug", "started_at"),
        )
        at = v[19]
        made: set[UUID] = set()
        for row in zip(*v[:19], v[28], v[30], v[32], v[33], v[34], strict=True):
            values = dict(zip(names, row[:17], strict=True))
            key, digest = row[17], row[18]
            if row[20] is not None and self.runs[row[20]].get("erased_at") is not None:
                continue
            if row[21] is not None and row[21] in self.later:
                continue
            full = (values["project"], values["caller"], key)
            if key is not None and full in self.keys:
                continue
            if key is not None:
                self.keys[full] = {"run_id": values["run_id"], "request_digest": digest, "created_at": at}
            ends = {**_UNMOVED, "created_at": at, "updated_at": at}
            values["kind"] = row[19]
            values |= {"parent_run_id": None, "root_run_id": None, "depth": 0}
            values |= {"continues": row[21], "thread_id": row[22], "trace_id": row[23]}
            if row[21] is not None:
                self.later[row[21]] = values["run_id"]
            self.runs[values["run_id"]] = {**values, **ends}
            made.add(values["run_id"])
        self._add_events([row for row in zip(*v[20:24], strict=True) if row[0] in made], at)
        self._add_facts([row for row in zip(*v[24:27], strict=True) if row[0] in made], at, v[27])
        for gate in json.loads(v[31]):
            if UUID(gate["run_id"]) in made:
                self.gates.add(_gate_row(gate, at))
        return [{"run_id": run_id} for run_id in made]

    def idempotent_run(self, _session: TableSession, project: str, caller: str, key: str) -> list[Row]:
        found = self.keys.get((project, caller, key))
        if found is None:
            return []
        run = self.runs[found["run_id"]]
        fields = ("run_id", "trace_id", "project", "network", "version", "status", "created_at")
        created = json.loads(self.events[found["run_id"]][1]["event"])
        told = {"request_digest": found["request_digest"], "timeout_ms": created["timeout_ms"]}
        return [{**told, **{name: run[name] for name in fields}}]

    def forget_key(self, _session: TableSession, project: str, caller: str, key: str, run_id: UUID) -> list[Row]:
        if self.keys.get((project, caller, key), {}).get("run_id") == run_id:
            del self.keys[project, caller, key]
        return []

    def load_run(self, _session: TableSession, run_id: UUID, version: str) -> list[Row]:
        run = self.runs.get(run_id)
        if run is None:
            return []
        saved = self.saved.get(run_id)
        fits = saved is not None and saved["engine_version"] == version
        if fits:
            self.database.seen.note("loaded_from_snapshot")
        return [
            {
                "snapshot_digest": run["snapshot_digest"],
                "snapshot_seq": saved["seq"] if fits and saved else None,
                "state": saved["state"] if fits and saved else None,
                "task": self.events[run_id][1]["event"],
            }
        ]

    def load_tails(self, _session: TableSession, run_ids: list[UUID], after: list[int]) -> list[Row]:
        return [row for run_id, seen in sorted(zip(run_ids, after, strict=True)) for row in self._tail(run_id, seen)]

    def events_page(self, _session: TableSession, run_id: UUID, after: int, limit: int, _bytes: int) -> list[Row]:
        return self._tail(run_id, after)[:limit]

    def log_of(self, run_id: UUID) -> list[Row]:
        """Return the stored events of a run, in order."""
        return self._tail(run_id, 0)

    def _tail(self, run_id: UUID, after: int) -> list[Row]:
        return [row for seq, row in sorted(self.events[run_id].items()) if seq > after]

    def save_snapshot(self, _session: TableSession, run_id: UUID, seq: int, version: str, state: str) -> list[Row]:
        old = self.saved.get(run_id)
        if old is None or old["seq"] < seq or old["engine_version"] != version:
            self.saved[run_id] = {"seq": seq, "engine_version": version, "state": state}
        return []

    def park(self, _session: TableSession, run_id: UUID, reason: str) -> list[Row]:
        run = self.runs[run_id]
        if run["ended_at"] is None:
            run.update(status="quarantined", reason=reason, wake_at=None)
        return []

    def move_wake(self, _session: TableSession, ids: list[UUID], seqs: list[int], wakes: list[Any]) -> list[Row]:
        for run_id, seq, wake in zip(ids, seqs, wakes, strict=True):
            if self.runs[run_id]["seq"] == seq:
                self.runs[run_id]["wake_at"] = wake
        return []

    def claim_overdue(self, _session: TableSession, limit: int) -> list[Row]:
        now = self.database.now()
        due = [run for run in self.runs.values() if run["wake_at"] is not None and run["wake_at"] <= now]
        due.sort(key=lambda run: run["wake_at"])
        for run in due[:limit]:
            run["wake_at"] = now + CLAIMED_FOR
        return [{"run_id": run["run_id"]} for run in due[:limit]]

    def moved_lately(self, _session: TableSession, seconds: float, most: int) -> list[Row]:
        since = self.database.now() - timedelta(seconds=seconds)
        late = [run for run in self.runs.values() if run["status"] in ACTIVE and run["updated_at"] > since]
        late.sort(key=lambda run: run["updated_at"], reverse=True)
        return [{"run_id": run["run_id"]} for run in late[:most]]

    def load_counts(self, _session: TableSession, limit: int, most: int, many_wait: int) -> list[Row]:
        queued = [run for run in self.runs.values() if run["status"] == "queued"][:limit]
        waiting = Counter(run["project"] for run in self.runs.values() if run["status"] == "waiting")
        parents = {run.get("parent_run_id") for run in self.runs.values() if run["status"] in ALIVE}
        alone = [run for run in self.runs.values() if run["status"] in ACTIVE and run["run_id"] not in parents]
        held = Counter(tuple(run[name] for name in HOLDER) for run in alone)
        counts: Row = {"queued": len(queued), "budgets": self.budget_version}
        for name, whose in (("queues", "caller"), ("project_queues", "project")):
            lengths = Counter(run[whose] for run in queued)
            counts[name] = json.dumps({one: waits for one, waits in lengths.items() if waits * 100 >= most})
        counts["waiting"] = sum(min(waits, many_wait) for waits in waiting.values())
        counts["project_waiting"] = json.dumps({one: waits for one, waits in waiting.items() if waits >= many_wait})
        rows = [{**counts, **dict(zip(HOLDER, whose, strict=True)), "active": count} for whose, count in held.items()]
        return rows or [{**counts, **dict.fromkeys(HOLDER), "active": None}]

    def next_queued(self, _session: TableSession, room: int, *_rules: Any) -> list[Row]:
        """Fairness is not what is tested here: the oldest first."""
        waiting = sorted(run_id for run_id, run in self.runs.items() if run["status"] == "queued")
        return [{name: self.runs[run_id][name] for name in ("run_id", *HOLDER)} for run_id in waiting[:room]]

    def project_of_caller(self, _session: TableSession, caller: str) -> list[Row]:
        return [{"project": self.callers[caller]}] if caller in self.callers else []

    def network_version(self, _session: TableSession, project: str, name: str, version: int | None) -> list[Row]:
        fits = [
            row
            for row in self.versions
            if (row["project"], row["name"]) == (project, name) and version in (None, row["version"])
        ]
        return fits[-1:]

    def snapshot(self, _session: TableSession, digest: str) -> list[Row]:
        return [{"snapshot": self.snapshots[digest]}] if digest in self.snapshots else []

    def add_blob(self, _session: TableSession, project: str, digest: str, data: bytes, _size: int) -> list[Row]:
        self.blobs.setdefault((project, digest), data)
        return []

    def texts(self, _session: TableSession, project: str, digests: list[str], limit: int) -> list[Row]:
        held = {digest: data for digest in digests if (data := self.blobs.get((project, digest))) is not None}
        blobs = sorted(held.items(), key=lambda blob: (len(blob[1]), blob[0]))
        sized = zip(blobs, accumulate(len(data) for _, data in blobs), strict=True)
        return [{"digest": digest, "data": data} for (digest, data), total in sized if total <= limit]

    def output_event(self, _session: TableSession, run_id: UUID, beginnings: list[str]) -> list[Row]:
        texts = (row["event"] for row in self.events[run_id].values())
        return [{"event": text} for text in texts if text.startswith(tuple(beginnings))][:1]

    def get_blob(self, _session: TableSession, digest: str, run_id: UUID, start: int, size: int) -> list[Row]:
        run = self.runs.get(run_id)
        data = None if run is None else self.blobs.get((run["project"], digest))
        return [] if data is None else [{"bytes": len(data), "piece": data[start : start + size]}]

    def text_sizes(self, _session: TableSession, project: str, digests: list[str]) -> list[Row]:
        held = [(digest, self.blobs.get((project, digest))) for digest in digests]
        return [{"digest": digest, "size": len(data)} for digest, data in held if data is not None]

    def run_seq(self, _session: TableSession, run_id: UUID, project: str | None) -> list[Row]:
        run = self.runs.get(run_id)
        if run is None or project not in (None, run["project"]):
            return []
        return [{"seq": run["seq"], "status": run["status"], "erased_at": None}]

    def run_statuses(self, _session: TableSession, run_ids: list[UUID]) -> list[Row]:
        runs = [self.runs[run_id] for run_id in run_ids if run_id in self.runs]
        return [{name: run[name] for name in ("run_id", "project", "status", "seq")} for run in runs]

    def nothing(self, _session: TableSession, *_values: Any) -> list[Row]:
        """Housekeeping that no simulated run is long enough to need."""
        return []

    ensure_partitions = drop_empty_partitions = forget_old_keys = forget_failures = nothing

    def add_dead_letters(self, _session: TableSession, stream: str, _most: int, *columns: list[Any]) -> list[Row]:
        names = ("subject", "run_id", "reason", "body", "failures", "project", "effect_id", "delivery", "cut")
        for values in zip(*columns, strict=True):
            self.dead_letters.append({"stream": stream, **dict(zip(names, values, strict=True))})
            self.database.seen.note("dead_letter")
        return [{"has_room": True} for _ in columns[0]]

    def refused_act(self, _session: TableSession, run_id: UUID, act_id: str) -> list[Row]:
        found = [one for one in self.dead_letters if one["run_id"] == run_id and act_id.encode() in one["body"]]
        return [{"reason": one["reason"]} for one in found[-1:]]

    def count_failure(self, _session: TableSession, stream: str, sequence: int) -> list[Row]:
        self.failures[stream, sequence] += 1
        return [{"failures": self.failures[stream, sequence]}]

    def begin_handling(
        self, _session: TableSession, stream: str, sequence: int, age_s: float, holder: UUID
    ) -> list[Row]:
        key, now = (stream, sequence), self.database.now()
        mark = self.marks.get(key)
        if mark is not None and mark[1] != holder and mark[0] < now - timedelta(seconds=age_s):
            self.deaths[key] += 1
        self.marks[key] = (now, holder)
        return [{"deaths": self.deaths[key]}]

    def end_handling(
        self, _session: TableSession, stream: str, sequence: int, survived: bool, holder: UUID
    ) -> list[Row]:
        key = (stream, sequence)
        if survived:
            self.deaths[key] = 0
        if key in self.marks and self.marks[key][1] == holder:
            del self.marks[key]
        return []


def _gate_row(gate: Row, at: datetime) -> Row:
    ids = {name: UUID(gate[name]) if gate[name] else None for name in ("gate_id", "run_id", "execution_id")}
    ids["approval_id"] = UUID(gate["approval_id"]) if gate["approval_id"] else None
    texts = {name: gate[name] for name in ("project", "network", "gate_type", "status", "reason")}
    ends = {"closed_at": None, "closed_by": "", "closed_reason": "", "verdict": ""}
    expires = datetime.fromisoformat(gate["expires_at"])
    return {**ids, **texts, "detail": gate["detail"], "opened_at": at, "expires_at": expires, **ends}
