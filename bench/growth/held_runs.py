"""What runs cost that wait: in the queue, and for a person."""

import asyncio
import statistics
import time
from collections import Counter
from typing import Any

from compare import say
from flood import by_nats
from growth.platform import APPROVED, LOOK_S, PURE, ROOT, Found, Scene, Sizes, growth, seconds_of_services
from harness import MIB
from processes import machine_seconds, memory_by_name, processor_seconds
from towpath_contracts import rpc
from towpath_contracts.runs.views import ResolveGate
from w1 import script


def megabytes(memory: dict[str, int]) -> dict[str, float]:
    """Return the memory of every process but this one, and of all together."""
    services = {name: round(used / MIB, 1) for name, used in sorted(memory.items()) if name != "client"}
    return {**services, "all": round(sum(services.values()), 1)}


async def submit(at: Scene, tool: str, runs: int) -> Counter[str]:
    """Submit *runs* runs of one call at once; returns how often one was refused for a while."""
    refusals: Counter[str] = Counter()
    task = {"network": f"w1-{tool}", "user_message": "go", "script": script(1, tool)}
    await asyncio.gather(*(by_nats(at.control, task, refusals, "task.submit.anonymous") for _ in range(runs)))
    return refusals


async def reached(database: Any, condition: str, least: int) -> int:
    """Wait until at least *least* runs meet a *condition*; returns how many do."""
    while True:
        count: int = await database.fetchval(f"SELECT count(*) FROM runs.run WHERE {condition}")
        if count >= least:
            return count
        await asyncio.sleep(LOOK_S)


async def nothing_left(database: Any) -> None:
    """Wait until every run has ended."""
    while True:
        if not await database.fetchval("SELECT EXISTS (SELECT FROM runs.run WHERE ended_at IS NULL)"):
            return
        await asyncio.sleep(LOOK_S)


async def work_off(at: Scene, runs: int, sizes: Sizes) -> Found:
    """Let *runs* runs queue up without a decider, then measure while the first ones are executed."""
    executed = sizes.executed
    done = await at.database.fetchval("SELECT count(*) FROM runs.run WHERE ended_at IS NOT NULL")
    before = memory_by_name(ROOT)
    started = time.perf_counter()
    await at.platform.hold("decider", gracefully=True)
    refusals = await submit(at, PURE, runs)
    accepted_s = time.perf_counter() - started
    await asyncio.sleep(sizes.settle_s)
    with_all = memory_by_name(ROOT)
    waiting = await at.database.fetchval("SELECT count(*) FROM runs.run WHERE status = 'queued'")
    at.platform.release("decider")
    await at.platform.wait_ready()
    ended = "ended_at IS NOT NULL"
    first = await reached(at.database, ended, done + executed // 10)
    seconds, busy, begun = seconds_of_services(), machine_seconds(), time.perf_counter()
    last = await reached(at.database, ended, done + executed)
    took, cost = time.perf_counter() - begun, seconds_of_services() - seconds
    others = max(0.0, machine_seconds() - busy - cost)
    executing = memory_by_name(ROOT)
    steps = 2 * (last - first)  # the call and the answer
    return {
        "runs": runs,
        "queued": waiting,
        "refusals": dict(refusals),
        "accepted_s": round(accepted_s, 1),
        "measured_runs": last - first,
        "steps_per_s": round(steps / took, 1),
        "cpu_ms_per_step": round(cost * 1000 / steps, 3),
        "cpu_s_of_others": round(others, 1),
        "memory_mb_before": megabytes(before),
        "memory_mb_queued": megabytes(with_all),
        "memory_mb_executing": megabytes(executing),
    }


async def measure_queued(at: Scene, sizes: Sizes) -> Found:
    """Measure the same number of runs from a short queue and from a long one."""
    say(f"queued: {sizes.executed} runs")
    short = await work_off(at, sizes.executed, sizes)
    await nothing_left(at.database)
    await asyncio.sleep(sizes.settle_s)
    say(f"queued: {sizes.queued} runs")
    long = await work_off(at, sizes.queued, sizes)
    times = growth(long["cpu_ms_per_step"], short["cpu_ms_per_step"])
    return {"active": sizes.active, "short": short, "long": long, "times_the_cpu": times}


async def wake(at: Scene) -> float:
    """Approve the oldest call that waits; returns the milliseconds until its run has ended."""
    gate = await at.database.fetchrow(
        "SELECT run_id, gate_id, approval_id FROM runs.gate WHERE status = 'pending' ORDER BY opened_at LIMIT 1"
    )
    word = ResolveGate(
        project="default",
        gate_id=gate["gate_id"],
        approval_id=gate["approval_id"],
        verdict="approved",
        actor="bench",
        roles=("approver",),
    )
    approved = time.time()
    reply = await at.control.request(rpc.RESOLVE_APPROVAL.subject, word.model_dump_json().encode(), timeout=30)
    if rpc.PROBLEM_HEADER in (reply.headers or {}):
        raise SystemExit(f"an approval was refused: {reply.data.decode()}")
    while True:
        text = "SELECT extract(epoch FROM ended_at)::float FROM runs.run WHERE run_id = $1"
        ended: float | None = await at.database.fetchval(text, gate["run_id"])
        if ended is not None:
            return (ended - approved) * 1000
        await asyncio.sleep(LOOK_S)


async def park(at: Scene, runs: int, sizes: Sizes) -> Found:
    """Let *runs* runs wait for an approval, measure the idle platform, and wake a few."""
    await submit(at, APPROVED, runs)
    waiting = await reached(at.database, "status = 'waiting'", runs)
    await asyncio.sleep(sizes.settle_s)
    found = await idle(sizes.idle_s)
    wakes = sorted([await wake(at) for _ in range(sizes.few)])
    return {
        "parked": waiting,
        **found,
        "wakes": len(wakes),
        "wake_ms_p50": round(statistics.median(wakes), 1),
        "wake_ms_max": round(wakes[-1], 1),
    }


async def idle(lasting_s: float) -> Found:
    """Measure the processor time and the memory of every process while nothing is asked."""
    before, started = processor_seconds(ROOT), time.perf_counter()
    await asyncio.sleep(lasting_s)
    took, after = time.perf_counter() - started, processor_seconds(ROOT)
    used = {name: (after[name] - before.get(name, 0.0)) * 1000 / took for name in sorted(after) if name != "client"}
    return {
        "cpu_ms_per_s": {**{name: round(ms, 2) for name, ms in used.items()}, "all": round(sum(used.values()), 2)},
        "memory_mb": megabytes(memory_by_name(ROOT)),
    }


async def measure_parked(at: Scene, sizes: Sizes) -> Found:
    """Measure a platform without parked runs, with a few, and with many."""
    await nothing_left(at.database)
    await asyncio.sleep(sizes.settle_s)
    say("parked: none")
    none = await idle(sizes.idle_s)
    say(f"parked: {sizes.few} runs")
    few = await park(at, sizes.few, sizes)
    say(f"parked: {sizes.parked} runs")
    many = await park(at, sizes.parked, sizes)
    return {"none": none, "few": few, "many": many}
