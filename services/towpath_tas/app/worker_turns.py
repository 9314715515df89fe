"""Turns of what workers ask of this service beside claims: registrations, dead letters, pieces of large results.

A worker may ask without end, and the few connections to the database beside those of decisions also answer what people
ask. So one request is handled at a time, in turns of projects, and takes one connection. A registration that changes
the tools of its project has all decisions of the project load them anew, in front of those of others: that happens a
few times a second at most, and seldom where it changes hundreds.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from towpath_fabric.clock import monotonic
from towpath_fabric.turns.work_turns import WorkTurns

WAIT_S = 4.0
"""How long a request waits for its turn: who asked waits a second more."""

MAX_WAITING = 64
"""Requests of one project's workers that wait, each of which may have a megabyte."""

CHANGE_PAUSE_S = 0.1
"""Between two changes of the tools of one project."""

PAUSE_OF_TOOL_S = 0.005
"""For each tool that has changed, where that is longer: the next decisions wait until all of them are read again."""

MAX_PROJECTS = 1_024
"""Projects whose last change is remembered."""


class WorkerTurns:
    """Turns of one request at a time, of whichever project."""

    def __init__(self) -> None:
        self._turns = WorkTurns(1, lambda _: 1, WAIT_S, max_waiting=MAX_WAITING)
        self._changes = WorkTurns(MAX_PROJECTS, lambda _: 1, WAIT_S, max_waiting=MAX_WAITING)
        self._next_change: OrderedDict[str, float] = OrderedDict()

    def held(self, project: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn of *project* and hold it; raises ProblemError `overloaded`."""
        return self._turns.held(project)

    @asynccontextmanager
    async def after_changes(self, project: str) -> AsyncIterator[None]:
        """Hold the turn of *project*, where its tools have not changed just now; raises ProblemError `overloaded`."""
        async with self._changes.held(project):
            await asyncio.sleep(max(0.0, self._next_change.get(project, 0.0) - monotonic()))
            async with self._turns.held(project):
                yield

    def note_change(self, project: str, tools: int = 1) -> None:
        """Note that so many tools of *project* have changed."""
        self._next_change.pop(project, None)
        self._next_change[project] = monotonic() + max(CHANGE_PAUSE_S, tools * PAUSE_OF_TOOL_S)
        while len(self._next_change) > MAX_PROJECTS:
            self._next_change.popitem(last=False)
