"""Answers requests round-robin by caller, so that one caller's burst can't delay the others.

A request that finds no room is refused at once, so that its caller doesn't wait for a timeout; one whose turn comes
too late is refused then, since nobody waits for its answer. FastStream would take requests in the order of arrival.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg

from towpath_fabric.clock import monotonic
from towpath_fabric.turns.fair_queue import FairQueue, QueueOwner

WAITING_BYTES = 64 * 1024 * 1024
WAITING_BYTES_OF_ONE = 16 * 1024 * 1024
"""What waits is held in memory: so much of all callers, and of one; a request that waits alone may be of any size."""

STOP_WAIT_S = 2.0
"""How long running requests may take when the process stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FairQueueLimits:
    """`caller_of` reads the caller from a subject, `caller_in`, where it is given, from a body instead.

    `max_waiting` requests may wait, of them `max_share` of one caller.

    `max_concurrent` run at the same time, and of one caller as many as `max_concurrent_of` says just now: at least one.
    One that has waited for longer than `max_wait_s` is not run. What is `repeatable` may run twice: at the stop it is
    ended and refused, so that its caller asks another replica.
    """

    caller_of: Callable[[str], str]
    max_waiting: int
    max_share: float
    max_concurrent: int
    max_concurrent_of: Callable[[str], int]
    max_wait_s: float = math.inf
    repeatable: bool = False
    caller_in: Callable[[bytes], str] | None = None

    def caller(self, message: Msg) -> str:
        """Return who asks."""
        return self.caller_of(message.subject) if self.caller_in is None else self.caller_in(message.data)


class FairRequestQueue:
    """Accepts requests as they arrive, and runs a few at the same time in turns of their callers."""

    def __init__(
        self,
        limits: FairQueueLimits,
        answer: Callable[[Msg], Awaitable[None]],
        refuse: Callable[[Msg, int | None], Awaitable[None]],
    ) -> None:
        """*refuse* answers a request that finds no room; it gets the number of waiting ones, None while this stops."""
        self._limits = limits
        self._answer = answer
        self._refuse = refuse
        self._queue: FairQueue[tuple[Msg, float, str]] = FairQueue()
        self._waiting: dict[str, int] = {}
        self._bytes: Counter[str] = Counter()
        self._accepted = 0
        self._running: dict[asyncio.Task[None], tuple[Msg, str]] = {}
        self._running_of: Counter[str] = Counter()

    async def accept(self, message: Msg) -> None:
        caller = self._limits.caller(message)
        own, waiting = self._waiting.get(caller, 0), len(self._queue)
        full = waiting >= self._limits.max_waiting or own >= self._limits.max_waiting * self._limits.max_share
        if full or (own and self._is_too_much(caller, len(message.data))):
            await self._refuse(message, waiting)
            return
        self._bytes[caller] += len(message.data)
        self._accepted += 1
        self._waiting[caller] = own + 1
        now = monotonic()
        self._queue.put(
            UUID(int=self._accepted), (message, now, caller), QueueOwner(caller=caller, root=UUID(int=0)), now
        )
        self._start_next()

    def _is_too_much(self, caller: str, size: int) -> bool:
        of_all = self._bytes.total() + size > WAITING_BYTES
        return of_all or self._bytes[caller] + size > WAITING_BYTES_OF_ONE

    def _start_next(self) -> None:
        while len(self._running) < self._limits.max_concurrent:
            most_of = self._limits.max_concurrent_of
            full = {caller for caller, count in self._running_of.items() if count >= most_of(caller)}
            if full.issuperset(self._waiting):
                return
            message, since, caller = self._queue.next(now := monotonic(), full)
            self._waiting[caller] -= 1
            self._bytes[caller] -= len(message.data)
            if not self._waiting[caller]:
                del self._waiting[caller], self._bytes[caller]
            in_time = now - since <= self._limits.max_wait_s
            task = asyncio.ensure_future(self._answer(message) if in_time else self._refuse(message, len(self._queue)))
            self._running[task] = message, caller
            self._running_of[caller] += 1
            task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        _, caller = self._running.pop(task)
        self._running_of[caller] -= 1
        if not self._running_of[caller]:
            del self._running_of[caller]
        try:
            if not task.cancelled():
                task.result()
        finally:
            self._start_next()

    async def stop(self) -> None:
        """Let running requests end; refuse waiting ones, which their callers may send to another replica."""
        waiting, self._queue, self._waiting, self._bytes = self._queue.items(), FairQueue(), {}, Counter()
        for message, _, _ in waiting:
            await self._refuse(message, None)
        if self._limits.repeatable:
            for task, (message, _) in list(self._running.items()):
                if task.cancel():
                    await self._refuse(message, None)
        if self._running:
            await asyncio.wait(set(self._running), timeout=STOP_WAIT_S)
