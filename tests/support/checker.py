"""The judge of fault tests: compares the outside file, ledger, run log, history and audit.

It imports no platform code. Figures as in the reliability catalogue: lost, dup, audit holes, orphans, double, diff,
unknown; `unexplained` are runs that neither completed nor wait for a person about an unknown call.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import asyncpg


@dataclass
class Verdict:
    runs: int = 0
    completed: int = 0
    waiting_unknown: int = 0
    lost: list[str] = field(default_factory=list)
    dup: list[str] = field(default_factory=list)
    audit_holes: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.dup or self.audit_holes or self.orphans or self.double or self.diff)

    def __str__(self) -> str:
        figures = asdict(self)
        return json.dumps({k: v if isinstance(v, int) else (len(v), v[:5]) for k, v in figures.items()}, indent=1)


async def judge(dsn: str, effects: Path, run_ids: list[str]) -> Verdict:
    """Read everything once and say what does not fit."""
    connection = await asyncpg.connect(dsn)
    try:
        runs = await connection.fetch(
            "SELECT run_id::text, status, reason, seq, step FROM runs.run WHERE run_id::text = ANY($1)", run_ids
        )
        events = await connection.fetch(
            "SELECT run_id::text, seq, type, event::text FROM runs.run_event"
            " WHERE run_id::text = ANY($1) ORDER BY run_id, seq",
            run_ids,
        )
        calls = await connection.fetch(
            "SELECT run_id::text, execution_id::text, tool, status, effect_class FROM tas.tool_call"
        )
        audit = await connection.fetch(
            "SELECT execution_id::text, phase, verdict, at FROM tas.audit_entry WHERE execution_id IS NOT NULL"
        )
        steps = await connection.fetch(
            "SELECT h.id::text AS run_id, count(s.*) AS steps FROM history.agent_execution_history h"
            " LEFT JOIN history.agent_execution_steps s ON s.execution_id = h.id GROUP BY h.id"
        )
    finally:
        await connection.close()
    verdict = Verdict(runs=len(runs))
    _runs(verdict, runs, events, run_ids)
    _log(verdict, runs, events)
    _effects(verdict, effects, calls, audit)
    _ledger(verdict, events, calls)
    _history(verdict, runs, {row["run_id"]: row["steps"] for row in steps})
    return verdict


def _runs(verdict: Verdict, runs: list[Any], events: list[Any], run_ids: list[str]) -> None:
    found = {row["run_id"] for row in runs}
    verdict.lost += [run_id for run_id in run_ids if run_id not in found]
    gated = {
        row["run_id"]
        for row in events
        if row["type"] == "gate_opened" and json.loads(row["event"])["gate_type"] == "unknown_effect"
    }
    for row in runs:
        if row["status"] == "completed":
            verdict.completed += 1
        elif row["status"] in ("waiting", "running") and row["run_id"] in gated:
            verdict.waiting_unknown += 1
        else:
            verdict.lost.append(f"{row['run_id']} is {row['status']} {row['reason']} at seq {row['seq']}")


def _log(verdict: Verdict, runs: list[Any], events: list[Any]) -> None:
    by_run: dict[str, list[int]] = {}
    finished: Counter[str] = Counter()
    for row in events:
        by_run.setdefault(row["run_id"], []).append(row["seq"])
        if row["type"] in ("tool_call_finished", "tool_call_denied"):
            finished[json.loads(row["event"])["execution_id"]] += 1
    for row in runs:
        if by_run.get(row["run_id"]) != list(range(1, row["seq"] + 1)):
            verdict.diff.append(f"log of {row['run_id']} has a gap")
    verdict.double += [f"{key} finished {count} times" for key, count in finished.items() if count > 1]


def _effects(verdict: Verdict, effects: Path, calls: list[Any], audit: list[Any]) -> None:
    lines = [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []
    marks = Counter((line[0], line[1]) for line in lines)
    ledger = {row["execution_id"]: row for row in calls}
    allowed = {row["execution_id"] for row in audit if row["verdict"] in ("allow", "allowed", "approved")}
    for (execution_id, kind), count in marks.items():
        if kind == "irreversible" and count > 1:
            verdict.dup.append(f"{execution_id} happened {count} times")
        if execution_id not in ledger:
            verdict.diff.append(f"{execution_id} happened without a ledger row")
        if execution_id not in allowed:
            verdict.audit_holes.append(execution_id)
    happened = {key for key, _ in marks}
    for execution_id, row in ledger.items():
        if row["status"] == "succeeded" and execution_id not in happened:
            verdict.diff.append(f"{execution_id} succeeded in the ledger and never happened")


def _ledger(verdict: Verdict, events: list[Any], calls: list[Any]) -> None:
    told = {}
    for row in events:
        if row["type"] == "tool_call_finished":
            event = json.loads(row["event"])
            told[event["execution_id"]] = event["status"]
    for row in calls:
        if row["status"] == "unknown":
            verdict.unknown.append(row["execution_id"])
            if row["effect_class"] == "pure":
                verdict.diff.append(f"pure {row['execution_id']} is unknown")
        elif row["status"] in ("requested", "permitted", "started"):
            verdict.orphans.append(f"{row['execution_id']} is {row['status']}")
        elif row["status"] in ("succeeded", "failed") and told.get(row["execution_id"]) != row["status"]:
            verdict.diff.append(f"{row['execution_id']}: ledger {row['status']}, log {told.get(row['execution_id'])}")


def _history(verdict: Verdict, runs: list[Any], steps: dict[str, int]) -> None:
    for row in runs:
        if row["status"] == "completed" and steps.get(row["run_id"]) != row["step"]:
            verdict.diff.append(f"{row['run_id']}: {row['step']} steps, {steps.get(row['run_id'])} in history")
