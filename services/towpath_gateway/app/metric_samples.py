"""The last hour of a few numbers of a project, for whoever has no Prometheus: sampled while somebody looks on.

Projects whose numbers were asked for within the last hour are sampled, at most MAX_PROJECTS of them, and of each at
most MAX_SAMPLES are kept: the memory is bounded, and nobody is asked while nobody looks. A project that is looked at
keeps its place: further ones would push each other out, and none would have an hour. Each replica has its own.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from towpath_contracts import rpc
from towpath_contracts.base import Message, MessagePart
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.costs import GetCosts
from towpath_contracts.runs.views import ListGates
from towpath_contracts.tools.queues import ListQueues
from towpath_fabric.clock import monotonic, wall

EVERY_S = 15.0
MAX_SAMPLES = 240
"""An hour."""

MAX_PROJECTS = 8
LOOKED_AT_S = 3_600.0
PLACE_S = 300.0
"""How long nobody has looked at a project that makes room for another one."""

GATES_COUNTED = 400
GATE_PAGES = 5
"""Pages that gates are counted on: a page ends where one answer holds no more."""


class MetricSample(MessagePart):
    """How a project stood at a moment.

    `waits` and `in_flight` are of its toolsets' queues, `gates` wait for people, 400 at most, and fewer where what they
    show is long; tokens, model calls and dollars are those of the UTC day so far. What nobody could say is null.
    """

    at: str
    waits: int | None = None
    in_flight: int | None = None
    gates: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


class MetricSamples(Message):
    """Samples, the oldest first; `refused` counts requests of all projects that were refused for their credential.

    `kept` says whether samples are taken of this project: the places may be those of others.
    """

    every_s: float
    samples: tuple[MetricSample, ...]
    refused: int | None = None
    kept: bool = True


class Asks(Protocol):
    """Asks services."""

    async def request(self, method: rpc.RpcMethod, request: Message, timeout_s: float = ...) -> Any: ...


@dataclass
class _Watched:
    until_s: float
    samples: deque[MetricSample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))


class MetricSampler:
    """Keeps the samples of projects that are looked at."""

    def __init__(self, platform: Asks) -> None:
        self._platform = platform
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        self._looked_at = asyncio.Event()

    def look(self, project: str) -> tuple[MetricSample, ...]:
        """Return the samples of *project*, and take more for an hour, where it has a place or finds one."""
        if project not in self._watched and not self._has_room():
            return ()
        found = self._watched.setdefault(project, _Watched(0.0))
        found.until_s = monotonic() + LOOKED_AT_S
        self._watched.move_to_end(project)
        self._looked_at.set()
        return tuple(found.samples)

    def keeps(self, project: str) -> bool:
        """Return whether samples of *project* are taken."""
        return project in self._watched

    def _has_room(self) -> bool:
        """Return whether there is a place for one more; the project looked at longest ago may make room."""
        if len(self._watched) < MAX_PROJECTS:
            return True
        oldest, watched = next(iter(self._watched.items()))
        if watched.until_s - LOOKED_AT_S + PLACE_S > monotonic():
            return False
        del self._watched[oldest]
        return True

    async def run(self) -> None:
        """Take a sample of each project every EVERY_S, until cancelled."""
        while True:
            await self._looked_at.wait()
            await self.take()
            await asyncio.sleep(EVERY_S)
            if not self._watched:
                self._looked_at.clear()

    async def take(self) -> None:
        """Take one sample of each project that somebody looks at, and forget the others."""
        for project, watched in list(self._watched.items()):
            if watched.until_s < monotonic():
                self._watched.pop(project, None)  # it may have made room for another meanwhile
                continue
            watched.samples.append(await self._sample(project))

    async def _sample(self, project: str) -> MetricSample:
        now = wall()
        queues, gates, costs = await asyncio.gather(
            self._ask(rpc.LIST_QUEUES, ListQueues(project=project)),
            self._gates(project),
            self._ask(rpc.GET_COSTS, GetCosts(project=project, by="network", since=now.date())),
        )
        values: dict[str, Any] = {"at": now.isoformat()}
        if queues is not None:
            values["waits"] = sum(queue.waits for queue in queues.queues)
            values["in_flight"] = sum(queue.in_flight for queue in queues.queues)
        if gates is not None:
            values["gates"] = gates
        if costs is not None:
            for name in ("model_calls", "tokens", "usd"):
                values[name] = sum(getattr(day, name) for day in costs.days)
        return MetricSample(**values)

    async def _gates(self, project: str) -> int | None:
        """Count the gates that wait for people; None where nobody could say."""
        count, after = 0, None
        for _ in range(GATE_PAGES):
            wanted = ListGates(project=project, paused=False, after=after, limit=GATES_COUNTED - count)
            page = await self._ask(rpc.LIST_GATES, wanted)
            if page is None:
                return None
            count, after = count + len(page.gates), page.next_after
            if after is None or count >= GATES_COUNTED:
                break
        return count

    async def _ask(self, method: rpc.RpcMethod, request: Message) -> Any:
        try:
            return await self._platform.request(method, request)
        except ProblemError:
            return None
