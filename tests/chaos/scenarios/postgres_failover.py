"""Postgres loses its primary, in each of the ways in which that happens, and the synchronous standby is promoted.

What must hold: every accepted run completes, no effect happens twice in silence, logs and rows agree, and each log can
be replayed. When a standby is promoted is the operator's; measured is how long after it the first run moves, and when
every run has. A primary that was frozen is killed before it may go on, as fencing does: it would take writes again.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.replicated_platform import replicated
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import finish
from tests.chaos.scenarios.broker_cluster import under_way
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.servers.postgres_pair import PostgresPair

from towpath_embedded.chaos.judge import FINAL
from towpath_embedded.chaos.replays import replay_mismatches
from towpath_fabric.clock import monotonic, wall

NOTICED_S: Final = 3.3
"""How long after the loss the standby is promoted."""

FIRST_MOVES_S: Final = 5.0
EVERY_RUN_MOVES_S: Final = 60.0
LOOK_S: Final = 0.05
STEPS: Final = 12
THINKS_MS: Final = 3_000
"""Of every decision: a run is under way for half a minute, longer than a fault."""

_FIRST = "SELECT extract(epoch FROM min(at) - to_timestamp($1))::float8 FROM runs.run_event WHERE at > to_timestamp($1)"
_UNMOVED = (
    "SELECT count(*) FROM runs.run r WHERE r.run_id = ANY($2::uuid[]) AND r.status <> ALL($3) AND NOT EXISTS"
    " (SELECT FROM runs.run_event e WHERE e.run_id = r.run_id AND e.at > to_timestamp($1))"
)
_BEFORE = (
    "SELECT extract(epoch FROM to_timestamp($1) - max(at))::float8 FROM runs.run_event WHERE at <= to_timestamp($1)"
)


class LostPrimary:
    """Loses the primary of *pair* while *work* goes on, and measures."""

    def __init__(
        self, work: SteadyLoad, pair: PostgresPair, findings: ScenarioFindings, first_moves_s: float = FIRST_MOVES_S
    ) -> None:
        self._first_moves_s = first_moves_s
        self._work = work
        self._pair = pair
        self._findings = findings

    async def kill(self) -> None:
        """Kill the primary with all of its processes, and make a standby of it anew."""
        await self._fail_over("killed", self._pair.lose_primary)
        await self._pair.add_standby()

    async def freeze(self, name: str = "frozen", *, returns: bool = True) -> None:
        """Freeze the primary: its connections stay and nothing is answered, also not to who connects.

        Whether the address names it first decides whether it is asked before the promoted one. It *returns* as a
        standby, unless that matters no more.
        """
        old = self._pair.primary

        async def freeze() -> None:
            old.strike(signal.SIGSTOP)

        await self._fail_over(name, freeze)
        old.strike(signal.SIGKILL)
        await old.stop()
        if returns:
            await self._pair.add_standby()

    async def switch_over(self) -> None:
        """Stop the primary in order, and let it come back as the standby."""
        await self._fail_over("switched", self._pair.switch_over)
        await self._pair.return_old_primary()

    async def _fail_over(self, name: str, lose: Callable[[], Awaitable[None]]) -> None:
        began = wall().timestamp()
        await lose()
        await asyncio.sleep(NOTICED_S)
        await self._pair.promote()
        promoted, run_ids = wall().timestamp(), list(self._work.run_ids)
        owner = await asyncpg.connect(self._pair.primary.address())
        try:
            first = await self._until_first(owner, promoted)
            every = await self._until_every(owner, promoted, run_ids)
            before = await owner.fetchval(_BEFORE, promoted)
        finally:
            await owner.close()
        figures = {
            f"{name}_promoted_after_s": promoted - began,
            f"{name}_first_moved_s": first,
            f"{name}_nothing_moved_s": before + first,
            f"{name}_every_run_moved_s": every,
        }
        self._findings.figures.update({key: round(value, 1) for key, value in figures.items()})
        sentence = f"{name}: the first run moved {first:.1f} s after the promotion"
        self._findings.require(first <= self._first_moves_s, sentence)

    async def _until_first(self, owner: asyncpg.Connection, promoted: float) -> float:
        end = monotonic() + EVERY_RUN_MOVES_S
        while (first := await owner.fetchval(_FIRST, promoted)) is None:
            if monotonic() > end:
                raise TimeoutError(f"no run moved within {EVERY_RUN_MOVES_S} s of the promotion")
            await asyncio.sleep(LOOK_S)
        return float(first)

    async def _until_every(self, owner: asyncpg.Connection, promoted: float, run_ids: list[str]) -> float:
        end = monotonic() + EVERY_RUN_MOVES_S
        while unmoved := await owner.fetchval(_UNMOVED, promoted, run_ids, list(FINAL)):
            if monotonic() > end:
                sentence = f"{unmoved} of {len(run_ids)} runs did not move within {EVERY_RUN_MOVES_S} s"
                self._findings.require(False, sentence)
                break
            await asyncio.sleep(LOOK_S)
        return wall().timestamp() - promoted


async def judge_failovers(work: SteadyLoad, findings: ScenarioFindings) -> ScenarioReport:
    """Wait until everything has ended, judge it, and replay every run."""
    await finish(work, findings)
    differing = await replay_mismatches(work.platform.dsn(), work.run_ids)
    findings.figures.update(replayed=len(work.run_ids), differing_replays=len(differing))
    restarts = {name: state.restarts for name, state in work.platform.processes.items() if state.restarts}
    findings.require(not differing, f"replays differ: {differing[:3]}")
    findings.require(not restarts, f"processes were started again: {restarts}")
    return findings.report()


async def _lose_primaries(context: ScenarioContext) -> ScenarioReport:
    findings, pair = ScenarioFindings(), PostgresPair(context.folder)
    runs = 200 if context.long else 30
    replicas = {"orchestrator": 2, "tas": 2, "decider": 4 if context.long else 2}
    async with SteadyLoad(
        context.folder, make=replicated(pair), replicas=replicas, workers=2, notice=context.notice, starts="fork"
    ) as work:
        lost = LostPrimary(work, pair, findings)
        await work.submit(runs, steps=STEPS, delay_ms=THINKS_MS)
        async with under_way(work, runs):
            for fault in (
                lost.kill(),
                lost.freeze("second_frozen"),
                lost.freeze("first_frozen"),
                lost.switch_over(),
            ):
                await fault
                context.notice(str(findings.figures))
        return await judge_failovers(work, findings)


SCENARIOS = (
    Scenario(
        number=32, name="postgres-failover", summary="lose the primary and promote its standby", run=_lose_primaries
    ),
)
