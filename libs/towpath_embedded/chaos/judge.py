"""Compares the outside file with ledger, run log, gates, audit and history, and reports what does not fit.

It imports nothing of a service or of the engine, so it can't share their faults, and it repairs nothing. Its figures
are lost, dup, audit holes, orphans, double, diff, late, strayed and unknown; each finding is a sentence that names an
id.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from towpath_embedded.chaos.outside import ToolEffectRecord, read_marks
from towpath_embedded.chaos.stored_runs import Row, StoredRunRows, read_record

FINAL = frozenset({"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"})
UNSETTLED = frozenset({"requested", "awaiting_approval", "permitted", "started"})
REPEATABLE = frozenset({"pure", "idempotent"})
COMPLETED = frozenset({"completed"})
AFTER_THE_END = frozenset({"outcome_recorded", "fence_stored", "effect_resent", "usage_corrected", "child_ended"})
"""Events that a run may still get after its end, because its end does not wait for them."""

PLATFORM = "platform"
"""The worker of a call that the run applies to itself: nothing happens outside, so its log is the evidence."""

_STARTS = frozenset({("decision", "allow"), ("approval.consumed", "allow"), ("claim", "granted")})
"""Audit entries that let a call go on, as phase and verdict."""


@dataclass(frozen=True, kw_only=True)
class UnknownOutcomeCall:
    """A call with an unknown outcome: where, why, and how a person resolved it."""

    run_id: str
    execution_id: str
    tool: str
    effect_class: str
    why: str
    verdicts: tuple[str, ...]
    happened: int
    """How often it is in the outside file."""


@dataclass
class JudgeReport:
    """The findings about some runs. `clean` means that there are none; `share` shows whether enough work was done."""

    runs: int = 0
    completed: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    """Runs that wait for a person, by the type of the gate."""
    ended: dict[str, int] = field(default_factory=dict)
    """Runs by final status."""
    effects: int = 0
    """Lines of the outside file that belong to these runs."""
    repeats: int = 0
    """Lines beyond the first of calls that may run again."""
    lost: list[str] = field(default_factory=list)
    strayed: list[str] = field(default_factory=list)
    """Runs that ended otherwise than they should have."""
    dup: list[str] = field(default_factory=list)
    audit_holes: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """Effects that happened after their run had ended, and starts that were allowed after its fence was stored."""
    unknown: list[UnknownOutcomeCall] = field(default_factory=list)
    """Calls that were unknown at any time, also where a person has settled them since."""
    dead_letters: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every figure that must be 0 is 0."""
        return not any(self.findings.values())

    @property
    def findings(self) -> dict[str, list[str]]:
        """The figures that must be 0, by name."""
        return {
            "lost": self.lost,
            "strayed": self.strayed,
            "dup": self.dup,
            "audit_holes": self.audit_holes,
            "orphans": self.orphans,
            "double": self.double,
            "diff": self.diff,
            "late": self.late,
        }

    @property
    def waiting_unknown(self) -> int:
        """Runs that wait for a person to resolve an unknown call."""
        return self.waiting.get("unknown_effect", 0)

    @property
    def share(self) -> float:
        """Which part of the runs completed; 1 where there are none."""
        return self.completed / self.runs if self.runs else 1.0

    def __str__(self) -> str:
        """Every figure, with the first findings of each."""
        figures = asdict(self)
        shown = {k: (len(v), v[:5]) if isinstance(v, list) else v for k, v in figures.items()}
        return json.dumps(shown, indent=1)


async def judge(
    dsn: str, outside: Path, run_ids: Sequence[str] | None = None, *, ends: Collection[str] = COMPLETED
) -> JudgeReport:
    """Read everything once and report what does not fit.

    *run_ids* are the accepted runs (None: whatever is stored); *ends* are the final statuses that they should have;
    a run that a person cancelled may be `cancelled` besides.
    """
    return judge_record(await read_record(dsn, run_ids), read_marks(outside), run_ids, ends=ends)


def judge_record(
    record: StoredRunRows,
    marks: Sequence[ToolEffectRecord],
    run_ids: Sequence[str] | None = None,
    *,
    ends: Collection[str] = COMPLETED,
) -> JudgeReport:
    """Report what does not fit in *record* and *marks*; no I/O."""
    events: dict[str, list[Row]] = defaultdict(list)
    for row in record.events:
        events[row["run_id"]].append(row)
    verdict = JudgeReport(runs=len(record.runs), dead_letters=[_dead(row) for row in record.dead])
    _runs(verdict, record, events, run_ids, ends)
    _log(verdict, record, events)
    _gates(verdict, record, events)
    _effects(verdict, record, marks)
    _fences(verdict, record)
    _ledger(verdict, record, events)
    _unknown(verdict, record, marks)
    _history(verdict, record)
    _projects(verdict, record)
    return verdict


def _runs(
    verdict: JudgeReport,
    record: StoredRunRows,
    events: dict[str, list[Row]],
    run_ids: Sequence[str] | None,
    ends: Collection[str],
) -> None:
    found = {row["run_id"] for row in record.runs}
    verdict.lost += [f"{run_id} is not stored" for run_id in run_ids or () if run_id not in found]
    pending = {row["run_id"]: row["gate_type"] for row in record.gates if row["status"] == "pending"}
    waiting: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for row in record.runs:
        run_id, status = row["run_id"], row["status"]
        if status in FINAL:
            ended[status] += 1
            asked = any(event["type"] == "cancel_accepted" for event in events[run_id])
            if status not in ends and not (status == "cancelled" and asked):
                verdict.strayed.append(f"{run_id} is {status}: {row['reason']}")
        elif status in {"waiting", "running"} and run_id in pending:
            waiting[pending[run_id]] += 1
        else:
            verdict.lost.append(f"{run_id} is {status} {row['reason']} at seq {row['seq']}")
    verdict.completed, verdict.waiting, verdict.ended = ended["completed"], dict(waiting), dict(ended)


def _log(verdict: JudgeReport, record: StoredRunRows, events: dict[str, list[Row]]) -> None:
    for row in record.runs:
        log = events[row["run_id"]]
        if [event["seq"] for event in log] != list(range(1, row["seq"] + 1)):
            verdict.diff.append(f"log of {row['run_id']} has a gap")
        last = next((event for event in reversed(log) if event["type"] not in AFTER_THE_END), None)
        finished = last["event"]["status"] if last is not None and last["type"] == "run_finished" else None
        if (row["status"] in FINAL or finished) and finished != row["status"]:
            verdict.diff.append(f"{row['run_id']} is {row['status']}, its log says {finished}")
    seen = Counter(key for event in record.events for key in _once(event))
    verdict.double += [f"{key} {count} times" for key, count in seen.items() if count > 1]


def _once(row: Row) -> Iterable[str]:
    """What may stand in a log once: the end of a call, the answer to a request, the end of a gate and of a run."""
    event = row["event"]
    match row["type"]:
        case "tool_call_finished" | "tool_call_denied":
            yield f"{event['execution_id']} finished"
        case "decision_received" | "decision_missed":
            yield f"request {event['request_id']} answered"
        case "gate_opened":
            yield f"gate {event['gate_id']} opened"
        case "gate_closed":
            yield f"gate {event['gate_id']} closed"
        case "run_created" | "run_finished":
            yield f"{row['run_id']} {row['type']}"
        case _:
            return


def _gates(verdict: JudgeReport, record: StoredRunRows, events: dict[str, list[Row]]) -> None:
    """Every gate of the log is a row and the reverse; a row is pending as long as the log has not closed it."""
    opened: set[str] = set()
    closed: set[str] = set()
    for log in events.values():
        opened |= {row["event"]["gate_id"] for row in log if row["type"] == "gate_opened"}
        closed |= {row["event"]["gate_id"] for row in log if row["type"] == "gate_closed"}
    rows = {row["gate_id"]: row for row in record.gates}
    verdict.diff += [f"gate {key} is in one place alone" for key in opened ^ set(rows)]
    for key, row in rows.items():
        if (row["status"] == "pending") is (key in closed):
            verdict.diff.append(f"gate {key} is {row['status']}, and {'not ' * (key not in closed)}closed in the log")


def _effects(verdict: JudgeReport, record: StoredRunRows, marks: Sequence[ToolEffectRecord]) -> None:
    ledger = {row["execution_id"]: row for row in record.calls}
    others = {row["execution_id"] for row in record.others}
    ended = {row["run_id"]: row["ended_at"] for row in record.runs}
    permitted = _permitted(record)
    retries = Counter(row["execution_id"] for row in record.audit if _resolution(row) == "retry")
    by_call: dict[str, list[ToolEffectRecord]] = defaultdict(list)
    done = (row["event"] for row in record.events if row["type"] == "tool_call_finished")
    applied = {event["execution_id"] for event in done if event.get("worker") == PLATFORM}
    for mark in marks:
        if mark.execution_id not in others:
            by_call[mark.execution_id].append(mark)
    for key, made in by_call.items():
        row = ledger.get(key)
        if row is None:
            verdict.diff.append(f"{key} happened without a ledger row")
            continue
        verdict.effects += len(made)
        _repeated(verdict, row["effect_class"], key, made, retries[key])
        if key not in permitted or (made[0].at and min(mark.at for mark in made) < permitted[key]):
            verdict.audit_holes.append(f"{key} happened without an earlier permission in the audit")
        end = ended.get(row["run_id"])
        if end is not None and row["effect_class"] != "pure" and any(mark.at > end for mark in made):
            verdict.late.append(f"{key} ({row['effect_class']}) happened after its run had ended")
    _keys(verdict, marks)
    for key, row in ledger.items():
        if row["status"] == "succeeded" and not row["settled_by"] and key not in by_call and key not in applied:
            verdict.diff.append(f"{key} succeeded in the ledger and never happened")


def _fences(verdict: JudgeReport, record: StoredRunRows) -> None:
    """Once the fence of a run is stored nothing of it is permitted or claimed; both times are Postgres's own."""
    raised = {row["run_id"]: row["at"] for row in record.fences}
    for row in record.audit:
        if (row["phase"], row["verdict"]) in _STARTS and row["at"] > raised.get(row["run_id"], row["at"]):
            verdict.late.append(f"{row['execution_id']}: {row['phase']} {row['verdict']} after the fence was stored")


def _repeated(
    verdict: JudgeReport, effect_class: str, key: str, made: Sequence[ToolEffectRecord], retries: int
) -> None:
    """The effect class is the ledger's, not the one in the mark; a person's `retry` allows one more effect."""
    if effect_class in REPEATABLE:
        verdict.repeats += len(made) - 1
    elif len(made) > 1 + retries:
        verdict.dup.append(f"{key} ({effect_class}) happened {len(made)} times")


def _keys(verdict: JudgeReport, marks: Sequence[ToolEffectRecord]) -> None:
    """An outside system that counts keys must see one key for one call."""
    pairs = {(mark.key, mark.execution_id) for mark in marks if mark.key}
    by_key, by_call = Counter(key for key, _ in pairs), Counter(call for _, call in pairs)
    verdict.dup += [f"{call} used {count} keys" for call, count in by_call.items() if count > 1]
    verdict.diff += [f"key {key} stood for {count} calls" for key, count in by_key.items() if count > 1]


def _permitted(record: StoredRunRows) -> dict[str, float]:
    """When each call was permitted for the first time, by the audit."""
    first: dict[str, float] = {}
    for row in record.audit:
        if row["verdict"] == "allow" and row["phase"] in {"decision", "approval.consumed"}:
            first[row["execution_id"]] = min(row["at"], first.get(row["execution_id"], row["at"]))
    return first


def _resolution(row: Row) -> str | None:
    """Return how a person resolved a call, if this audit entry is about that."""
    if row["phase"] == "settled":
        return str(row["verdict"])
    resolved = (
        row["phase"] == "outcome" and row["verdict"] == "failed" and row["detail"].get("code") == "did_not_happen"
    )
    return "did_not_happen" if resolved else None


def _ledger(verdict: JudgeReport, record: StoredRunRows, events: dict[str, list[Row]]) -> None:
    status = {row["run_id"]: row["status"] for row in record.runs}
    logged = {
        row["event"]["execution_id"]: "denied" if row["type"] == "tool_call_denied" else row["event"]["status"]
        for log in events.values()
        for row in log
        if row["type"] in {"tool_call_finished", "tool_call_denied"}
    }
    for row in record.calls:
        key, in_log = row["execution_id"], logged.get(row["execution_id"])
        if row["status"] in UNSETTLED:
            if status.get(row["run_id"]) in FINAL or row["status"] != "awaiting_approval":
                verdict.orphans.append(f"{key} is {row['status']}")
        elif in_log != row["status"] and not _excused(row["status"], in_log, status.get(row["run_id"], "")):
            verdict.diff.append(f"{key}: ledger {row['status']}, log {in_log}")


def _excused(ledger: str, logged: str | None, run: str) -> bool:
    """The log may know less than the ledger: a stopped run takes no outcomes, and a gate holds an unknown call back."""
    return (logged is None and (run != "completed" or ledger == "void")) or (logged == "unknown" and run in FINAL)


def _unknown(verdict: JudgeReport, record: StoredRunRows, marks: Sequence[ToolEffectRecord]) -> None:
    calls = {row["execution_id"]: row for row in record.calls}
    count = Counter(mark.execution_id for mark in marks)
    why: dict[str, str] = {}
    resolutions: dict[str, list[str]] = defaultdict(list)
    for row in record.audit:
        if row["phase"] == "outcome" and row["verdict"] == "unknown":
            why.setdefault(row["execution_id"], str(row["detail"].get("reason", "")))
        answer = _resolution(row)
        if answer is not None:
            resolutions[row["execution_id"]].append(answer)
    for key, row in calls.items():
        if row["status"] != "unknown" and key not in why:
            continue
        if row["effect_class"] == "pure":
            verdict.diff.append(f"pure {key} is unknown")
        verdict.unknown.append(
            UnknownOutcomeCall(
                run_id=row["run_id"],
                execution_id=key,
                tool=row["tool"],
                effect_class=row["effect_class"],
                why=why.get(key, "the audit does not say"),
                verdicts=tuple(resolutions[key]),
                happened=count[key],
            )
        )


def _history(verdict: JudgeReport, record: StoredRunRows) -> None:
    kept = {row["run_id"]: row for row in record.history}
    for row in record.runs:
        run_id, history = row["run_id"], kept.get(row["run_id"])
        if history is None:
            verdict.diff.append(f"{run_id} has no history")
        elif history["seq"] != row["seq"]:
            verdict.diff.append(f"{run_id}: seq {row['seq']}, {history['seq']} in history")
        elif row["status"] == "completed" and history["steps"] != row["step"]:
            verdict.diff.append(f"{run_id}: {row['step']} steps, {history['steps']} in history")
    verdict.diff += [f"history skipped {row['run_id']} seq {row['seq']}: {row['error']}" for row in record.skipped]


def _projects(verdict: JudgeReport, record: StoredRunRows) -> None:
    """Whatever belongs to a run belongs to its project."""
    owner = {row["run_id"]: row["project"] for row in record.runs}
    rows: tuple[Row, ...] = (*record.gates, *record.calls, *record.audit, *record.history)
    foreign = {(r["run_id"], r["project"]) for r in rows if owner.get(r["run_id"], r["project"]) != r["project"]}
    verdict.diff += [f"{run_id} of {owner[run_id]} has rows of {project}" for run_id, project in sorted(foreign)]


def _dead(row: dict[str, Any]) -> str:
    return f"{row['stream']} {row['subject']}: {row['reason']}"
