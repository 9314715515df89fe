"""The faults that a plan can strike with, and the injector that carries them out.

A fault hits a process of the platform that this process started, and nothing else. A process that was frozen is always
continued.
"""

import asyncio
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_names import role_of
from towpath_fabric.clock import monotonic, wall

Action = Literal["kill", "stop", "wipe"]

ALIVE_WAIT_S = 60.0
"""How long a strike waits for a process that an earlier one has ended."""

POLL_S = 0.01
SERVICES = ("orchestrator", "decider", "tas", "worker", "log_writer", "gateway", "watchdog")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to which part: SIGKILL, SIGSTOP for a while, or (`wipe`) a kill after which all data is gone."""

    action: Action
    target: str

    @property
    def name(self) -> str:
        """The name that `--faults` takes."""
        return f"{self.action}.{self.target}"

    @property
    def kills(self) -> bool:
        """Whether a process ends by it."""
        return self.action != "stop"


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *(Fault(action="kill", target=target) for target in (*SERVICES, "nats", "postgres")),
        *(Fault(action="stop", target=target) for target in ("orchestrator", "decider", "tas", "worker")),
        Fault(action="wipe", target="nats"),
    )
}
"""Every fault by its name."""

KILLS = tuple(name for name, fault in FAULTS.items() if fault.action == "kill")


def named_faults(words: Sequence[str]) -> tuple[tuple[Fault, ...], list[str]]:
    """Return the faults that *words* name, and the words that name none.

    A word is a fault's name, an action (`kill`), a part (`nats`), or `all`.
    """
    found: dict[str, Fault] = {}
    unknown: list[str] = []
    for word in words:
        meant = [f for f in FAULTS.values() if word in {f.name, f.action, f.target, "all"}]
        found |= {fault.name: fault for fault in meant}
        if not meant:
            unknown.append(word)
    return tuple(found.values()), unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A strike as it happened: which process, when, after waiting for it how long.

    `at` is on the monotonic clock, `wall` in seconds since the epoch.
    """

    process: str
    at: float
    wall: float
    waited_s: float


class FaultInjector:
    """Strikes at *platform*; a frozen process is continued after *stop_s*."""

    def __init__(self, platform: Platform, *, stop_s: float) -> None:
        self._platform = platform
        self._stop_s = stop_s
        self._turns: dict[str, int] = {}
        self._frozen: set[str] = set()
        self._continuing: set[asyncio.Task[None]] = set()
        self._wiping = asyncio.Lock()
        self.last_continued_at = 0.0
        """When the last frozen process was continued, on the monotonic clock."""

    @property
    def frozen(self) -> bool:
        return bool(self._frozen)

    async def strike(self, fault: Fault) -> Strike:
        """Strike at the next living process of the fault's part; raises TimeoutError where none lives."""
        began = monotonic()
        process = await self._next_process(fault.target)
        at, now = monotonic(), wall().timestamp()
        match fault.action:
            case "kill":
                self._platform.kill(process)
            case "stop":
                self._freeze(process)
            case "wipe":
                await self._wipe()
        return Strike(process=process, at=at, wall=now, waited_s=at - began)

    async def settle(self) -> None:
        """Wait until nothing is frozen any more."""
        await asyncio.gather(*self._continuing)

    async def close(self) -> None:
        """Continue every frozen process at once: a frozen process can't be stopped in order."""
        for task in self._continuing:
            task.cancel()
        await asyncio.gather(*self._continuing, return_exceptions=True)

    async def _next_process(self, target: str) -> str:
        async with asyncio.timeout(ALIVE_WAIT_S):
            # A level, not an edge: the supervisor does not report when it starts a process again.
            while not (alive := self._alive(target)):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        turn = self._turns[target] = self._turns.get(target, -1) + 1
        return alive[turn % len(alive)]

    def _alive(self, target: str) -> list[str]:
        states = self._platform.processes.items()
        return sorted(name for name, state in states if role_of(name) == target and state.pid is not None)

    def _freeze(self, process: str) -> None:
        self._platform.signal(process, signal.SIGSTOP)
        self._frozen.add(process)
        task = asyncio.create_task(self._continue_later(process))
        self._continuing.add(task)
        task.add_done_callback(self._continuing.discard)

    async def _continue_later(self, process: str) -> None:
        """A process that was killed meanwhile has a successor, which was never frozen; SIGCONT does nothing to it."""
        try:
            await asyncio.sleep(self._stop_s)
        finally:
            self._platform.signal(process, signal.SIGCONT)
            self._frozen.discard(process)
            self.last_continued_at = monotonic()

    async def _wipe(self) -> None:
        async with self._wiping:
            await self._platform.hold("nats")
            await asyncio.to_thread(shutil.rmtree, self._platform.nats.store, ignore_errors=True)
            self._platform.release("nats")
