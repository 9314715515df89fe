"""Carries out a soak: load, kills and samples side by side, then quiet, then the evaluation."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.soak.accounts import SoakAccount, judge_all, look_for_leftovers, replay_some
from tests.chaos.soak.load import SoakLoad, publish, read_ids
from tests.chaos.soak.mixture import RULES
from tests.chaos.soak.report import growing, growth_report
from tests.chaos.soak.samples import ResourceSampler
from tests.chaos.soak.tools import OUTSIDE_VARIABLE
from tests.support.places import IMPORTS_TESTS

from towpath.client.client import Client
from towpath_embedded.chaos.faults import FAULTS, SERVICES, FaultInjector
from towpath_embedded.chaos.gate_operator import AutomaticGateOperator
from towpath_embedded.chaos.run_watcher import DatabaseReader
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_fabric.clock import monotonic

ROUNDS_FOR_POSTGRES: Final = 3
"""In so many rounds, each of which kills every other part once, the database is killed once."""

PATIENCE_S: Final = 300.0
"""How long the last runs may take to end once nothing is submitted, and the history to be whole after them."""

READY_S: Final = 120.0
LAST_SAMPLES: Final = 3
LOOK_S: Final = 0.5
_BEHIND: Final = (
    "SELECT count(*) AS n FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id)"
    " WHERE c.seq IS DISTINCT FROM r.seq"
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """How much is done; without *kills_every_s* nothing is killed."""

    runs: int
    minutes: float = 120.0
    seed: int = 1
    kills_every_s: float = 90.0
    at_once: int = 200
    replays: int = 20_000
    sample_every_s: float = 10.0


async def soak(settings: SoakSettings, folder: Path, ending: asyncio.Event, say: Say) -> dict[str, Any]:
    """Run a platform in *folder* under load until all is done, time is over or *ending* is set; return the report."""
    outside, policy = folder / "outside.txt", folder / "policy.yaml"
    outside.touch()
    policy.write_text(f"kind: Policy\nrules:\n{RULES}", "utf-8")
    platform = Platform(
        folder / "d",
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(policy)}},
        workers=[worker_of_soak(outside)],
        notice=lambda _: None,
        starts="fork",
    )
    async with platform:
        return await soak_on(platform, settings, folder, ending, say)


def worker_of_soak(outside: Path) -> WorkerLaunch:
    """Return the worker whose tools leave their marks in *outside*."""
    environment = {**IMPORTS_TESTS, OUTSIDE_VARIABLE: str(outside)}
    return WorkerLaunch(modules=("tests.chaos.soak.tools",), concurrency=32, environment=environment)


async def soak_on(
    platform: Platform, settings: SoakSettings, folder: Path, ending: asyncio.Event, say: Say
) -> dict[str, Any]:
    """Do it on a platform that stands, whose worker has the tools of the soak and writes `outside.txt` in *folder*."""
    began, account = monotonic(), SoakAccount()
    ids, outside = folder / "accepted.txt", folder / "outside.txt"
    http, reader = Client(platform.client_url), DatabaseReader(platform.dsn())
    injector = FaultInjector(platform, stop_s=0)
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as log, ids.open("w", encoding="utf-8") as accepted:
        load = SoakLoad(platform, runs=settings.runs, at_once=settings.at_once, seed=settings.seed, ids=accepted)
        load.ending = ending
        sampler = ResourceSampler(platform, log)
        work = SoakWork(platform, settings, load, sampler, injector, say)
        try:
            await publish(http)
            await sampler.sample(done=0, under_way=0, waited_s=0)
            await work.carry_out(AutomaticGateOperator(http, reader, outside, injector))
            account.problems += dict.fromkeys(work.problems)
            account.require(await _history_is_whole(reader), "the history is not whole")
            await work.sample_at_rest()
        finally:
            await injector.close()
            await sampler.close()
            await load.close()
            await reader.close()
            await http.close()
    grown = growth_report(sampler.samples)
    account.figures |= {
        "settings": {name: getattr(settings, name) for name in SoakSettings.__slots__},
        "accepted": len(load.accepted),
        "kinds": dict(sorted(load.kinds.items())),
        "asked_again": dict(load.asked_again),
        "kills": dict(work.kills),
        "load_s": round(work.load_s, 1),
        "runs_per_s": round(len(load.accepted) / work.load_s, 2),
        "restarts": {name: state.restarts for name, state in platform.processes.items()},
        **grown,
    }
    await look_for_leftovers(account, platform, sampler.samples)
    kinds = read_ids(ids)
    await judge_all(account, platform.dsn(), outside, kinds, say)
    await replay_some(account, platform.dsn(), [*kinds], settings.replays, settings.seed)
    account.problems += growing(grown)
    return {**account.figures, "seconds": round(monotonic() - began, 1), "problems": account.problems}


class SoakWork:
    """What goes on side by side: the load, the kills, the samples, and who answers gates."""

    def __init__(
        self,
        platform: Platform,
        settings: SoakSettings,
        load: SoakLoad,
        sampler: ResourceSampler,
        injector: FaultInjector,
        say: Say,
    ) -> None:
        self.kills: Counter[str] = Counter()
        self.problems: list[str] = []
        """What of this ended early: the evaluation goes on, and says so."""
        self.load_s = 0.0
        self._platform = platform
        self._settings = settings
        self._load = load
        self._sampler = sampler
        self._injector = injector
        self._say = say

    async def carry_out(self, gates: AutomaticGateOperator) -> None:
        """Submit everything and wait until it has ended, or for as long as patience lasts."""
        began = monotonic()
        helping = [asyncio.create_task(gates.decide()), asyncio.create_task(self._sample_regularly())]
        killing = asyncio.create_task(self._kill_regularly())
        timer = asyncio.create_task(self._end_in_time())
        try:
            try:
                await self._load.submit_all()
            except* (AssertionError, TimeoutError) as refused:
                self.problems += [f"the load ended: {error}" for error in refused.exceptions]
            self._load.ending.set()
            self.problems += await stop_all(killing, timer)
            with contextlib.suppress(TimeoutError):
                await self._platform.wait_ready(READY_S)
            if not await self._load.all_ended(PATIENCE_S):
                self._say(f"{self._load.under_way} runs go on")
            self.load_s = monotonic() - began
        finally:
            self.problems += await stop_all(killing, timer, *helping)

    async def sample_at_rest(self) -> None:
        """Take the last samples, of a platform that has nothing to do."""
        self._sampler.note(phase="at rest")
        for _ in range(LAST_SAMPLES):
            await self._sample()
            await asyncio.sleep(self._settings.sample_every_s / LAST_SAMPLES)

    async def _sample(self) -> None:
        load = self._load
        await self._sampler.sample(
            done=load.done,
            accepted=len(load.accepted),
            under_way=load.under_way,
            waited_s=round(load.waited_s, 1),
            asked_again=load.asked_again.total(),
        )

    async def _sample_regularly(self) -> None:
        began, last = monotonic(), 0
        while True:
            await asyncio.sleep(self._settings.sample_every_s)
            await self._sample()
            done, took = self._load.done, monotonic() - began
            rate = (done - last) / self._settings.sample_every_s
            last = done
            self._say(f"{took:5.0f} s: {done} ended, {rate:.0f}/s, {self._load.under_way} under way")

    async def _kill_regularly(self) -> None:
        """Kill one part after the other; each pause is drawn between half and one and a half of the usual one."""
        usual = self._settings.kills_every_s
        chance = random.Random(self._settings.seed)
        for target in targets(self._settings.seed) if usual else ():
            await asyncio.sleep(usual * (0.5 + chance.random()))
            strike = await self._injector.strike(FAULTS[f"kill.{target}"])
            self.kills[target] += 1
            self._sampler.note(killed=strike.process)
            self._say(f"killed {strike.process}")
            with contextlib.suppress(TimeoutError):
                await self._platform.wait_ready(READY_S)

    async def _end_in_time(self) -> None:
        await asyncio.sleep(self._settings.minutes * 60)
        self._load.ending.set()


def targets(seed: int) -> Iterator[str]:
    """Return what to kill, for ever: in each round every service and the broker once, in a drawn order."""
    chance, number = random.Random(seed), 0
    while True:
        number += 1
        parts = [*SERVICES, "nats", *(["postgres"] if number % ROUNDS_FOR_POSTGRES == 1 else [])]
        chance.shuffle(parts)
        yield from parts


async def _history_is_whole(reader: DatabaseReader) -> bool:
    end = monotonic() + PATIENCE_S
    while True:
        rows = await reader.rows(_BEHIND)
        if rows is not None and not rows[0]["n"]:
            return True
        if monotonic() > end:
            return False
        await asyncio.sleep(LOOK_S)


async def stop_all(*tasks: asyncio.Task[None]) -> list[str]:
    """Cancel what goes on for ever; return what ended one of *tasks* before."""
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    return [f"{type(end).__name__}: {end}" for end in ends if isinstance(end, Exception)]
