"""Messages that no client should send, and the platform's own messages repeated, late and in any order.

What must hold: no process ends, the messages have no effect, requests are answered, unreadable messages become dead
letters once, and the runs end as they would have without them.
"""

import asyncio
import re
from collections import Counter
from random import Random
from typing import Final
from urllib.request import urlopen

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import NETWORK, SteadyLoad, scripted_decisions
from tests.chaos.load.tools import TOOL_NAMES, TOOLSET
from tests.chaos.messages.hostile_messages import InjectedMessages, inject_hostile_messages
from tests.chaos.messages.noise import STREAMS, noise
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.support.platform.broker_queues import queued_messages

from towpath_contracts import subjects
from towpath_embedded.chaos.comparison import describe_difference
from towpath_embedded.chaos.stored_runs import read_record
from towpath_fabric.clock import monotonic

SETTLE_S: Final = 240.0
QUIET_S: Final = 120.0
"""How long the queues may take to be empty: a message is tried five times before it is set aside."""

TWO_OF_EACH: Final = {"orchestrator": 2, "tas": 2}
MOST_ROUNDS: Final = 6


async def send_hostile_messages(
    work: SteadyLoad, findings: ScenarioFindings, *, seed: int, rounds: int, runs: int = 10
) -> InjectedMessages:
    """Send hostile messages everywhere while runs go on; their victims are runs of their own.

    A victim may come to any end, since some of what is sent about it is in good form and from a permitted client.
    """
    before = {name: state.restarts for name, state in work.platform.processes.items()}
    victims = await work.submit(5, steps=20)
    work.run_ids.clear()
    known = {"run_id": tuple(victims), "network": (NETWORK,), "tool": TOOL_NAMES, "toolset": (TOOLSET,)}
    known |= {"project": ("default",), "agent_key": ("marker",), "caller": (subjects.ANONYMOUS,)}
    injecting = asyncio.create_task(
        inject_hostile_messages(work.platform, seed=seed, rounds=rounds, known=known, toolset=TOOLSET)
    )
    await work.submit(runs)
    injected = await injecting
    await work.submit(runs // 2)
    await work.until_ended(timeout_s=SETTLE_S)
    findings.require(await _empty(work) == {}, f"messages were left in the queues: {await _queues(work)}")
    await work.platform.wait_ready()
    after = {name: state.restarts for name, state in work.platform.processes.items()}
    findings.require(after == before, f"processes ended: {after}")
    findings.figures.update(sent=sum(injected.sent.values()), unanswered=len(injected.unanswered))
    findings.figures.update(internal=len(injected.internal), restarts=sum(after.values()) - sum(before.values()))
    findings.problems += [f"no answer to {asked}" for asked in injected.unanswered[:5]]
    findings.problems += [f"unexpected answer {answer}" for answer in injected.internal[:5]]
    await _set_aside_once(work, findings, injected)
    return injected


async def _set_aside_once(work: SteadyLoad, findings: ScenarioFindings, injected: InjectedMessages) -> None:
    rows = await work.rows("SELECT stream, subject, body FROM runs.dead_letter") or []
    dead = Counter((row["subject"], bytes(row["body"])) for row in rows)
    # A subject that is no text arrives escaped, so only its body can be compared.
    sent = Counter[bytes]()
    for (_, body), count in injected.messages.items():
        sent[body] += count
    twice = [body[:80] for (_, body), count in dead.items() if count > sent[body] > 0]
    findings.figures["dead_letters"] = sum(dead.values())
    findings.require(not twice, f"set aside more often than sent: {twice[:3]}")
    findings.require(sum(dead.values()) > 0, "nothing was set aside: the messages can't have arrived")


async def _queues(work: SteadyLoad) -> dict[str, int]:
    """Return how many messages the work streams hold."""
    found = await queued_messages(work.platform)
    return {name: count for name, count in found.items() if name in (*STREAMS, "TASKS") and count}


async def _empty(work: SteadyLoad) -> dict[str, int]:
    """Wait until the work streams are empty; return what they still hold after QUIET_S."""
    end = monotonic() + QUIET_S
    while left := await _queues(work):
        if monotonic() > end:
            return left
        await asyncio.sleep(0.5)
    return {}


async def repeat_messages(
    work: SteadyLoad, findings: ScenarioFindings, *, seed: int, runs: int, longest_s: float
) -> None:
    """Let *runs* go undisturbed, and the same again under noise; all must end equal.

    With two of each service the copies meet both at once: each seq has one winner, and the other reads again. When
    they meet is left to chance, so the noise goes on, MOST_ROUNDS at most, until each kind of meeting was seen: it
    must have happened, or nothing was shown.
    """
    calm = await _same_runs(work, runs, "calm")
    await work.until_ended(timeout_s=SETTLE_S)
    noisy: list[list[str]] = []
    meetings: dict[str, int] = {}
    async with noise(work.platform, Random(seed), longest_s=longest_s) as made:
        while len(noisy) < MOST_ROUNDS and not (noisy and all(meetings.values())):
            noisy.append(await _same_runs(work, runs, f"noisy-{len(noisy)}"))
            await work.until_ended(timeout_s=SETTLE_S)
            meetings = await _count_meetings(work)
    findings.figures.update(meetings)
    findings.require(all(meetings.values()), f"two of a service never met: {meetings}")
    findings.require(await _empty(work) == {}, f"messages were left in the queues: {await _queues(work)}")
    findings.figures.update({f"copies_{stream.lower()}": made.copies[stream] for stream in STREAMS})
    findings.require(all(made.copies[stream] for stream in STREAMS), f"too little was repeated: {made.copies}")
    record = await read_record(work.platform.dsn(), work.run_ids)
    pairs = [pair for again in noisy for pair in zip(calm, again, strict=True)]
    differing = [sentence for pair in pairs if (sentence := describe_difference(record, *pair))]
    findings.figures["differing"] = len(differing)
    findings.problems += differing[:3]


async def _count_meetings(work: SteadyLoad) -> dict[str, int]:
    """Count how often one replica met what another had done."""
    found: dict[str, int] = {}
    for role, name, figure in (
        ("orchestrator", "towpath_seq_conflicts_total", "seq_conflicts"),
        ("orchestrator", "towpath_state_reloads_total", "state_reloads"),
        ("tas", "towpath_tas_redone_total", "ledger_redone"),
    ):
        names = [process for process in work.platform.processes if process.split("-")[0] == role]
        found[figure] = sum([await asyncio.to_thread(metric, work, process, name) for process in names])
    return found


def metric(work: SteadyLoad, process: str, name: str) -> int:
    """Return a counter of *process*, summed over its labels."""
    with urlopen(work.platform.health_url(process) + "/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE)
    return round(sum(float(value) for value in found))


async def _same_runs(work: SteadyLoad, runs: int, kind: str) -> list[str]:
    """Submit runs that are equal whatever *kind* they are."""

    async def one(number: int) -> str:
        task = {"network": NETWORK, "user_message": f"the same {number}", "script": scripted_decisions(6, number)}
        body = {**task, "idempotency_key": f"{kind}-{number}"}
        return str((await work.ask(subjects.TASK_SUBMIT_ANONYMOUS, body, SETTLE_S))["run_id"])

    found = list(await asyncio.gather(*(one(number) for number in range(runs))))
    work.run_ids += found
    return found


async def finish(work: SteadyLoad, findings: ScenarioFindings) -> ScenarioReport:
    """Judge all runs and return the report."""
    findings.add_verdict(await work.verdict())
    return findings.report()


async def _hostile(context: ScenarioContext) -> ScenarioReport:
    async with SteadyLoad(context.folder, notice=context.notice) as work:
        findings = ScenarioFindings()
        await send_hostile_messages(work, findings, seed=context.seed, rounds=80 if context.long else 10)
        return await finish(work, findings)


async def _repeated(context: ScenarioContext) -> ScenarioReport:
    async with SteadyLoad(context.folder, workers=2, replicas=TWO_OF_EACH, notice=context.notice) as work:
        findings = ScenarioFindings()
        runs, longest_s = (150, 60.0) if context.long else (30, 3.0)
        await repeat_messages(work, findings, seed=context.seed, runs=runs, longest_s=longest_s)
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=12, name="messages-again", summary="say every message again, late, in any order", run=_repeated),
    Scenario(number=13, name="messages-hostile", summary="send what no client should, everywhere", run=_hostile),
)
