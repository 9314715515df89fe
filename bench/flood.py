"""A flood: thousands of tasks submitted at once. How much memory does every process need, and does everything end?

Every process is a real one, Postgres has fsync on. Prints one JSON line. Usage:
`uv run python bench/flood.py [--tasks 10000] [--steps 1] [--http 0] [--active 1000] [--replicas 1] [--other 0]`.
With `--other 10` a second caller submits 10 while the first one's tasks wait: what does it notice of them? With
`--callers 30` too the flood is of 30 callers of one project, and the other caller of another project, with a worker of
its own; `--tool echo_paced` is a slow tool.
A refused task (429 or 503 with Retry-After, or the same as a Problem over NATS) is submitted again when it says so.
"""

import argparse
import asyncio
import json
import statistics
import time
import uuid
from collections import Counter
from typing import Any

import asyncpg
import httpx2
import nats

from processes import Memory
from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.tools.access import ApplyPolicy
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, SCALED, network, script

TOOL = "echo_pure"
POLICY = HERE / "w1-policy.yaml"
MIB = 1024 * 1024


async def by_nats(nc: Any, task: dict[str, Any], refusals: Counter[str], subject: str = "task.submit") -> float:
    """Submit until it is accepted, under one key; returns when that was."""
    body = json.dumps({**task, "idempotency_key": uuid.uuid4().hex}).encode()
    while True:
        answer = json.loads((await nc.request(subject, body, timeout=300)).data)
        if "run_id" in answer and "code" not in answer:
            return time.perf_counter()
        if not answer.get("retryable"):
            raise SystemExit(f"a task was refused for good: {answer}")
        refusals[f"nats {answer['status']} {answer['code']}"] += 1
        await asyncio.sleep(answer["retry_after_s"])


async def by_http(client: httpx2.AsyncClient, task: dict[str, Any], refusals: Counter[str]) -> float:
    """Submit until it is accepted, under one key, since a lost answer tells nothing; returns when that was."""
    key = {"Idempotency-Key": uuid.uuid4().hex}
    while True:
        try:
            answer = await client.post("/v1/runs", json=task, headers=key)
        except httpx2.TransportError as error:
            refusals[f"http {type(error).__name__}"] += 1
            await asyncio.sleep(1)
            continue
        if answer.status_code == 202:
            return time.perf_counter()
        if answer.status_code not in {429, 503}:
            raise SystemExit(f"a task was refused for good: {answer.status_code} {answer.text}")
        refusals[f"http {answer.status_code}"] += 1
        await asyncio.sleep(float(answer.headers["retry-after"]))


async def ended(connection: Any, tasks: int) -> dict[str, int]:
    """Wait until *tasks* runs have ended; returns how many have which status."""
    while True:
        rows = await connection.fetch(
            "SELECT status, count(*) AS n, count(ended_at) AS e FROM runs.run GROUP BY status"
        )
        if sum(row["e"] for row in rows) >= tasks:
            return {row["status"]: row["n"] for row in rows}
        await asyncio.sleep(1)


async def publish(platform: Platform, tool: str = TOOL) -> Any:
    """Publish the network with *tool*; returns a connection that may submit for every caller."""
    control = await nats.connect(platform.nats_url_of("gateway"), inbox_prefix=b"_INBOX_gateway")
    body = PublishNetwork(project="default", actor="bench", spec=network(tool)).model_dump_json()
    await control.request(rpc.PUBLISH_NETWORK.subject, body.encode(), timeout=10)
    return control


async def served(control: Any, connection: Any, task: dict[str, Any], options: argparse.Namespace) -> list[float]:
    """Submit the other caller's tasks at once; returns the seconds that each took from its submit to its end."""
    submitted = time.time()
    await asyncio.gather(*(by_nats(control, task, Counter(), "task.submit.other") for _ in range(options.other)))
    text = (
        "SELECT extract(epoch FROM ended_at)::float AS at FROM runs.run WHERE caller = 'other'"
        " AND created_at >= to_timestamp($1)"
    )
    while True:
        rows = await connection.fetch(text, submitted)
        if len(rows) == options.other and all(row["at"] is not None for row in rows):
            return [row["at"] - submitted for row in rows]
        await asyncio.sleep(0.1)


async def flooded(connection: Any, least: int) -> int:
    """Wait until *least* runs of the flood have ended; returns how many have."""
    while True:
        text = "SELECT count(*) FROM runs.run WHERE caller <> 'other' AND ended_at IS NOT NULL"
        count: int = await connection.fetchval(text)
        if count >= least:
            return count
        await asyncio.sleep(0.1)


async def give(control: Any, method: rpc.RpcMethod, request: Any) -> None:
    """Ask a service for something, as the gateway does; ends where it is refused."""
    answer = await control.request(method.subject, request.model_dump_json().encode(), timeout=30)
    if (answer.headers or {}).get(rpc.PROBLEM_HEADER):
        raise SystemExit(answer.data.decode())


async def two_callers(platform: Platform, options: argparse.Namespace) -> dict[str, Any]:
    """Let one caller submit its tasks alone, and then in the middle of another's flood; the medians tell the price."""
    connection = await asyncpg.connect(platform.dsn())
    callers = [f"flood{place}" for place in range(options.callers)]
    other = "default" if options.callers == 1 else "other"
    await connection.executemany(
        "INSERT INTO gateway.principal (caller, project) VALUES ($1, $2)",
        [*((caller, "default") for caller in callers), ("other", other)],
    )
    control = await publish(platform, options.tool)
    if other != "default":
        await give(control, rpc.APPLY_POLICY, ApplyPolicy(project=other, actor="bench", text=POLICY.read_text()))
        await give(
            control, rpc.PUBLISH_NETWORK, PublishNetwork(project=other, actor="bench", spec=network(options.tool))
        )
    task = {"network": f"w1-{options.tool}", "user_message": "go", "script": script(options.steps, options.tool)}
    await served(control, connection, task, options)  # not counted: everything is new to everybody
    alone = [took for _ in range(3) for took in await served(control, connection, task, options)]
    refusals: Counter[str] = Counter()
    started = time.perf_counter()
    whose = [f"task.submit.{callers[place % len(callers)]}" for place in range(options.tasks)]
    flooding = asyncio.gather(*(by_nats(control, task, refusals, subject) for subject in whose))
    before = await flooded(connection, options.tasks // 10)
    among = await served(control, connection, task, options)
    after = await flooded(connection, 0)
    accepted_s = max(await flooding) - started
    statuses = await ended(connection, options.tasks + 5 * options.other)
    took_s = time.perf_counter() - started
    await connection.close()
    await control.close()
    return {
        "tasks": options.tasks,
        "callers": options.callers,
        "other": options.other,
        "flood_ended_when_the_other_came": before,
        "flood_ended_when_the_other_was_served": after,
        "alone_s_p50": round(statistics.median(alone), 3),
        "among_s_p50": round(statistics.median(among), 3),
        "among_s_max": round(max(among), 3),
        "times_as_long": round(statistics.median(among) / statistics.median(alone), 2),
        "accepted_s": round(accepted_s, 1),
        "all_ended_s": round(took_s, 1),
        "steps_per_s": round(options.tasks * (options.steps + 1) / took_s, 1),
        "refusals": dict(refusals),
        "statuses": statuses,
    }


async def flood(platform: Platform, options: argparse.Namespace) -> dict[str, Any]:
    """Submit everything at once and wait for the end."""
    nc = await nats.connect(platform.nats_url)
    await (await publish(platform)).close()
    task = {"network": f"w1-{TOOL}", "user_message": "go", "script": script(options.steps, TOOL)}
    refusals: Counter[str] = Counter()
    limits = httpx2.Limits(max_connections=options.http or 1)
    started = time.perf_counter()
    async with httpx2.AsyncClient(base_url=platform.client_url, timeout=300, limits=limits) as client:
        accepted = await asyncio.gather(
            *(by_nats(nc, task, refusals) for _ in range(options.tasks - options.http)),
            *(by_http(client, task, refusals) for _ in range(options.http)),
        )
    await nc.close()
    connection = await asyncpg.connect(platform.dsn())
    statuses = await ended(connection, options.tasks)
    took = time.perf_counter() - started
    waits = await connection.fetch("SELECT extract(epoch FROM started_at - created_at)::float AS s FROM runs.run")
    await connection.close()
    waited = sorted(row["s"] for row in waits if row["s"] is not None)
    return {
        "tasks": options.tasks,
        "over_http": options.http,
        "accepted_s": round(max(accepted) - started, 1),
        "refusals": dict(refusals),
        "statuses": statuses,
        "all_ended_s": round(took, 1),
        "steps_per_s": round(options.tasks * (options.steps + 1) / took, 1),
        "start_wait_s_p50": round(statistics.median(waited), 2),
        "start_wait_s_p99": round(waited[int(len(waited) * 0.99)], 2),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the platform, flood it, stop it."""
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            replicas=dict.fromkeys(SCALED, options.replicas),
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(POLICY)},
                "orchestrator": {"TOWPATH_MAX_ACTIVE_RUNS": str(options.active)},
            },
            workers=[
                WorkerLaunch(
                    modules=(str(HERE / "echo_tools.py"),),
                    count=options.replicas,
                    concurrency=64,
                    environment={"TOWPATH_PROJECT": project},
                )
                for project in ("default", "other")[: min(2, options.callers)]
            ],
        )
        async with platform:
            memory = Memory()
            memory.sample()
            watching = asyncio.create_task(memory.watch())
            found = await (two_callers if options.other else flood)(platform, options)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            restarts = sum(state.restarts for state in platform.processes.values())
    idle = {name: round(used / MIB, 1) for name, used in memory.idle.items()}
    peak = {name: round(used / MIB, 1) for name, used in memory.peak.items()}
    return {"workload": "flood", **found, "restarts": restarts, "memory_mib_idle": idle, "memory_mib_peak": peak}


def main() -> None:
    """Parse the arguments, print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--http", type=int, default=0)
    parser.add_argument("--active", type=int, default=1_000, help="runs under way at once; few make a queue")
    parser.add_argument("--other", type=int, default=0, help="tasks of a second caller, submitted after the first's")
    parser.add_argument(
        "--callers", type=int, default=1, help="callers that flood; the other's project is another's then"
    )
    parser.add_argument("--tool", default=TOOL, help="the tool of both callers' runs, of bench/echo_tools.py")
    parser.add_argument("--replicas", type=int, default=1)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
