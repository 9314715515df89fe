"""The tables of schema `tas` in memory, and what the statements of the tool-access service do to them.

Law: `open_calls` and `change_calls` leave out exactly the rows that the SQL functions leave out; fences lock as the
advisory locks do, and the rows of a run are locked while its fence is raised.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from towpath_fabric import dead_letters
from towpath_tas.adapters import ledger_tables
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.core.policy.policy_file import rules_digest
from towpath_testing.tables.run_rows import RunRows
from towpath_testing.tables.table_database import TableDatabase, TableSession

CALL = ledger_tables._CALL
CHANGE = (*ledger_tables._CHANGE, "decides")
APPROVAL = ledger_tables._APPROVAL
VOTE = ledger_tables._VOTE
AUDIT = (
    *("always", "project", "run_id", "execution_id", "phase", "verdict", "tool", "operation", "network", "agent_key"),
    *("caller", "actor", "rule", "policy_version", "args_digest", "detail"),
)
STARTABLE = ("permitted", "started")

Row = dict[str, Any]


@dataclass
class TableGuards:
    """What the statements hold; a mutant takes one away."""

    unique: bool = True
    fence: bool = True
    revision: bool = True
    audit: bool = True


class LedgerRows:
    """Calls, approvals, fences, counters, the audit, policies and tools."""

    def __init__(self, database: TableDatabase, runs: RunRows) -> None:
        self.database = database
        self.guards = TableGuards()
        self.calls: dict[UUID, Row] = {}
        self.by_run: dict[UUID, list[UUID]] = defaultdict(list)
        self.approvals: dict[UUID, Row] = {}
        self.votes: dict[UUID, dict[tuple[str, str], tuple[datetime, str, str]]] = defaultdict(dict)
        self.fences: dict[UUID, int] = {}
        self.fenced_at: dict[UUID, datetime] = {}
        self.used: dict[tuple[UUID, str], int] = defaultdict(int)
        self.rates: dict[tuple[str, str], tuple[int, int, int]] = {}
        self.audit: list[Row] = []
        self.on_change: Callable[[Row, Row], None] = lambda _before, _after: None
        self.versions: dict[str, tuple[int, int]] = {}
        self.rules_of: dict[str, list[str]] = defaultdict(list)
        self.tools_of: dict[str, list[Row]] = defaultdict(list)
        names = QUERIES._statements
        found = {text: getattr(self, name) for name, text in names.items() if hasattr(self, name) and name != "audit"}
        found[QUERIES.now] = lambda _session: [(database.now(),)]
        found[dead_letters.QUERIES.add_dead_letters] = runs.add_dead_letters
        found[dead_letters.QUERIES.count_failure] = runs.count_failure
        found[dead_letters.QUERIES.begin_handling] = runs.begin_handling
        found[dead_letters.QUERIES.end_handling] = runs.end_handling
        found[dead_letters.QUERIES.forget_letters] = found[QUERIES.use_blobs] = runs.nothing
        database.statements |= found

    def open_calls(
        self, session: TableSession, calls: Any, audits: Any, approvals: Any, counts: Any, seen: Any
    ) -> list[Row]:
        rows = [dict(zip(CALL, values, strict=True)) for values in calls]
        self.database.locks.free_for(session, *{("fence", row["run_id"]): None for row in rows})
        stale = self._stale(seen)
        used_up = self._lock_counts(counts)
        written = [row for row in rows if self._may_open(row, stale, used_up)]
        taken = {row["execution_id"] for row in written}
        for key in counts:
            if key.execution_id in taken:
                self._add_count(key)
        no_quota: Row = {"postponed": [], "postponed_until": []}
        return [row | no_quota for row in self._finish(session, written, [], audits, approvals, stale)]

    def add_audit(self, session: TableSession, audits: Any) -> list[Row]:
        notes = [dict(zip(AUDIT, values, strict=True)) for values in audits]
        session.write(lambda: self._store([], [], notes, [], self.database.now()))
        return []

    def lock_run_actions(self, session: TableSession, run_id: UUID) -> list[Row]:
        self.database.locks.take(session, ("actions", run_id))
        return []

    def run_action_said(self, _session: TableSession, *said: Any) -> list[tuple[bool]]:
        since = self.database.now() - timedelta(minutes=1)
        names = ("run_id", "project", "phase", "actor")
        return [(any(note["at"] > since and tuple(note[name] for name in names) == said for note in self.audit),)]

    def _lock_counts(self, counts: Any) -> set[UUID]:
        """Name the calls that may not use the counters; those of rates begin again with a window."""
        used_up = set()
        taken: dict[tuple[str, str], int] = {}
        for key in counts:
            if key.per_s is None:
                if key.base != self.used[key.run_id, key.rule]:
                    used_up.add(key.execution_id)
                continue
            place = (key.project, key.rule)
            taken[place] = taken.get(place, self._rate(*place, key.per_s)) + 1
            if taken[place] > key.calls:
                used_up.add(key.execution_id)
        return used_up

    def _add_count(self, key: Any) -> None:
        if key.per_s is None:
            self.used[key.run_id, key.rule] += 1
        else:
            used = self._rate(key.project, key.rule, key.per_s)
            self.rates[key.project, key.rule] = (key.per_s, self._window(key.per_s), used + 1)

    def _rate(self, project: str, rule: str, per_s: int) -> int:
        found = self.rates.get((project, rule))
        return found[2] if found is not None and found[:2] == (per_s, self._window(per_s)) else 0

    def _window(self, per_s: int) -> int:
        return int(self.database.now().timestamp() // per_s)

    def _may_open(self, row: Row, stale: Sequence[str], used_up: set[UUID]) -> bool:
        if row["project"] in stale or row["execution_id"] in used_up:
            return False
        if row["status"] != "void" and not self._fence_allows(row):
            self.database.seen.note("fence_refused")
            return False
        if row["execution_id"] in self.calls and self.guards.unique:
            self.database.seen.note("row_exists")
            return False
        return True

    def _fence_allows(self, row: Row) -> bool:
        return self.fences.get(row["run_id"], row["fence"]) <= row["fence"] or not self.guards.fence

    def change_calls(self, session: TableSession, changes: Any, audits: Any, approvals: Any, seen: Any) -> list[Row]:
        rows = [dict(zip(CHANGE, values, strict=True)) for values in changes]
        starting = {("fence", row["run_id"]): None for row in rows if row["status"] in STARTABLE}
        self.database.locks.free_for(session, *starting, *(("calls", row["run_id"]) for row in rows))
        stale = self._stale(seen)
        written = [row for row in rows if self._may_change(row, stale)]
        return self._finish(session, [], written, audits, approvals, stale)

    def _may_change(self, row: Row, stale: Sequence[str]) -> bool:
        stored = self.calls.get(row["execution_id"])
        if stored is None or (row["decides"] and row["project"] in stale):
            return False
        if stored["revision"] != row["revision"] - 1 and self.guards.revision:
            self.database.seen.note("revision_moved")
            return False
        if row["status"] in STARTABLE and not self._fence_allows(row):
            self.database.seen.note("fence_refused")
            return False
        return True

    def _finish(
        self,
        session: TableSession,
        opened: list[Row],
        changed: list[Row],
        audits: Any,
        approvals: Any,
        stale: Sequence[str],
    ) -> list[Row]:
        now = self.database.now()
        written = [row["execution_id"] for row in (*opened, *changed)]
        notes = [dict(zip(AUDIT, values, strict=True)) for values in audits]
        notes = [note for note in notes if note["always"] or note["execution_id"] in written]
        votes = [dict(zip((*APPROVAL, *VOTE), values, strict=True)) for values in approvals]
        votes = [vote for vote in votes if vote["execution_id"] in written]
        session.write(lambda: self._store(opened, changed, notes, votes, now))
        return [{"written": written, "stale": list(stale), "at": now}]

    def _store(self, opened: list[Row], changed: list[Row], notes: list[Row], votes: list[Row], at: datetime) -> None:
        for row in opened:
            if row["execution_id"] not in self.calls:
                self.by_run[row["run_id"]].append(row["execution_id"])
            self.calls[row["execution_id"]] = row
            self.on_change({}, row)
            self._trace("open", row, at)
        for row in changed:
            values = {name: value for name, value in row.items() if name != "decides"}
            before = dict(self.calls[row["execution_id"]])
            self.calls[row["execution_id"]].update(values)
            self.on_change(before, self.calls[row["execution_id"]])
            self._trace("change", row, at)
        for note in notes:
            if self.guards.audit or note["phase"] not in ("decision", "approval.consumed"):
                self.audit.append({**note, "at": self.database.now()})
            self._count(note)
        for vote in votes:
            if vote["approval_id"] in self.approvals:
                names = ("status", "decided_by", "decided_at", "decided_reason")
                self.approvals[vote["approval_id"]].update({name: vote[name] for name in names})
            else:
                self.approvals[vote["approval_id"]] = {name: vote[name] for name in APPROVAL}
            self._vote(vote)

    def _vote(self, vote: Row) -> None:
        """Keep the verdict that an approval takes, and make its arguments those of its call."""
        if vote["voter"] is not None:
            cast = (vote["vote_at"], vote["vote_reason"], vote["voter_key"])
            self.votes[vote["approval_id"]][vote["voter"], vote["vote"]] = cast
        if vote["edits"]:
            call = self.calls[vote["execution_id"]]
            call["asked_digest"] = call.get("asked_digest") or call["args_digest"]
            call.update(args=vote["args"], args_digest=vote["args_digest"], edited_by=vote["edited_by"])

    def _trace(self, what: str, row: Row, at: datetime) -> None:
        if row["status"] in ("void", "unknown"):
            self.database.seen.note(f"call_{row['status']}")
        if not self.database.seen.traces:
            return
        name = str(row["execution_id"])[:6]
        state = f"{row['status']} attempt {row['attempt']} fence {row['fence']} revision {row['revision']}"
        self.database.seen.trace(f"{at:%H:%M:%S.%f} ledger {what} {name} of {str(row['run_id'])[-4:]} {state}")

    def _count(self, note: Row) -> None:
        seen = self.database.seen
        name = str(note["execution_id"])[:6]
        seen.trace(f"audit {name} {note['phase']} {note['verdict']} {note['actor']} {note['detail'][:200]}")
        if note["phase"] == "claim" and note["verdict"] == "refused":
            reason = json.loads(note["detail"]).get("reason", "")
            seen.note(f"claim_refused_{reason}")
        elif note["phase"] == "evidence":
            seen.note("evidence")
        elif note["verdict"] == "require_approval":
            seen.note("approval_required")

    def _stale(self, seen: Any) -> list[str]:
        return [
            row.project
            for row in seen
            if self.versions.get(row.project, (0, 0)) != (row.policy_version, row.registry_version)
        ]

    def read_calls(self, _session: TableSession, run_ids: list[UUID], execution_ids: list[UUID]) -> list[Row]:
        return [self._read(r, e) for r, e in zip(run_ids, execution_ids, strict=True)]

    def _read(self, run_id: UUID, execution_id: UUID) -> Row:
        call = self.calls.get(execution_id)
        if call is None or call["run_id"] != run_id:
            call = dict.fromkeys(CALL)
        vote = self.approvals.get(call["approval_id"]) or dict.fromkeys(APPROVAL)
        names = {"status": "approval_status", "digest": "approval_digest", "rule": "approval_rule"}
        names |= {"reason": "approval_reason", "args": "approval_args", "edited_by": "approval_edited_by"}
        shown = ("bound", "requested_by", "expires_at", "decided_by", "decided_at", "decided_reason", *names)
        shown += ("gate_type", "role", "quorum", "on_expiry", "revisions")
        approval = {names.get(name, name): vote[name] for name in shown}
        cast: list[tuple[Any, ...]] = [
            (at, by, word, *more) for (by, word), (at, *more) in self.votes.get(call["approval_id"], {}).items()
        ]
        words = [[by, word, why, at.isoformat(), prefix] for at, by, word, why, prefix in sorted(cast)]
        head = {"asked": execution_id, "read_at": self.database.now(), "stored_fence": self.fences.get(run_id, 0)}
        edit = {name: call.get(name) for name in ledger_tables._EDIT}
        words_text = json.dumps(words) if words else None
        return {**head, **call, **approval, **edit, "erased_at": None, "votes": words_text}

    def read_counts(self, _session: TableSession, run_ids: list[UUID], rules: list[str]) -> list[Row]:
        return [{"run_id": r, "rule": n, "used": self.used[r, n]} for r, n in zip(run_ids, rules, strict=True)]

    def read_rates(
        self, _session: TableSession, projects: list[str], rules: list[str], windows_s: list[int]
    ) -> list[Row]:
        keys = zip(projects, rules, windows_s, strict=True)
        return [{"project": p, "rule": n, "used": self._rate(p, n, per_s)} for p, n, per_s in keys]

    def find_approval(self, _session: TableSession, approval_id: UUID, project: str) -> list[Row]:
        found = self.approvals.get(approval_id)
        if found is None or found["project"] != project:
            return []
        return [{"run_id": found["run_id"], "execution_id": found["execution_id"]}]

    def project_of_call(self, _session: TableSession, run_id: UUID, execution_id: UUID) -> list[Row]:
        call = self.calls.get(execution_id)
        if call is None or call["run_id"] != run_id:
            return []
        return [{"project": call["project"], "toolset": call["toolset"]}]

    def lock_fence(self, session: TableSession, run_id: UUID) -> list[Row]:
        self.database.locks.take(session, ("fence", run_id))
        return []

    def raise_fence(self, session: TableSession, run_id: UUID, _project: str, fence: int) -> list[Row]:
        value = max(self.fences.get(run_id, fence), fence)

        def store() -> None:
            if value != self.fences.get(run_id):
                self.fenced_at[run_id] = self.database.now()
            self.fences[run_id] = value
            self.database.seen.trace(f"fence {str(run_id)[-4:]} {value}")

        session.write(store)
        return [{"fence": value, "at": self.database.now()}]

    def calls_of_run(self, session: TableSession, run_id: UUID, project: str) -> list[Row]:
        if session.in_transaction:
            self.database.locks.take(session, ("calls", run_id))
        none = dict.fromkeys(ledger_tables._EDIT)
        found = [none | self.calls[key] for key in sorted(self.by_run[run_id])]
        return [call for call in found if call["project"] == project]

    def project_state(self, session: TableSession, project: str) -> list[Row]:
        if project not in self.versions:
            return []
        policy, registry = self.versions[project]
        rows = [(*list(row.values())[:5], json.loads(row["rule"])) for row in self.rules(session, project, policy)]
        return [{"policy_version": policy, "registry_version": registry, "rules_digest": rules_digest(rows)}]

    def rules(self, _session: TableSession, project: str, _version: int) -> list[Row]:
        listed = [json.loads(rule) for rule in self.rules_of[project]]
        names = ("name", "effect", "tool", "operation")
        return [
            {"place": place, **{name: rule[name] for name in names}, "rule": json.dumps(rule)}
            for place, rule in enumerate(listed)
        ]

    def tools(self, _session: TableSession, project: str) -> list[Row]:
        return [{**row, "chars": len(row["spec"])} for row in self.tools_of[project]]

    def tool_specs(self, _session: TableSession, project: str, names: list[str], versions: list[int]) -> list[Row]:
        wanted = set(zip(names, versions, strict=True))
        return [row for row in self.tools_of[project] if (row["name"], row["version"]) in wanted]

    def restored_runs(self, _session: TableSession, _project: str) -> list[Row]:
        return []

    def shadow(self, _session: TableSession, _project: str) -> list[Row]:
        return []
