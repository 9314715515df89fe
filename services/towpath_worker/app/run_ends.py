"""Tells hooks that a run has ended which used a tool here, or has a run below it that did.

Nobody tells workers of ends: this one asks with its heartbeats about the runs that it remembers, so that no lost
message loses an end, and no worker hears of a run that is not its own. What it remembers goes with the process, as does
what its tools keep there.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from towpath.hooks import HookEvent, Hooks
from towpath.tools.context import ToolContext
from towpath_contracts.tools.workers import MAX_ASKED_RUNS

RUN_FINISHED = "run_finished"

MAX_RUNS = 10_000
"""Runs that are remembered; of more, those that used a tool longest ago are forgotten: no hook hears of their end.

As many ends wait for a slow hook, and of more the oldest are forgotten too."""


class RunEnds:
    """The runs that have used a tool in this process; *busy* are those whose calls go on: their end waits for these."""

    def __init__(self, hooks: Hooks, worker: str, busy: Callable[[], Collection[UUID]]) -> None:
        self._hooks = hooks
        self._worker = worker
        self._busy = busy
        self._used: dict[UUID, None] = {}
        self._ended: dict[UUID, None] = {}
        self._told = asyncio.Event()
        self._calling = asyncio.Lock()

    def note(self, context: ToolContext) -> None:
        """Remember the run of a call, and the one that its caller submitted, if a hook wants to hear of their ends."""
        if not self._hooks.has(RUN_FINISHED):
            return
        for run_id in (context.root_run_id, context.run_id):
            _remember(self._used, run_id)

    def questions(self) -> list[tuple[UUID, ...]]:
        """Return the runs to ask about, as many at once as a heartbeat takes."""
        busy = self._busy()
        runs = [run_id for run_id in self._used if run_id not in busy]
        return [tuple(runs[at : at + MAX_ASKED_RUNS]) for at in range(0, len(runs), MAX_ASKED_RUNS)]

    def take(self, ended: Iterable[UUID]) -> None:
        """Take an answer: these have ended. One whose call began meanwhile is asked about again."""
        busy = self._busy()
        for run_id in ended:
            if run_id in self._used and run_id not in busy:
                del self._used[run_id]
                _remember(self._ended, run_id)
        self._told.set()

    async def run(self) -> None:
        """Call the hooks for ever; apart from the heartbeats, which a slow hook must not hold up."""
        while True:
            await self._told.wait()
            self._told.clear()
            await self.notify()

    async def notify(self) -> None:
        """Call the hooks for every run that has ended, and return when they have heard of all."""
        async with self._calling:
            while self._ended:
                run_id = next(iter(self._ended))
                del self._ended[run_id]
                if run_id in self._busy():  # its call began while hooks heard of others
                    _remember(self._used, run_id)
                    continue
                await self._hooks.notify(HookEvent(name=RUN_FINISHED, worker=self._worker, run_id=run_id))


def _remember(runs: dict[UUID, None], run_id: UUID) -> None:
    """Have *run_id* last in *runs*, which forget the first of too many."""
    runs.pop(run_id, None)
    runs[run_id] = None
    while len(runs) > MAX_RUNS:
        del runs[next(iter(runs))]
