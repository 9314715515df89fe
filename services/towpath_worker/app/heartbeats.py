"""Says that this worker is there, for each of its toolsets; hears whether it is to take calls, and which runs ended.

What is said is for people to look at; only the answer has an effect. A word that gets no answer is not repeated: the
next one says what is true then.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import NamedTuple
from uuid import UUID

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.subjects import for_toolset
from towpath_contracts.tools.workers import BEAT_S, WorkerBeat, WorkerHeard
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus
from towpath_worker.app.run_ends import RunEnds

LONGEST_PAUSE_S = 60.0
"""Between two words while nobody answers, as before this service's rights or tool access know of them."""


class WorkerLoad(NamedTuple):
    """What runs here: calls, of how many at once; whether no new ones are taken, and whether then all has ended.

    *ending* is said once the process ends by itself.
    """

    calls: int
    slots: int
    draining: bool
    idle: bool
    ending: bool


class Heartbeats:
    """The words of one worker process, told apart from others by *worker_id*, which was made of *proof*."""

    def __init__(
        self,
        bus: Bus,
        *,
        project: str,
        worker_id: str,
        proof: str,
        name: str,
        toolsets: Iterable[str],
        load: Callable[[], WorkerLoad],
        drain: Callable[[], Awaitable[None]],
        ends: RunEnds,
    ) -> None:
        self._bus = bus
        self._project = project
        self._toolsets = tuple(toolsets)
        self._load = load
        self._drain = drain
        self._ends = ends
        self._began_s = monotonic()
        self._known = {
            "worker_id": worker_id,
            "proof": proof,
            "name": name[:256],
            "host": socket.gethostname()[:256],
            "version": version("towpath"),
        }

    async def run(self) -> None:
        """Say it every BEAT_S, less often while nobody answers, until cancelled."""
        pause_s, drained = BEAT_S, False
        while True:
            heard = await self.say()
            if not drained and any(answer is not None and answer.drain for answer in heard):
                drained = True
                await self._drain()
                heard = await self.say()  # so that it is seen at once
            await self._ask_for_ends()
            pause_s = BEAT_S if any(answer is not None for answer in heard) else min(pause_s * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def say(self) -> list[WorkerHeard | None]:
        """Say what is true now; returns what was answered for each toolset."""
        return [await self._say(toolset) for toolset in self._toolsets]

    async def _ask_for_ends(self) -> None:
        """Ask which of the runs that used a tool here have ended; any toolset's word may ask for all."""
        for runs in self._ends.questions():
            answer = await self._say(self._toolsets[0], runs)
            if answer is None:
                return
            self._ends.take(answer.ended)

    async def _say(self, toolset: str, runs: tuple[UUID, ...] = ()) -> WorkerHeard | None:
        load = self._load()
        beat = WorkerBeat(
            project=self._project,
            toolset=toolset,
            up_s=monotonic() - self._began_s,
            slots=load.slots,
            in_flight=load.calls,
            draining=load.draining,
            idle=load.idle,
            ending=load.ending,
            runs=runs,
            **self._known,
        )
        subject = for_toolset(rpc.WORKER_BEAT.subject, self._project, toolset)
        try:
            return await self._bus.request_subject(subject, beat, WorkerHeard)
        except (ProblemError, TimeoutError):
            return None
