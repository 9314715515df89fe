"""What befalls a world: every seed has its own mix of evils, and a time when they end."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.simulation.outside.clock import SimProcess
from tests.simulation.scenery import change_rules

from towpath_fabric import crash_points


class ProcessKilled(BaseException):
    """The process ends at this line."""


KINDS = ("kill", "freeze", "postgres", "broker", "wipe", "restore", "policy", "points", "lossy", "slow", "lost", "late")
"""Each is switched on for about half of the seeds; a world in which everything fails at once shows less."""


class FaultSchedule:
    """Plans and carries out."""

    def __init__(self, world: Any, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._loop = world.loop
        self._kinds = [kind for kind in KINDS if chance.random() < 0.5]
        self._rage_s = chance.choice((8.0, 20.0, 40.0))
        self._every_s = chance.choice((0.7, 2.0, 5.0))
        self._at_point = chance.choice((0.001, 0.004, 0.02)) if "points" in self._kinds else 0.0
        self._raging = False

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def rage(self) -> None:
        """The rough time."""
        self._raging = True
        self._world.seen.trace(f"seed {self._world.seed}: {' '.join(self._kinds)} for {self._rage_s} s")
        database, faults = self._world.database, self._world.broker.faults
        database.lossy = 0.03 if "lossy" in self._kinds else 0.0
        database.slow = 0.05 if "slow" in self._kinds else 0.0
        faults.lost = self._chance.choice((0.02, 0.1)) if "lost" in self._kinds else 0.0
        faults.late = self._chance.choice((0.02, 0.1)) if "late" in self._kinds else 0.0
        faults.late_s = self._chance.choice((1.0, 8.0, 30.0))
        faults.repeated = 0.05 if "late" in self._kinds else 0.0
        until = self._loop.time() + self._rage_s
        events = [kind for kind in self._kinds if hasattr(self, f"_do_{kind}")]
        while self._loop.time() < until:
            await self.pause(self._chance.random() * 2 * self._every_s)
            if events:
                await getattr(self, f"_do_{self._chance.choice(events)}")()

    async def make_peace(self) -> None:
        """Everything works again, and everybody is there."""
        world, self._raging = self._world, False
        world.database.lossy = world.database.slow = self._at_point = 0.0
        world.broker.faults.lost = world.broker.faults.late = world.broker.faults.repeated = 0.0
        if world.database.down:
            world.database.start()
        if not world.broker.up:
            world.broker.start()
        for process in world.processes.values():
            self._loop.thaw(process)
        await self.pause(6.0)  # whoever was killed a moment ago is started again by now

    def on_point(self, name: str) -> None:
        """A process passes a named place; it may be its last."""
        process = self._loop.current
        if self._at_point and process is not self._loop.outside and self._chance.random() < self._at_point:
            self._world.seen.note("killed_at_point")
            self._world.seen.note(f"at {name}")
            self._world.seen.trace(f"{process} ends at {name}")
            self._world.lose(process)
            raise ProcessKilled(name)

    async def perhaps_stop(self, process: SimProcess) -> None:
        """Stop a process exactly here, where it hurts, for longer than a lease."""
        if self._raging and "freeze" in self._kinds and self._chance.random() < 0.04:
            self._freeze(process, 14.0)
            await asyncio.sleep(0)

    async def perhaps_silence(self, process: SimProcess) -> None:
        """Stop a process that has acted and not reported it, for longer than a person's retry and its lease take."""
        if "freeze" in self._kinds and self._chance.random() < 0.15:
            self._freeze(process, 60.0)
            await asyncio.sleep(0)

    def _freeze(self, process: SimProcess, seconds: float) -> None:
        self._world.seen.note("frozen")
        self._world.seen.trace(f"{process} is stopped")
        self._loop.freeze(process)
        self._loop.call_in(self._loop.outside, seconds, self._loop.thaw, process)

    def kill(self, process: SimProcess) -> None:
        """SIGKILL; the supervisor starts it again."""
        if process.dead:
            return
        world = self._world
        place = next(p for p, known in world.processes.items() if known is process)
        world.seen.note("killed")
        world.seen.trace(f"{process} is killed")
        self._loop.kill(process)
        world.broker.forget(process)
        self._loop.call_in(self._loop.outside, 0.2 + self._chance.random() * 3, world.start, place)

    def _any(self) -> SimProcess:
        process: SimProcess = self._chance.choice(list(self._world.processes.values()))
        return process

    async def _do_kill(self) -> None:
        self.kill(self._any())

    async def _do_freeze(self) -> None:
        process = self._any()
        if not process.dead and not process.frozen:
            self._freeze(process, self._chance.choice((1.0, 7.0, 25.0)))

    async def _do_postgres(self) -> None:
        self._world.seen.note("postgres_stopped")
        self._world.seen.trace("postgres is away")
        self._world.database.stop()
        await self.pause(self._chance.choice((0.1, 2.0, 12.0)))
        self._world.database.start()

    async def _do_broker(self) -> None:
        self._world.seen.note("broker_restarted")
        await self._broker_away(lambda: None)

    async def _do_wipe(self) -> None:
        self._world.seen.note("broker_wiped")
        await self._broker_away(self._world.broker.wipe)

    async def _do_restore(self) -> None:
        if self._world.broker.copy is None or self._chance.random() < 0.4:
            self._world.broker.remember()
            return
        self._world.seen.note("broker_restored")
        await self._broker_away(self._world.broker.restore)

    async def _broker_away(self, meanwhile: Callable[[], None]) -> None:
        self._world.seen.trace("the broker is away")
        self._world.broker.stop()
        await self.pause(self._chance.choice((0.05, 0.5, 4.0)))
        meanwhile()
        self._world.broker.start()

    async def _do_policy(self) -> None:
        change_rules(self._world.ledger)


@contextlib.contextmanager
def crash_points_call(reached: Callable[[str], None]) -> Iterator[None]:
    """Call *reached* at every passing of a crash point, instead of looking for files."""
    code: Any = crash_points
    before = (code._folder, code._reached, code.Path)
    code._folder, code._reached, code.Path = (lambda: "simulation"), reached, _CrashPointFolder
    try:
        yield
    finally:
        code._folder, code._reached, code.Path = before


class _CrashPointFolder:
    """Stands where a path would: making real ones took a tenth of the time."""

    def __init__(self, _name: str) -> None: ...

    def __truediv__(self, name: str) -> str:
        return name
