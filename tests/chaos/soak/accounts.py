"""What became of every run of a soak: judged from outside part by part, and replayed.

The judge of `towpath chaos` looks at every run; here it looks at some thousands at a time, since the record of all does
not fit into memory.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg

from towpath_embedded.chaos.judge import judge_record
from towpath_embedded.chaos.outside import ToolEffectRecord, read_marks
from towpath_embedded.chaos.replays import replay_mismatches
from towpath_embedded.chaos.stored_runs import descendant_runs, read_record
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

PART: Final = 5_000
SHOWN: Final = 5
MAY_BE_LEFT: Final = frozenset({"EVENTS", "LOGS", "REGISTERS"})
"""Streams that keep what was read; the others are queues, and empty once nothing is to be done."""

_TYPES: Final = "SELECT type, count(*) AS n FROM runs.run_event GROUP BY type"
_DEAD: Final = "SELECT stream, reason, count(*) AS n FROM runs.dead_letter GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 5"
_LEFT: Final[Mapping[str, str]] = {
    "runs that go on": "SELECT count(*) FROM runs.run WHERE ended_at IS NULL",
    "open gates": "SELECT count(*) FROM runs.gate WHERE status = 'pending'",
    "calls without an outcome": "SELECT count(*) FROM tas.tool_call"
    " WHERE status IN ('requested', 'awaiting_approval', 'permitted', 'started')",
    "failures of messages": "SELECT count(*) FROM runs.handling_failure WHERE failures > 0",
    "runs whose history is behind": "SELECT count(*) FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id)"
    " WHERE c.seq IS DISTINCT FROM r.seq",
}


@dataclass(kw_only=True)
class SoakAccount:
    """What was found: figures, and sentences for what must not be."""

    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def require(self, condition: bool, sentence: str) -> None:
        """Add *sentence* as a problem unless *condition* holds."""
        if not condition:
            self.problems.append(sentence)


def parts_of(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return *run_ids* some thousands at a time."""
    return (run_ids[begin : begin + PART] for begin in range(0, len(run_ids), PART))


async def judge_all(
    account: SoakAccount, dsn: str, outside: Path, kinds: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Judge every accepted run of *kinds*, its children with it, and count what is found."""
    began, marks = monotonic(), defaultdict[str, list[ToolEffectRecord]](list)
    for mark in read_marks(outside):
        marks[mark.execution_id].append(mark)
    ended, counts, findings = Counter[str](), Counter[str](), defaultdict[str, list[str]](list)
    unknown, judged, run_ids = Counter[str](), 0, [*kinds]
    for part in parts_of(run_ids):
        whole = [*part, *await descendant_runs(dsn, part)]
        record = await read_record(dsn, whole)
        own = [mark for row in record.calls for mark in marks.pop(row["execution_id"], ())]
        verdict = judge_record(record, own, whole)
        judged += len(part)
        counts.update(with_children=verdict.runs, effects=verdict.effects, repeated_where_allowed=verdict.repeats)
        ended.update(f"{kinds[row['run_id']]} {row['status']}" for row in record.runs if row["run_id"] in kinds)
        unknown.update(f"{call.effect_class}, happened {call.happened}" for call in verdict.unknown)
        for name, sentences in verdict.findings.items():
            findings[name] += sentences
        say(f"judged {judged} of {len(run_ids)} runs, {sum(map(len, findings.values()))} findings")
    findings["without a ledger row"] += [f"{key} happened, and no run knows it" for key in marks]
    account.figures |= {
        "accounted": sum(ended.values()),
        "ended": dict(sorted(ended.items())),
        **counts,
        "findings": {name: len(found) for name, found in findings.items()},
        "unknown_outcomes": dict(unknown),
        "judged_s": round(monotonic() - began, 1),
    }
    account.require(sum(ended.values()) == len(run_ids), f"{len(run_ids) - sum(ended.values())} accepted runs are lost")
    for name, sentences in findings.items():
        account.problems += [f"{name}: {sentence}" for sentence in sentences[:SHOWN]]
        account.require(len(sentences) <= SHOWN, f"{name}: {len(sentences) - SHOWN} more")


async def replay_some(account: SoakAccount, dsn: str, run_ids: Sequence[str], most: int, seed: int) -> None:
    """Replay *most* of the runs, drawn by *seed*, with their children; all where there are no more."""
    chosen = random.Random(seed).sample([*run_ids], min(most, len(run_ids)))
    began, replayed, mismatches = monotonic(), 0, list[str]()
    for part in parts_of(chosen):
        whole = [*part, *await descendant_runs(dsn, part)]
        mismatches += await replay_mismatches(dsn, whole)
        replayed += len(whole)
    account.figures["replays"] = {
        "runs": len(chosen),
        "with_children": replayed,
        "different": len(mismatches),
        "s": round(monotonic() - began, 1),
    }
    account.problems += [f"replay: {mismatch}" for mismatch in mismatches[:SHOWN]]


async def look_for_leftovers(account: SoakAccount, platform: Platform, samples: Sequence[Mapping[str, Any]]) -> None:
    """Compare what there is at the end with the first sample: tables, streams, consumers, and what waits in any."""
    connection = await asyncpg.connect(platform.dsn())
    try:
        left = {name: await connection.fetchval(statement) for name, statement in _LEFT.items()}
        types = {row["type"]: row["n"] for row in await connection.fetch(_TYPES)}
        dead = [dict(row) for row in await connection.fetch(_DEAD)]
    finally:
        await connection.close()
    first, last = (_whole(samples), _whole(samples[::-1]))
    tables = sorted(set(last["tables"]) - set(first["tables"]))
    streams = sorted(set(last["streams"]) ^ set(first["streams"]))
    queued = {name: one["messages"] for name, one in last["streams"].items() if name not in MAY_BE_LEFT}
    account.figures |= {"left": left, "events": types, "dead_letters": dead, "new_tables": tables, "queued": queued}
    account.require(not tables, f"tables that were not there at the beginning: {tables}")
    account.require(not streams, f"streams that came or went: {streams}")
    for name, count in left.items():
        account.require(not count, f"{count} {name}")
    account.require(not any(queued.values()), f"messages in queues at the end: {queued}")
    account.require(not dead, f"dead letters: {dead}")


def _whole(samples: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first of *samples* that lacks nothing."""
    return next(sample for sample in samples if "tables" in sample and "streams" in sample)
