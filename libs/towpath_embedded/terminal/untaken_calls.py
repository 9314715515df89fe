"""Tells in the terminal of `towpath up` that calls of a toolset wait for a worker, and when one takes them again.

A call that waits publishes no event, so the queues are asked: only while runs do something, or something waits there.
Each toolset is told once, after a few seconds, since a worker that is just started again needs some, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from towpath_contracts.tools.queues import QueueState
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import START_WORKER
from towpath_fabric.clock import monotonic

LOOK_S = 2.0
TOLD_AFTER_S = 4.0
"""For how long calls of a toolset have waited, at two looks at least, until that is told."""


class QueueLoad(NamedTuple):
    """Calls of one toolset that wait, those that a worker has, and whether any worker asks for more."""

    waits: int
    in_flight: int
    has_worker: bool


ReadQueues = Callable[[], Awaitable[Mapping[str, QueueLoad]]]
"""Returns the queues of toolsets by their names; raises nothing where nobody answers."""


class UntakenCalls:
    """Looks at the queues that *read* returns, from `notice_activity` on and until all are empty."""

    def __init__(self, read: ReadQueues, show: ShowLine, *, look_s: float = LOOK_S) -> None:
        self._read = read
        self._show = show
        self._look_s = look_s
        self._active = asyncio.Event()
        self._active.set()  # calls may wait since before the start
        self._waiting_since: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def notice_activity(self) -> None:
        """Look from now on: a run has done something."""
        self._active.set()

    async def follow(self) -> None:
        """Look until cancelled."""
        while True:
            await self._active.wait()
            self._active.clear()
            await asyncio.sleep(self._look_s)
            if self.look_at(await self._read(), monotonic()):
                self._active.set()

    def look_at(self, queues: Mapping[str, QueueLoad], now_s: float) -> bool:
        """Tell what is new of *queues* at *now_s*; return whether another look is worth it."""
        untaken = {name for name, queue in queues.items() if queue.waits and not queue.has_worker}
        for toolset in sorted(untaken):
            since_s = self._waiting_since.setdefault(toolset, now_s)
            if toolset not in self._told and now_s - since_s >= TOLD_AFTER_S:
                self._told[toolset] = since_s
                self._show(untaken_line(toolset, queues[toolset].waits), "yellow")
        for toolset in self._waiting_since.keys() & queues.keys() - untaken:
            del self._waiting_since[toolset]
            if (begun_s := self._told.pop(toolset, None)) is not None:
                self._show(taken_line(toolset, queues[toolset], now_s - begun_s), "green")
        return bool(self._waiting_since) or any(queue.waits or queue.in_flight for queue in queues.values())


def untaken_line(toolset: str, waits: int) -> str:
    """Return the line about a toolset without a worker."""
    calls = "call waits" if waits == 1 else "calls wait"
    return f"◐ {waits} {calls}, and no worker takes those of the toolset {toolset}: {START_WORKER}"


def taken_line(toolset: str, queue: QueueLoad, after_s: float) -> str:
    """Return the line about a toolset whose calls wait no more, or have a worker."""
    what = "calls have a worker again" if queue.has_worker else "no call waits any more"
    return f"toolset {toolset}: {what}, after {after_s:.0f} s"


def loads_of(answer: Any) -> dict[str, QueueLoad]:
    """Return the queues of toolsets in an *answer* of `/v1/queues`; what the broker says nothing of is left out."""
    return {
        queue["toolset"]: _load_of(queue) for queue in answer["queues"] if queue["toolset"] and not queue.get("missing")
    }


def with_full_workers(loads: Mapping[str, QueueLoad], workers: Sequence[Mapping[str, Any]]) -> dict[str, QueueLoad]:
    """Return *loads* so that toolsets have a worker whose *workers* run calls: one that is full asks for no more."""
    busy = {toolset for one in workers if one["state"] != "gone" and one["calls"] for toolset in one["toolsets"]}
    return {
        name: load
        if load.has_worker or name not in busy
        else QueueLoad(load.waits - load.in_flight, load.in_flight, True)
        for name, load in loads.items()
    }


def _load_of(queue: Mapping[str, Any]) -> QueueLoad:
    """A call that was handed back, or whose worker is gone, is in flight for the broker; without a worker it waits."""
    state = QueueState.model_validate(queue)
    waits = state.waits + (0 if state.has_worker else state.in_flight)
    return QueueLoad(waits, state.in_flight, state.has_worker)
