"""How long lists, filters and searches take when there are millions of rows, and by which plans.

An embedded Postgres is filled by generate_series: runs, four audit entries for each, a gate for each fifth, and what
belongs to them. Then each list is asked for as the gateway asks for it, through the code of the service that answers,
on sessions as the services have them. Usage, from the root: `uv run --group dev python -m bench.lists [--runs N]
[--rounds N] [--only WORD] [--data FOLDER] [--json FILE]`. With `--data` the rows are kept, and used again. It takes
about 7 KB of disk for each run. The processor's time, of Postgres and of this process, is told beside the median: it is
the same on a machine that does other things too. Ends with 1 if a large table is read whole, if a list of the gateway
is not asked for, or if one takes more than 300 ms: by its median, or by the processor's time if the machine was busy.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from bench.lists.filled_tables import STATEMENTS, bulk_settings, fill, sizes
from bench.lists.questions import KNOWN, Question, questions
from bench.lists.routes import not_asked
from bench.lists.statement_plans import RecordingPool, plan_of
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from towpath_audit.notes import Signer
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.postgres.migrations import migrate
from towpath_fabric.postgres.pool import open_pool
from towpath_gateway.app.application import create_app

LIMIT_MS = 300
SMALL = 20_000
"""Rows of a table that may be read whole."""

ROLES = ("orchestrator", "tas", "log_writer", "gateway")
HEADING = ("list", "filter", "rows", "first ms", "median ms", "95 % ms", "processor ms", "looked at", "read whole")


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the database, unless *folder* has one, and ask."""
    signer = Signer("bench", Ed25519PrivateKey.from_private_bytes(bytes(32)))
    server = Postgres(folder, durable=False)
    await server.start()
    try:
        await server.ensure_database()
        owner = await asyncpg.connect(server.dsn())
        if not await owner.fetchval("SELECT to_regclass('runs.run') IS NOT NULL"):
            await migrate(server.dsn())
            async with bulk_settings(owner):
                await fill(server.dsn(), options.runs, signer, say)
        tables = {table["name"]: (table["rows"], table["bytes"]) for table in await sizes(owner)}
        now = await owner.fetchval("SELECT max(created_at) FROM runs.run")
        known = {name: await owner.fetchval(getattr(STATEMENTS, name)) for name in KNOWN}
        await owner.close()
        async with AsyncExitStack() as opened:
            pools = {}
            for role in ROLES:
                pool = await opened.enter_async_context(await open_pool(server.dsn(f"towpath_{role}"), 2, "bench"))
                pools[role] = RecordingPool(pool)
            before = os.getloadavg()[0]
            asked = questions(pools, known, now, signer)
            found = [
                await answer(one, options.rounds, tables, partial(processor_ms, server))
                for one in asked
                if options.only in f"{one.about} {one.filtered}"
            ]
    finally:
        await server.stop()
    return {
        "workload": "lists",
        "date": time.strftime("%Y-%m-%d"),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "processors": os.cpu_count() or 1,
        "without": list(not_asked(create_app(None).openapi(), asked)),
        "rounds": options.rounds,
        "tables": tables,
        "lists": found,
    }


def processor_ms(server: Postgres) -> Counter[str]:
    """Return the processor's time that this process and each process of *server* have had; some may just end."""
    assert server.process is not None
    parent = server.process.pid
    sessions = Path(f"/proc/{parent}/task/{parent}/children").read_text("utf-8").split()
    had = Counter({"own": round(time.process_time() * 1_000)})
    for one in sessions:
        with contextlib.suppress(OSError):
            had[one] = round(int(Path(f"/proc/{one}/schedstat").read_text("utf-8").split()[0]) / 1e6)
    return had


async def answer(
    question: Question, rounds: int, tables: dict[str, tuple[int, int]], used_ms: Callable[[], Counter[str]]
) -> dict[str, Any]:
    """Ask *question* once and then *rounds* times, and have its statements executed once more with their plans."""
    question.pool.asked.clear()
    took, used = [], []
    asked: list[Any] = []
    given: Any = None
    for _ in range(1 + rounds):
        before, began = used_ms(), time.perf_counter()
        given = await question.ask()
        took.append((time.perf_counter() - began) * 1_000)
        used.append((used_ms() - before).total())
        asked = asked or list(question.pool.asked)
    plans = [await plan_of(question.pool, *one) for one in asked]
    return {
        "list": question.about,
        "filter": question.filtered,
        "rows": _length(given),
        "first_ms": took[0],
        "ms": statistics.median(took[1:]),
        "late_ms": sorted(took[1:])[-1 - rounds // 20],
        "processor_ms": statistics.median(used[1:]),
        "looked_at": sum(plan.looked_at for plan in plans),
        "whole": sorted({name for plan in plans for name in plan.whole if _rows_of(name, tables) > SMALL}),
        "slowest": max(plans, key=lambda plan: plan.ms)._asdict(),
    }


def _rows_of(name: str, tables: dict[str, tuple[int, int]]) -> int:
    return max((count for table, (count, _) in tables.items() if table.rpartition(".")[2] == name), default=0)


def _length(given: Any) -> int:
    """Return how many rows an answer has: the length of its longest part."""
    parts = (
        [given]
        if isinstance(given, list)
        else [value for _, value in given]
        if hasattr(given, "model_fields_set")
        else []
    )
    return max((len(part) for part in parts if isinstance(part, list | tuple)), default=1)


def text(found: dict[str, Any]) -> str:
    """Return what was measured as Markdown."""
    tables = found["tables"]
    large = {"runs.run": "runs", "runs.gate": "gates", "tas.audit_record": "audit entries"}
    counted = ", ".join(f"{tables[name][0]:,} {what}" for name, what in large.items())
    size = sum(taken for _, taken in tables.values()) / 1e9
    said = (
        f"Measured {found['date']}; load {found['load'][0]} before and {found['load'][1]} afterwards. In the database: "
        f"{counted}, {size:.0f} GB in all. Median and 95th percentile of {found['rounds']} behind the first; "
        "processor's time of Postgres and of who asks."
    )
    body = [
        (
            one["list"],
            one["filter"],
            f"{one['rows']:,}",
            *(f"{one[name]:.0f}" for name in ("first_ms", "ms", "late_ms", "processor_ms")),
            f"{one['looked_at']:,}",
            ", ".join(one["whole"]) or "no",
        )
        for one in found["lists"]
    ]
    lines = [HEADING, ("---",) * len(HEADING), *body]
    return "\n".join([said, "", *(f"| {' | '.join(line)} |" for line in lines)])


def main() -> None:
    """Measure, then print, store, and write the page."""
    parser = argparse.ArgumentParser(
        "bench.lists", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=500_000, help="how many runs there are")
    parser.add_argument("--rounds", type=int, default=5, help="how often each list is asked for")
    parser.add_argument("--only", default="", help="lists whose name and filter contain this")
    parser.add_argument("--data", type=Path, help="keep the rows in this folder, and use those that are there")
    parser.add_argument("--json", type=Path, help="store what was measured")
    options = parser.parse_args()
    with temporary_folder() as folder:
        found = asyncio.run(measure(options.data or folder, options))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(text(found))
    busy = max(found["load"]) > found["processors"]
    slow = [one for one in found["lists"] if one["processor_ms" if busy else "ms"] > LIMIT_MS or one["whole"]]
    for one in slow:
        print(f"slow: {one['list']}, {one['filter']}: {one['ms']:.0f} ms by {one['slowest']['statement'][:200]}")
    for route in found["without"]:
        print(f"nothing asks for {route}: add a question, or a reason in bench/lists/routes.py")
    sys.exit(1 if slow or found["without"] else 0)


if __name__ == "__main__":
    main()
