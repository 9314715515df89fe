"""What a step costs in longer and longer runs, and at both ends of the longest."""

import asyncio
import statistics
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

from compare import say
from growth.platform import LOOK_S, PURE, Found, Scene, Sizes, growth, seconds_of_services

STORED = """
SELECT (SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM {table} t WHERE t.{column} = $1)
"""
PAYLOADS = """
SELECT coalesce(sum(pg_column_size(p.*)), 0) FROM tas.audit_payload p JOIN tas.audit_record r USING (entry_id)
WHERE r.run_id = $1
"""
KEYED_BY_RUN = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'run_id'
WHERE n.nspname IN ('runs', 'tas', 'history') AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1
"""
DECIDED = "SELECT extract(epoch FROM at)::float FROM runs.run_event WHERE run_id = $1 AND type = 'decision_received'"


async def stored_bytes(database: Any, run_id: Any) -> int:
    """Return the bytes of the rows that a run has in all tables."""
    places = [(row[0], "run_id") for row in await database.fetch(KEYED_BY_RUN)]
    places += [("history.agent_execution_history", "id"), ("history.agent_execution_steps", "execution_id")]
    texts = [STORED.format(table=table, column=column) for table, column in places]
    return sum([await database.fetchval(words, run_id) for words in (*texts, PAYLOADS)])


async def written(database: Any) -> int:
    """Return how many bytes Postgres has written to its log so far."""
    return int(await database.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


async def watch_costs(costs: list[tuple[float, float]]) -> None:
    """Note the time and the processor time until then, until cancelled."""
    while True:
        costs.append((time.time(), seconds_of_services()))
        await asyncio.sleep(LOOK_S)


def cost_at(costs: list[tuple[float, float]], moment: float) -> float:
    """Return the processor time until *moment*, between the two looks around it."""
    for (start, low), (end, high) in pairwise(costs):
        if moment <= end:
            return low + (high - low) * max(0.0, moment - start) / (end - start)
    return costs[-1][1]


async def one_length(at: Scene, steps: int, repeats: int, sizes: Sizes) -> tuple[Found, list[float]]:
    """Execute runs of one length one at a time; also returns the moments of the last one's decisions."""
    took, used, wal, rows = [], [], [], []
    for _ in range(repeats):
        log, seconds = await written(at.database), seconds_of_services()
        took.append(await at.client.run(PURE, steps - 1) * 1000 / steps)
        used.append((seconds_of_services() - seconds) * 1000 / steps)
        await asyncio.sleep(sizes.settle_s)
        wal.append((await written(at.database) - log) / steps)
        run_id = await at.database.fetchval("SELECT run_id FROM runs.run ORDER BY run_id DESC LIMIT 1")
        rows.append(await stored_bytes(at.database, run_id) / steps)
    moments = [row[0] for row in await at.database.fetch(f"{DECIDED} ORDER BY seq", run_id)]
    found = {
        "runs": repeats,
        "ms_per_step": round(statistics.median(took), 3),
        "cpu_ms_per_step": round(statistics.median(used), 3),
        "stored_bytes_per_step": round(statistics.median(rows)),
        "written_bytes_per_step": round(statistics.median(wal)),
    }
    return found, moments


async def measure_length(at: Scene, sizes: Sizes) -> Found:
    """Measure longer and longer runs, and the two ends of the longest."""
    found: Found = {}
    for steps in sizes.lengths:
        say(f"length: {steps} steps")
        found[str(steps)], _ = await one_length(at, steps, sizes.repeats, sizes)
    say("length: both ends of the longest")
    costs: list[tuple[float, float]] = []
    watching = asyncio.create_task(watch_costs(costs))
    _, moments = await one_length(at, sizes.lengths[-1], 1, sizes)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    tenth = sizes.lengths[-1] // 10
    ends = {"first": (moments[0], moments[tenth]), "last": (moments[-tenth - 1], moments[-1])}
    both: Found = {"steps": tenth}
    for name, (start, end) in ends.items():
        both[f"{name}_ms_per_step"] = round((end - start) * 1000 / tenth, 3)
        both[f"{name}_cpu_ms_per_step"] = round((cost_at(costs, end) - cost_at(costs, start)) * 1000 / tenth, 3)
    both["times_as_long"] = growth(both["last_ms_per_step"], both["first_ms_per_step"])
    both["times_the_cpu"] = growth(both["last_cpu_ms_per_step"], both["first_cpu_ms_per_step"])
    return {"lengths": found, "ends": both}
