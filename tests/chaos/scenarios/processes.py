"""Processes that are frozen, hang on a dead connection, are asked to end, or get no redelivery.

What must hold: what a process does after it was frozen for longer than its lease is evidence and nothing else; a
graceful end leaves no call unknown; runs go on from Postgres alone where the broker redelivers nothing.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from random import Random
from typing import Final

from nats.aio.client import Client
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad, connect
from tests.chaos.load.tools import PAUSE_VARIABLE
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.scenarios.messages import finish, metric
from tests.chaos.servers.half_open import HalfOpenProxy, half_open_proxy

from towpath_contracts import rpc
from towpath_contracts.runs.views import ResolveGate
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.processes.ports import free_port
from towpath_fabric.clock import monotonic

SETTLE_S: Final = 240.0
LEASE_TIMEOUT_S: Final = 90.0
"""How long the lease of a call may take to be found over: leases are 8 s, and its run asks every few seconds."""

MOST_TIMES: Final = 10
"""How many times more strikes than asked for are made until something had to be sent again."""

REPORTED_S: Final = 1.0
"""What a process reported before it was stopped is in the ledger after this time."""

SLOW: Final = {"worker": {PAUSE_VARIABLE: "0.3"}}
"""With tools of this length a worker holds claims at any moment."""

TIME_TO_END: Final = {"TOWPATH_STOP_GRACE_S": "10"}
"""What services have by default: those of a platform that keeps nothing end sooner."""

QUEUES: Final = {"INBOX": "orchestrator", "TOOLREQ": "tas", "TOOLOUT": "tas", "DECIDE": "decide_default"}
"""What only Postgres repeats here. Of TOOLEXEC the broker remembers every id for two minutes, also of what it
was purged of, so that a call dispatched again would be dropped: no fault does that, only this scenario."""

TOOL_QUEUES: Final = ("TOOLREQ", "TOOLOUT")
"""What is lost here is asked for again after 5 s."""

Groups = Sequence[Sequence[str]]
PAIRS: Final = {"orchestrator": 2, "tas": 2, "decider": 2}
FIRST: Final = ("orchestrator", "tas", "decider", "log_writer", "gateway", "worker")
SECOND: Final = ("orchestrator-2", "tas-2", "decider-2", "worker-2")
STOPPED: Final = ("orchestrator-2", "tas-2", "log_writer", "gateway", "worker-2")
"""One of each: where there are two, the other goes on."""


_CLAIMED = (
    "SELECT count(*) AS n FROM tas.tool_call"
    " WHERE status = 'started' AND effect_class = 'irreversible' AND position($1 in claims) > 0"
)
_GIVEN_UP = (
    "SELECT count(*) AS n FROM tas.tool_call"
    " WHERE status = 'unknown' AND effect_class = 'irreversible' AND position($1 in claims) > 0"
)
_TOO_LATE = (
    "SELECT count(*) AS n FROM tas.audit_entry late JOIN tas.audit_entry gone USING (execution_id)"
    " WHERE gone.verdict = 'unknown' AND late.entry_id > gone.entry_id AND late.actor = $1"
)
"""What a worker reports about a call that was given up: evidence, or the outcome that settles it."""

_DOUBTS = (
    "SELECT gate_id::text, execution_id::text FROM runs.gate WHERE status = 'pending' AND gate_type = 'unknown_effect'"
)


async def freeze_processes(
    work: SteadyLoad, findings: ScenarioFindings, names: Sequence[str], *, runs: int, line: HalfOpenProxy | None = None
) -> None:
    """Stop the processes *names* while they hold work, until a lease is over; then let them go on.

    The last of *names* is a worker. A *line* is left half open at the same moment.
    """
    worker = names[-1]
    await _freeze_during_call(work, worker, runs)
    before = work.platform.processes
    for name in names[:-1]:
        work.platform.signal(name, signal.SIGSTOP)
    if line is not None:
        line.freeze()
    try:
        await _count(work, _GIVEN_UP, worker)
    finally:
        for name in names:
            work.platform.signal(name, signal.SIGCONT)
    too_late = await _count(work, _TOO_LATE, worker)
    await settle_unknown_calls(work)
    findings.figures.update(stopped=len(names), too_late=too_late)
    after = work.platform.processes
    ended = [name for name in names if after[name].restarts != before[name].restarts]
    findings.require(not ended, f"stopped processes ended instead of going on: {ended}")


async def _freeze_during_call(work: SteadyLoad, worker: str, runs: int) -> None:
    """Stop *worker* in the middle of a call that may not happen twice."""
    while True:
        if await work.ended() == len(work.run_ids):
            await work.submit(runs)
        await _count(work, _CLAIMED, worker)
        work.platform.signal(worker, signal.SIGSTOP)
        await asyncio.sleep(REPORTED_S)
        rows = await work.rows(_CLAIMED, worker)
        if rows and rows[0]["n"]:
            return
        work.platform.signal(worker, signal.SIGCONT)  # it had just request how the call ended


async def _count(work: SteadyLoad, statement: str, worker: str) -> int:
    """Wait until *statement* counts something of *worker*; return how much."""
    end = monotonic() + LEASE_TIMEOUT_S
    while not ((rows := await work.rows(statement, worker)) and rows[0]["n"]):
        if monotonic() > end:
            raise TimeoutError(f"nothing of {worker} after {LEASE_TIMEOUT_S} s: {statement}")
        await asyncio.sleep(0.02)
    return int(rows[0]["n"])


async def settle_unknown_calls(work: SteadyLoad) -> None:
    """Wait for the end of all runs; every unknown call is resolved as the outside file shows."""
    gateway = await connect(work.platform.nats_url_of("gateway"), inbox=b"_INBOX_gateway")
    end = monotonic() + SETTLE_S
    try:
        while await work.ended() != len(work.run_ids):
            if monotonic() > end:
                raise TimeoutError(f"{await work.ended()} of {len(work.run_ids)} runs had ended")
            marks = {mark.execution_id for mark in read_marks(work.outside)}
            for gate in await work.rows(_DOUBTS) or ():
                await _resolve_gate(gateway, gate["gate_id"], happened=gate["execution_id"] in marks)
            await asyncio.sleep(0.5)
    finally:
        await gateway.close()


async def _resolve_gate(gateway: Client, gate_id: str, *, happened: bool) -> None:
    answer = {"project": "default", "gate_id": gate_id, "actor": "chaos", "reason": "the outside file shows it"}
    verdict = "happened" if happened else "did_not_happen"
    request = ResolveGate.model_validate(answer | {"verdict": verdict, "roles": ["operator"]})
    # Whatever is answered, the next look shows whether the gate is still open.
    await gateway.request(rpc.RESOLVE_GATE.subject, request.model_dump_json().encode(), timeout=30)


async def drain_processes(
    work: SteadyLoad, findings: ScenarioFindings, notices: Sequence[str], groups: Groups, *, runs: int
) -> None:
    """Ask processes to end while they work, group after group; *notices* are those of the platform."""
    for group in groups:
        await work.submit(runs)
        restarts = {name: work.platform.processes[name].restarts for name in group}
        for name in group:
            work.platform.signal(name, signal.SIGTERM)
        async with asyncio.timeout(LEASE_TIMEOUT_S):
            while any(work.platform.processes[name].restarts == restarts[name] for name in group):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        await work.platform.wait_ready()
    await work.until_ended(timeout_s=SETTLE_S)
    asked = sum(map(len, groups))
    clean = sum("ended with status 0;" in notice for notice in notices)
    findings.figures.update(asked_to_end=asked, ended_with_0=clean)
    findings.require(clean == asked, f"not every end was clean: {[n for n in notices if 'started again' in n]}")
    unknown = await work.rows("SELECT 1 FROM tas.audit_entry WHERE verdict = 'unknown'")
    findings.require(unknown == [], "a graceful end left calls unknown")


async def run_without_redelivery(
    work: SteadyLoad,
    findings: ScenarioFindings,
    *,
    seed: int,
    strikes: int,
    runs: int,
    queues: Sequence[str],
    victims: Sequence[str],
) -> None:
    """Take all repetition from the broker's *queues*, and what they hold as well; kill *victims* that hold messages.

    No consumer delivers twice, and whoever dies takes its messages along: only what Postgres remembers comes again. A
    decision that is lost so comes again after the decider's lease, which takes half a minute and more.
    """
    chance = Random(seed)
    deploy = await connect(work.platform.nats_url_of("deploy"), inbox=b"_INBOX_deploy")
    try:
        await work.submit(runs)
        number = 0
        while number < strikes or (number < MOST_TIMES * strikes and not await _resent(work)):
            await _deliver_once(deploy, queues)
            victim = chance.choice(victims)
            work.platform.signal(victim, signal.SIGSTOP)  # so that what comes for it lies in the queues
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            for stream in queues:
                await deploy.request(f"$JS.API.STREAM.PURGE.{stream}", b"", timeout=10)
            if number % 2:
                work.platform.kill(victim)
            else:
                work.platform.signal(victim, signal.SIGCONT)
            if await work.ended() == len(work.run_ids):
                await work.submit(runs)
            number += 1
        await work.platform.wait_ready()
        await _deliver_once(deploy, queues)
        await work.until_ended(timeout_s=SETTLE_S)
    finally:
        await deploy.close()
    resent = await _resent(work)
    findings.figures.update(purged=number, resent=resent)
    findings.require(resent > 0, "nothing was sent again by the reconciler: nothing was shown")


async def _resent(work: SteadyLoad) -> int:
    names = [name for name in work.platform.processes if name.split("-")[0] == "orchestrator"]
    await work.platform.wait_ready()
    return sum([await asyncio.to_thread(metric, work, name, "towpath_effects_resent_total") for name in names])


async def _deliver_once(deploy: Client, queues: Sequence[str]) -> None:
    for stream in queues:
        durable = QUEUES[stream]
        found = json.loads((await deploy.request(f"$JS.API.CONSUMER.INFO.{stream}.{durable}", b"", timeout=10)).data)
        if "config" not in found:
            continue  # it is not bound yet
        body = {"stream_name": stream, "config": found["config"] | {"max_deliver": 1}}
        subject = f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{durable}"
        answer = json.loads((await deploy.request(subject, json.dumps(body).encode(), timeout=10)).data)
        if "error" in answer:
            raise RuntimeError(f"{durable} can't be set to deliver once: {answer['error']}")


async def _stopped(context: ScenarioContext) -> ScenarioReport:
    findings = ScenarioFindings()
    port = free_port()
    async with half_open_proxy(port) as line:
        environment = {**SLOW, "decider": {"TOWPATH_NATS_URL": f"nats://127.0.0.1:{line.port}"}}
        options = {"replicas": PAIRS, "role_environment": environment, "nats_port": port, "notice": context.notice}
        async with SteadyLoad(context.folder, workers=2, **options) as work:
            for _ in range(10 if context.long else 1):
                await freeze_processes(work, findings, STOPPED, runs=40 if context.long else 20, line=line)
            return await finish(work, findings)


async def _drained(context: ScenarioContext) -> ScenarioReport:
    findings, notices = ScenarioFindings(), list[str]()
    grace = {"TOWPATH_STOP_GRACE_S": "30"} if context.long else TIME_TO_END
    options = {"replicas": PAIRS, "role_environment": SLOW, "environment": grace, "notice": notices.append}
    async with SteadyLoad(context.folder, workers=2, **options) as work:
        groups = [(name,) for name in (*FIRST, *SECOND)] * 3 if context.long else [FIRST, SECOND]
        await drain_processes(work, findings, notices, groups, runs=10)
        return await finish(work, findings)


async def _nothing_twice(context: ScenarioContext) -> ScenarioReport:
    async with SteadyLoad(context.folder, notice=context.notice) as work:
        findings = ScenarioFindings()
        queues, victims = (
            (tuple(QUEUES), ("orchestrator", "tas", "decider")) if context.long else (TOOL_QUEUES, ("tas",))
        )
        strikes = 60 if context.long else 6
        await run_without_redelivery(
            work, findings, seed=context.seed, strikes=strikes, runs=30, queues=queues, victims=victims
        )
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=10, name="processes-stopped", summary="stop processes for longer than their leases", run=_stopped),
    Scenario(number=19, name="processes-drained", summary="ask every process to end while it works", run=_drained),
    Scenario(number=29, name="reconciler-alone", summary="take all repetition from the broker", run=_nothing_twice),
)
