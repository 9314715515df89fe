"""One run in the frames of another protocol, from its beginning to its end or to where the protocol stops.

The log is read as every event stream reads it: the first page before anything is sent, in a turn of the key. What ends
a stream in between is told in it, and changes nothing for the run.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack, aclosing
from uuid import UUID

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.errors import naming_run
from towpath_gateway.app.event_stream import PING_S
from towpath_gateway.app.run_reader import RunStreamReader, close_readers
from towpath_gateway.app.stream_pace import PageTurns
from towpath_gateway.core.api_keys import Principal
from towpath_gateway.core.sse import PING


class SingleRunStream(Response, ABC):
    """The stream of one run, which counts as one of its client's streams; a protocol says how it is framed."""

    media_type = "text/event-stream"

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        *,
        after: int = 0,
        deltas: bool = True,
        headers: dict[str, str] | None = None,
    ) -> None:
        """The client has the events up to the seq *after*; with *deltas* pieces of a model's text are read too."""
        super().__init__()
        self._dependencies = dependencies
        self._principal = principal
        self._run_id = run_id
        self._after = after
        self._deltas = deltas
        self._more_headers = headers or {}
        self._arrived = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises ProblemError, which names the run, before anything is sent."""
        with ExitStack() as held:
            with naming_run(self._run_id):
                held.enter_context(self._dependencies.stream_shares.held(self._principal))
                turns = held.enter_context(self._dependencies.stream_pace.stream_of(self._principal))
                held.enter_context(self._dependencies.metrics.streams.track_inprogress())
                first = await self._first_page(turns)
            headers = {"X-Accel-Buffering": "no", **self._more_headers}
            # Closed here, whatever becomes of the sending: a generator that is left at a yield holds its subscriptions.
            async with aclosing(self._frames(first, turns)) as frames:
                answer = StreamingResponse(frames, media_type=self.media_type, headers=headers)
                await answer(scope, receive, send)

    @abstractmethod
    async def _begin(self) -> bytes:
        """Return the frames before all others."""

    @abstractmethod
    def _framed(self, reader: RunStreamReader, entries: Sequence[LogEntry]) -> bytes:
        """Return the frames of the next *entries* of the log, and of what a model has written since."""

    async def _at_rest(self, _reader: RunStreamReader) -> bytes:
        """Return the frames of what a run that was read as far as it goes waits for; the protocol may end with them."""
        return b""

    @property
    def _has_ended(self) -> bool:
        """Whether the protocol has nothing more to say."""
        return False

    async def _end(self) -> bytes:
        """Return the frames after all others of a run that was read to its end."""
        return b""

    @abstractmethod
    def _failed(self, why: Problem) -> bytes:
        """Return the frames of a stream that can't go on."""

    async def _first_page(self, turns: PageTurns) -> EventPage:
        async with turns.opening():
            first = await self._dependencies.platform.page(self._principal.project, self._run_id, 0)
        if self._after > first.seq:
            raise ProblemError(problem("request_invalid", f"the run has {first.seq} events, not {self._after}"))
        return first

    async def _frames(self, first: EventPage, turns: PageTurns) -> AsyncGenerator[bytes]:
        platform, project = self._dependencies.platform, self._principal.project
        reader = RunStreamReader(platform, project, self._run_id, self._arrived, turns, deltas=self._deltas)
        try:
            await reader.open()  # before the first frame: who has that may count on the rest
            yield await self._begin()
            async for frames in self._pieces(reader, first):
                yield frames
        except ProblemError as error:
            yield self._failed(error.problem.of_run(self._run_id))
        finally:
            await close_readers([reader])

    async def _pieces(self, reader: RunStreamReader, first: EventPage) -> AsyncIterator[bytes]:
        """Yield frames until the stream has ended, and pings while nothing is said."""
        stopping, sent = self._dependencies.platform.stopping, monotonic()
        entries = reader.accept_page(first) + await reader.read_page()
        while True:
            if frames := self._framed(reader, entries):
                sent = monotonic()
                yield frames
            if self._has_ended or reader.has_ended:
                if not self._has_ended:
                    yield await self._end()
                return
            if not reader.is_behind and (frames := await self._at_rest(reader)):
                sent = monotonic()
                yield frames
                if self._has_ended:
                    return
            if stopping.is_set():
                raise ProblemError(problem("unavailable", "this gateway ends; the run goes on"))
            if not (reader.is_behind and reader.has_read):
                await reader.wait(max(0.0, min(reader.next_check, sent + PING_S) - monotonic()))
                if monotonic() - sent >= PING_S:
                    sent = monotonic()
                    yield PING
            self._arrived.clear()
            entries = await reader.read_new()
