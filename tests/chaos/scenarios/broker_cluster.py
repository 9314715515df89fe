"""The broker is a cluster of three nodes and loses one, in each of the ways in which machines are lost.

What must hold: every accepted run completes and no effect happens twice in silence. How long runs stood still is
measured from the times in their logs: nats-server waits 4 to 9 seconds before it elects another leader, of each stream
and of each consumer, and no setting changes that, so no more than a part of a pause is the platform's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from tests.chaos.load.clustered_platform import clustered
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.servers.broker_cluster import NODES, BrokerCluster

from towpath_fabric.clock import wall

LEADS: Final = "DECIDE"
"""The stream whose leader is lost: no run takes a step without it."""

WATCHED_S: Final = 20.0
"""How long after a fault pauses are looked for."""

TRIES: Final = 10
"""A busy machine may take longer for an answer than is waited for it once."""

DOWN_S: Final = 5.0
"""How long all three are away."""

LONGEST_PAUSE_S: Final = 12.0
"""An election takes up to 9 s; what comes on top of it is the platform's."""

STEPS: Final = 12
THINKS_MS: Final = 3_000
"""Of every decision: a run is then under way for half a minute, and longer than any fault lasts where many are."""

FEED_S: Final = 0.5

PAUSE = (
    "SELECT max(extract(epoch FROM at - before))::float8 AS pause FROM"
    " (SELECT at, lag(at) OVER (ORDER BY at) AS before FROM runs.run_event"
    "   WHERE at >= to_timestamp($1) - interval '1 s' AND at < to_timestamp($2)) AS moved"
    " WHERE at > to_timestamp($1)"
)
"""The longest time in which no run moved at all."""

_PAUSE_OF_ONE = (
    "SELECT max(extract(epoch FROM at - before))::float8 AS pause FROM"
    " (SELECT at, lag(at) OVER (PARTITION BY run_id ORDER BY seq) AS before FROM runs.run_event"
    "   WHERE at > to_timestamp($1) - interval '30 s') AS moved"
    " WHERE at > to_timestamp($1) AND before < to_timestamp($2)"
)
"""The longest time in which one run did not move, while others may have."""


class LostNodes:
    """Loses nodes of *cluster* while *work* goes on, and measures."""

    def __init__(self, work: SteadyLoad, cluster: BrokerCluster, findings: ScenarioFindings) -> None:
        self._work = work
        self._cluster = cluster
        self._findings = findings

    async def kill_leader(self, *, down_s: float) -> None:
        """Kill the node that leads a stream of work, and start it again after *down_s*."""
        began, number = wall().timestamp(), await self._cluster.leader(LEADS)
        self._cluster.kill(number)
        await asyncio.sleep(down_s)
        await self._measure("killed", began)
        await self._cluster.restart(number)
        await self._cluster.caught_up()

    async def freeze_leader(self, *, frozen_s: float) -> None:
        """Freeze the node that leads a stream of work: its connections stay and nothing is answered."""
        began, number = wall().timestamp(), await self._cluster.leader(LEADS)
        self._cluster.freeze(number)
        await asyncio.sleep(frozen_s)
        await self._measure("frozen", began)
        self._cluster.resume(number)
        await self._cluster.caught_up()

    async def lose_nothing(self) -> None:
        """Measure as long without a fault, to compare with."""
        began = wall().timestamp()
        await asyncio.sleep(WATCHED_S / 2)
        await self._measure("undisturbed", began)

    async def restart_each(self) -> None:
        """Restart one node after the other, each once the copies of all streams are current."""
        began = wall().timestamp()
        for number in range(NODES):
            await self._cluster.restart(number)
            await self._cluster.caught_up()
        await self._measure("rolling", began)

    async def kill_all(self, *, down_s: float) -> None:
        """Kill all three at once, as a power cut does, and start them again after *down_s*."""
        began = wall().timestamp()
        for number in range(NODES):
            self._cluster.kill(number)
        await asyncio.sleep(down_s)
        await asyncio.gather(*map(self._cluster.restart, range(NODES)))
        await self._cluster.caught_up()
        await asyncio.sleep(WATCHED_S)
        await self._measure("all_killed", began, longest_s=down_s + 2 * LONGEST_PAUSE_S)

    async def _measure(self, name: str, began: float, longest_s: float = LONGEST_PAUSE_S) -> None:
        ended = wall().timestamp()
        for words, statement in (("pause", PAUSE), ("pause_of_a_run", _PAUSE_OF_ONE)):
            rows = None
            for _ in range(TRIES):
                rows = rows or await self._work.rows(statement, began, ended)
            assert rows, "the database answers no question"
            pause = round(float(rows[0]["pause"] or ended - began), 1)
            self._findings.figures[f"{name}_longest_{words}_s"] = pause
            if words == "pause":
                sentence = f"{name}: nothing moved for {pause} s"
                self._findings.require(pause <= longest_s, sentence)


@contextlib.asynccontextmanager
async def under_way(work: SteadyLoad, runs: int) -> AsyncIterator[None]:
    """Keep *runs* runs under way while the block runs."""
    over = asyncio.Event()

    async def feed() -> None:
        while not over.is_set():
            ended = await work.ended()
            missing = runs - (len(work.run_ids) - ended) if ended is not None else 0
            if missing > 0:
                await work.submit(missing, steps=STEPS, delay_ms=THINKS_MS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), FEED_S)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        over.set()
        await feeding


async def _lose_nodes(context: ScenarioContext) -> ScenarioReport:
    findings, cluster = ScenarioFindings(), BrokerCluster(context.folder)
    runs = 200 if context.long else 60
    replicas = {"orchestrator": 2, "tas": 2, "decider": 4 if context.long else 2}
    async with SteadyLoad(
        context.folder, make=clustered(cluster), replicas=replicas, workers=2, notice=context.notice, starts="fork"
    ) as work:
        lost = LostNodes(work, cluster, findings)
        await work.submit(runs, steps=STEPS, delay_ms=THINKS_MS)
        async with under_way(work, runs):
            for name, fault in (
                ("undisturbed", lost.lose_nothing()),
                ("kill", lost.kill_leader(down_s=WATCHED_S)),
                ("freeze", lost.freeze_leader(frozen_s=WATCHED_S)),
                ("rolling", lost.restart_each()),
                ("all killed", lost.kill_all(down_s=DOWN_S)),
            ):
                await fault
                context.notice(f"{name}: {findings.figures}")
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=31, name="broker-cluster", summary="lose nodes of a cluster of three brokers", run=_lose_nodes),
)
