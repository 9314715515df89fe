"""Requests that are answered in turns of who asks: a flood of one is not everybody's wait.

Nothing is worked on before its turn, and nothing waits in silence: what is too much is answered at once, with
what *full* says. FastStream hands out one message each time the event loop comes round, in the order of arrival.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg

from towpath_fabric.clock import monotonic
from towpath_fabric.fair_queue import Owner, Turns

STOP_WAIT_S = 2.0
"""How long answers under way may take when the process stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Who asks is what *asker* makes of the subject; *most* may wait, of them one asker's *share*.

    *at_once* says how many are answered at the same time just now: at least one.
    """

    asker: Callable[[str], str]
    most: int
    share: float
    at_once: Callable[[], int]


class Door:
    """Takes messages as they come, and answers them in turns, few at the same time."""

    def __init__(
        self,
        rules: Rules,
        serve: Callable[[Msg], Awaitable[None]],
        full: Callable[[Msg, int], Awaitable[None]],
    ) -> None:
        """*full* answers what there is no room for; it is told how many wait."""
        self._rules = rules
        self._serve = serve
        self._full = full
        self._turns: Turns[Msg] = Turns()
        self._waiting: dict[str, int] = {}
        self._taken = 0
        self._busy: set[asyncio.Task[None]] = set()

    async def heard(self, message: Msg) -> None:
        """Take a message."""
        asker = self._rules.asker(message.subject)
        own, waiting = self._waiting.get(asker, 0), len(self._turns)
        if waiting >= self._rules.most or own >= self._rules.most * self._rules.share:
            await self._full(message, waiting)
            return
        self._taken += 1
        self._waiting[asker] = own + 1
        self._turns.put(UUID(int=self._taken), message, Owner(caller=asker, root=UUID(int=0)), monotonic())
        self._begin()

    def _begin(self) -> None:
        while len(self._turns) and len(self._busy) < self._rules.at_once():
            message = self._turns.next(monotonic())
            asker = self._rules.asker(message.subject)
            self._waiting[asker] -= 1
            if not self._waiting[asker]:
                del self._waiting[asker]
            task = asyncio.ensure_future(self._serve(message))
            self._busy.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._busy.discard(task)
        try:
            if not task.cancelled():
                task.result()
        finally:
            self._begin()

    async def stop(self) -> None:
        """Let what is under way end; what waits is refused, and may be asked again elsewhere."""
        waiting, self._turns = self._turns.items(), Turns()
        for message in waiting:
            await self._full(message, len(waiting))
        if self._busy:
            await asyncio.wait(set(self._busy), timeout=STOP_WAIT_S)
