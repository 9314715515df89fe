"""The broker is killed, loses its data, gets an old copy back, or finds its files damaged.

What must hold: every accepted run completes and no effect happens twice, whatever the broker remembers; nothing is
done by hand.
"""

from typing import Final

from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.servers.broker_store import DAMAGES, copy_store, restore_store

SETTLE_S: Final = 240.0
LONGEST_PAUSE_S: Final = 0.5
"""A broker that is killed every second would otherwise be left down for most of the time."""

SLOWLY_MS: Final = 50
"""Of every decision, so that runs are still under way when the fault comes."""


async def kill_under_load(work: SteadyLoad, findings: ScenarioFindings, *, runs: int, kills: int) -> None:
    """Kill the broker *kills* times, each time while runs move."""
    longest, restarts = 0.0, work.platform.processes["nats"].restarts
    for _ in range(kills):
        if (await work.ended() or 0) > len(work.run_ids) - runs // 2:
            await work.submit(runs, delay_ms=SLOWLY_MS)
        await work.platform.wait_ready()
        work.platform.kill("nats")
        known = await work.events() or 0
        longest = max(longest, await work.resumed(known))
    await work.platform.wait_ready()
    counted = work.platform.processes["nats"].restarts - restarts
    findings.require(counted >= kills, f"of {kills} kills only {counted} hit")
    findings.figures.update(kills=kills, longest_stop_s=round(longest, 2))


async def lose_everything(work: SteadyLoad, findings: ScenarioFindings, *, runs: int) -> None:
    """Delete the broker's whole data directory when a third of *runs* have ended."""
    await work.submit(runs, delay_ms=SLOWLY_MS)
    await work.until_ended(0.3)
    await work.platform.hold("nats")
    findings.figures["unfinished_then"] = len(work.run_ids) - (await work.ended() or 0)
    DAMAGES["deleted"].do(work.platform.nats.store)
    known = await work.events() or 0
    work.platform.release("nats")
    findings.figures["resumed_after_s"] = round(await work.resumed(known), 2)


async def restore_old_copy(work: SteadyLoad, findings: ScenarioFindings, *, runs: int) -> None:
    """Copy the broker's store early, let most of *runs* end, and put the copy back under today's database."""
    copy = work.outside.parent / "yesterday"
    await work.submit(runs, delay_ms=SLOWLY_MS)
    await work.until_ended(0.1)
    await work.platform.hold("nats")
    copy_store(work.platform.nats.store, copy)
    work.platform.release("nats")
    await work.until_ended(0.6)
    await work.submit(runs // 2)
    await work.platform.hold("nats")
    restore_store(copy, work.platform.nats.store)
    known = await work.events() or 0
    work.platform.release("nats")
    findings.figures["resumed_after_restore_s"] = round(await work.resumed(known), 2)


async def damage(work: SteadyLoad, findings: ScenarioFindings, name: str, *, runs: int) -> None:
    """Do the damage *name* to the store of the broker while runs are under way."""
    await work.submit(runs, delay_ms=SLOWLY_MS)
    await work.until_ended(max(0.0, 1 - 0.7 * runs / len(work.run_ids)))
    await work.platform.hold("nats")
    DAMAGES[name].do(work.platform.nats.store)
    known = await work.events() or 0
    work.platform.release("nats")
    findings.figures[f"resumed_after_{name.replace('-', '_')}_s"] = round(await work.resumed(known), 2)


async def finish(work: SteadyLoad, findings: ScenarioFindings) -> ScenarioReport:
    """Wait until everything has ended by itself, and judge it."""
    await work.until_ended(timeout_s=SETTLE_S)
    findings.add_verdict(await work.verdict())
    return findings.report()


def _work(context: ScenarioContext) -> SteadyLoad:
    replicas = dict.fromkeys(("orchestrator", "tas", "decider"), 2 if context.long else 1)
    workers = 2 if context.long else 1
    return SteadyLoad(
        context.folder, replicas=replicas, workers=workers, notice=context.notice, longest_pause_s=LONGEST_PAUSE_S
    )


async def _kills(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        await kill_under_load(work, findings, runs=100 if context.long else 30, kills=30 if context.long else 5)
        return await finish(work, findings)


async def _loss(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        await lose_everything(work, findings, runs=200 if context.long else 60)
        return await finish(work, findings)


async def _old_copy(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        await restore_old_copy(work, findings, runs=150 if context.long else 40)
        return await finish(work, findings)


async def _damages(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        for name in DAMAGES if context.long else ("bit-flips", "zero-consumers"):
            await damage(work, findings, name, runs=40 if context.long else 20)
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=3, name="broker-kills", summary="kill the broker under load, again and again", run=_kills),
    Scenario(number=8, name="broker-damaged", summary="damage the broker's files in every known way", run=_damages),
    Scenario(number=8, name="broker-lost", summary="delete the broker's data in the middle of runs", run=_loss),
    Scenario(number=30, name="broker-restored", summary="yesterday's broker, today's database", run=_old_copy),
)
