"""What a run leaves: bytes of each table and stream per run, and what a million runs take.

Four kinds of runs are measured one after the other on an embedded platform with fsync on: `answer` (a decision and no
call), `steps` (ten calls of W1, ~200 bytes in and out), `documents` (three calls with results of 40 KB, which travel
whole) and `blobs` (three with 100 KB, which are stored once and named).
Each table is measured with its indexes and TOAST, after VACUUM, before and after the runs of a kind; what a table has
grown by is divided by the runs. Space that was freed is used again, so figures of one kind include some slack.

`uv run python -m bench.retention [--runs N] [--price USD] [--json FILE]` prints the tables of docs/storage.md. What
a GB costs a month where you are is `--price`. With 1,000 runs of each kind it takes about five minutes.
"""

import argparse
import asyncio
import json
import os
import platform as machine
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import nats

sys.path.insert(0, str(Path(__file__).parents[1]))

from flood import publish
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, script
from workload import decision

PURE, DOCUMENT = "echo_pure", "echo_document"
TOGETHER = 50
DOCUMENTS = 3
DOCUMENT_BYTES = {"documents": 40_000, "blobs": 100_000}
MILLION, GB = 1_000_000, 1_000_000_000
LEAST_BYTES = 1
"""Tables that grow by less for each run are summed up in one row."""

SIZES = """
SELECT coalesce(parent.oid, c.oid)::regclass::text AS name, sum(pg_total_relation_size(c.oid))::bigint AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relkind = 'r' AND n.nspname IN ('runs', 'tas', 'history', 'gateway')
GROUP BY 1
"""
BEHIND = """
SELECT (SELECT count(*) FROM runs.run r WHERE r.ended_at IS NULL)
  + (SELECT count(*) FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id) WHERE coalesce(c.seq, 0) < r.seq)
  + (SELECT count(*) FROM tas.audit_unsealed)
"""

Sizes = dict[str, int]


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def answer() -> dict[str, Any]:
    """Return the decision that ends a run."""
    payload = "The order has been found, and it will arrive on Thursday. " * 4
    return {"action": "RESPOND", "action_reasoning": "r" * 60, "action_details": {"payload": payload}}


def task_of(kind: str, number: int) -> dict[str, Any]:
    """Return the task of one run."""
    if kind == "answer":
        decisions = [answer()]
    elif kind == "steps":
        decisions = script(10, PURE)
    else:
        decisions = [decision(DOCUMENT, number * DOCUMENTS + place) for place in range(DOCUMENTS)]
        for one in decisions:
            asked = one["action_details"]["tool_params"]["n"]
            one["action_details"]["tool_params"] = {"n": asked, "size": DOCUMENT_BYTES[kind]}
        decisions.append(answer())
    network = f"w1-{DOCUMENT if kind in DOCUMENT_BYTES else PURE}"
    message = "Where is my order? It was to arrive on Monday. " * 4
    return {"network": network, "user_message": message, "script": decisions, "max_steps": len(decisions)}


async def submit_all(nc: Any, kind: str, runs: int) -> None:
    """Run so many, TOGETHER at a time, and wait for all."""
    places = asyncio.Semaphore(TOGETHER)

    async def one(number: int) -> None:
        async with places:
            body = json.dumps(task_of(kind, number)).encode()
            reply = json.loads((await nc.request("task.submit", body, timeout=60)).data)
            if "code" in reply:
                raise SystemExit(f"a run was refused: {reply}")
            wait = json.dumps({"run_id": reply["run_id"], "wait_ms": 30_000}).encode()
            view: dict[str, Any] = {}
            while not view.get("ended_at"):
                view = json.loads((await nc.request("task.get.anonymous", wait, timeout=60)).data)
            if view["status"] != "completed":
                raise SystemExit(f"a run ended as {view['status']}: {view['final']}")

    await asyncio.gather(*(one(number) for number in range(runs)))


async def sizes(database: Any, nc: Any) -> Sizes:
    """Return the bytes of each table and stream, once history and audit have caught up and tables are vacuumed."""
    while await database.fetchval(BEHIND):  # noqa: ASYNC110 - a database has no event to wait for
        await asyncio.sleep(0.5)
    await database.execute("VACUUM")
    found = {row["name"]: row["bytes"] for row in await database.fetch(SIZES)}
    for stream in await nc.jetstream().streams_info():
        found[f"stream {stream.config.name}"] = stream.state.bytes
    return found


async def measure(runs: int) -> dict[str, Sizes]:
    """Return what each kind of run adds to each table and stream."""
    grown: dict[str, Sizes] = {}
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), concurrency=64)],
        )
        async with platform:
            database = await asyncpg.connect(platform.dsn())
            controls = [await publish(platform, tool) for tool in (PURE, DOCUMENT)]
            nc = await nats.connect(platform.nats_url)
            core = await nats.connect(platform.nats_url_of("deploy"), inbox_prefix=b"_INBOX_deploy")
            for kind in ("answer", "steps", *DOCUMENT_BYTES):
                await submit_all(nc, kind, TOGETHER)
                before = await sizes(database, core)
                say(f"{runs} runs of {kind}")
                await submit_all(nc, kind, runs)
                after = await sizes(database, core)
                grown[kind] = {name: after[name] - before.get(name, 0) for name in after}
            for connection in (*controls, nc, core):
                await connection.close()
            await database.close()
    return grown


def table(grown: dict[str, Sizes], runs: int) -> list[str]:
    """Return the rows of the documented table: bytes per run, by table and kind."""
    names = sorted({name for sizes in grown.values() for name in sizes}, key=lambda one: -grown["steps"].get(one, 0))
    lines = [f"| bytes per run | {' | '.join(f'`{kind}`' for kind in grown)} |", "|---|" + "---|" * len(grown)]
    rest = dict.fromkeys(grown, 0.0)
    for name in names:
        per_run = {kind: grown[kind].get(name, 0) / runs for kind in grown}
        if name.startswith("stream ") or max(per_run.values()) < LEAST_BYTES:
            rest = rest if name.startswith("stream ") else {kind: rest[kind] + per_run[kind] for kind in grown}
            continue
        lines.append(f"| `{name}` | {' | '.join(f'{per_run[kind]:,.0f}' for kind in grown)} |")
    lines.append(f"| all others | {' | '.join(f'{rest[kind]:,.0f}' for kind in grown)} |")
    return lines


def totals(grown: dict[str, Sizes], runs: int, price: float) -> list[str]:
    """Return what a million runs of each kind take in Postgres, and what that costs a month."""
    lines = ["| | bytes per run in Postgres | GB per million runs | USD a month |", "|---|---|---|---|"]
    for kind, added in grown.items():
        per_run = sum(size for name, size in added.items() if not name.startswith("stream ")) / runs
        gigabytes = per_run * MILLION / GB
        lines.append(f"| `{kind}` | {per_run:,.0f} | {gigabytes:,.1f} | {gigabytes * price:,.2f} |")
    streams = {name for added in grown.values() for name in added if name.startswith("stream ")}
    lines += ["", "| bytes per run in a stream | " + " | ".join(f"`{kind}`" for kind in grown) + " |"]
    lines.append("|---|" + "---|" * len(grown))
    for name in sorted(streams):
        added = [grown[kind].get(name, 0) / runs for kind in grown]
        if max(added) >= LEAST_BYTES:
            lines.append(f"| `{name.removeprefix('stream ')}` | {' | '.join(f'{one:,.0f}' for one in added)} |")
    return lines


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--price", type=float, default=0.12, help="USD for a GB and month")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    grown = asyncio.run(measure(options.runs))
    said = f"{options.runs:,} runs of each kind; {os.cpu_count()} cores, {machine.system()} {machine.machine()}"
    print("\n".join([said, "", *table(grown, options.runs), "", *totals(grown, options.runs, options.price)]))
    if options.json is not None:
        options.json.write_text(json.dumps({"runs": options.runs, "grown": grown}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
