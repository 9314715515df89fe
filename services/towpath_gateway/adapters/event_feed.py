"""Live messages of one run: its transitions on `run.event.<run_id>`, a model's text on `run.tokens.<run_id>`.

A feed is a hint: it may miss, repeat and reorder, and its user asks the orchestrator for the log. Buffers are small, so
a slow reader loses hints, never events.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from nats import errors as nats_errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import ValidationError

from towpath_contracts import subjects
from towpath_contracts.decisions.request import TokenDelta
from towpath_contracts.events.log import LogEntry, TransitionEvents
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.nats.bus import Bus

MAX_WAITING = 64
"""Transitions kept for a slow reader; beyond that it reads pages."""

MAX_DELTAS = 64
"""Pieces of a model's text kept for a slow reader: some seconds of them; beyond that it reads the log alone."""

_ENDED = b'"run_finished"'

T = TypeVar("T")


class RunEventFeed:
    """Use: `async with Feed(bus, run_id, stopping) as feed`, then `await feed.wait(s)` and `feed.take()` in a loop."""

    def __init__(self, bus: Bus, run_id: UUID, stopping: asyncio.Event, arrived: asyncio.Event | None = None) -> None:
        """*arrived* is set for every message; whoever shares one event among several feeds also clears it."""
        self.run_id = run_id
        self.ended = False
        """Whether a message that was not taken yet looks like the run's end."""
        self._bus = bus
        self._stopping = stopping
        self._waiting: deque[bytes] = deque(maxlen=MAX_WAITING)
        self._arrived = arrived or asyncio.Event()
        self._shares = arrived is not None
        self._stop: asyncio.Task[bool] | None = None
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        try:
            self._subscription = await self._bus.nc.subscribe(subjects.run_event(self.run_id), cb=self._on_message)
        except nats_errors.Error as error:
            raise ProblemError(problem("unavailable", "the message bus can't be reached", retry_after_s=2)) from error
        self._stop = asyncio.create_task(self._stopping.wait())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is not None:
            self._stop.cancel()
            await asyncio.gather(self._stop, return_exceptions=True)
        if self._subscription is not None and not self._bus.nc.is_closed:
            try:
                await self._subscription.unsubscribe()
            except nats_errors.Error:
                self._subscription = None

    @property
    def stopping(self) -> bool:
        """Whether this process is asked to end."""
        return self._stopping.is_set()

    async def wait(self, seconds: float) -> None:
        """Return when a message has arrived, when the process is asked to end, or after *seconds*."""
        assert self._stop is not None
        if self._arrived.is_set() or self.stopping:
            return
        arrived = asyncio.create_task(self._arrived.wait())
        try:
            await asyncio.wait({arrived, self._stop}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrived.cancel()

    async def unless_stopping(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what *work* gives, or None when the process is asked to end first."""
        assert self._stop is not None
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()

    def take(self) -> list[LogEntry]:
        """Return the events that arrived since the last call; what can't be read will be read from the log."""
        if not self._shares:
            self._arrived.clear()
        self.ended = False
        entries: list[LogEntry] = []
        while self._waiting:
            try:
                entries += TransitionEvents.model_validate_json(self._waiting.popleft()).entries
            except ValidationError:
                continue
        return entries

    async def _on_message(self, message: Msg) -> None:
        self._waiting.append(message.data)
        if _ENDED in message.data:
            self.ended = True
        self._arrived.set()


class TokenFeed:
    """What a model is writing for one run, as it comes on `run.tokens.<run_id>`: a slow reader misses some.

    Use: `await pieces.open()`, then `take` whenever *arrived* is set, and `close`.
    """

    def __init__(self, bus: Bus, run_id: UUID, arrived: asyncio.Event) -> None:
        self._bus = bus
        self._run_id = run_id
        self._arrived = arrived
        self._waiting: deque[bytes] = deque(maxlen=MAX_DELTAS)
        self._subscription: Subscription | None = None

    async def open(self) -> None:
        """Subscribe; without a bus there are no deltas, and the log has everything all the same."""
        with suppress(nats_errors.Error):
            self._subscription = await self._bus.nc.subscribe(subjects.run_tokens(self._run_id), cb=self._on_message)

    async def close(self) -> None:
        """Unsubscribe; safe to call twice."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._bus.nc.is_closed:
            with suppress(nats_errors.Error):
                await subscription.unsubscribe()

    def take(self) -> list[TokenDelta]:
        """Return the deltas since the last call, without those that can't be read or are of another run."""
        found: list[TokenDelta] = []
        while self._waiting:
            try:
                delta = TokenDelta.model_validate_json(self._waiting.popleft())
            except ValidationError:
                continue
            if delta.run_id == self._run_id:
                found.append(delta)
        return found

    async def _on_message(self, message: Msg) -> None:
        self._waiting.append(message.data)
        self._arrived.set()
