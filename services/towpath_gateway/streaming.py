"""The event stream of a run: every event once, in order, from the log; the bus only makes it fast.

Law: what is sent is exactly the log after the seq that the client has. The stream checks the run's seq every 2 s and at
its end, says goodbye when this process stops, and never changes a run: dropping it cancels nothing (design §4).
"""

from collections.abc import AsyncIterator
from uuid import UUID

from towpath_contracts.events import FINAL_STATUSES, LogEntry
from towpath_contracts.problems import ProblemError
from towpath_contracts.views import EventPage
from towpath_fabric.bus import Bus
from towpath_fabric.clock import monotonic
from towpath_gateway.adapters.feed import Feed
from towpath_gateway.adapters.platform import CHECK_S, Platform
from towpath_gateway.core import sse

PING_S = 15.0
"""Proxies drop connections that are silent for 30 to 60 s."""


class RunStream:
    """The frames of one client's stream. Make it after a first page has shown that the client may see the run."""

    def __init__(self, platform: Platform, project: str, run_id: UUID, first: EventPage, after: int) -> None:
        self._platform = platform
        self._project = project
        self._run_id = run_id
        self._page = first
        self._cursor = after
        self._checked = monotonic()
        self._sent = monotonic()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield frames until the run has ended, the process stops, or the client goes away."""
        yield sse.RETRY
        try:
            async with Feed(self._bus, self._run_id, self._platform.stopping) as feed:
                async for frames in self._follow(feed):
                    self._sent = monotonic()
                    yield frames
        except ProblemError as error:
            yield sse.problem_frame(error.problem.model_dump(mode="json", exclude_none=True))

    async def _follow(self, feed: Feed) -> AsyncIterator[bytes]:
        frames = self._in_order(self._page.entries) + await self._look(feed)
        while True:
            if frames:
                yield b"".join(frames)
            if self._behind() and (frames := await self._look(feed)):
                continue
            if feed.stopping:
                yield sse.BYE
                return
            if self._page.status in FINAL_STATUSES and not self._behind():
                yield sse.end_frame(self._run_id, self._page.status, self._cursor)
                return
            frames = await self._wait(feed)

    @property
    def _bus(self) -> Bus:
        return self._platform.bus

    def _behind(self) -> bool:
        return self._cursor < self._page.seq

    async def _wait(self, feed: Feed) -> list[bytes]:
        """Return the next frames: events that were told, a ping when nothing was said for long, or none."""
        await feed.wait(max(0.0, min(self._checked + CHECK_S, self._sent + PING_S) - monotonic()))
        at_end = feed.ended
        told = feed.take()
        frames = self._in_order(told)
        missed = any(entry.seq > self._cursor for entry in told)
        if at_end or missed or monotonic() - self._checked >= CHECK_S:
            frames += await self._look(feed)
        if not frames and monotonic() - self._sent >= PING_S:
            frames.append(sse.PING)
        return frames

    async def _look(self, feed: Feed) -> list[bytes]:
        """Read what comes after the cursor; when nobody answers, the page stays and the next look comes in CHECK_S."""
        self._checked = monotonic()
        try:
            page = await feed.unless_stopping(self._platform.page(self._project, self._run_id, self._cursor))
        except ProblemError as error:
            if error.problem.code != "unavailable":
                raise
            return []
        if page is None:
            return []
        self._page = page
        return self._in_order(page.entries)

    def _in_order(self, entries: "tuple[LogEntry, ...] | list[LogEntry]") -> list[bytes]:
        """Return the frames of those entries that follow the cursor without a gap; the rest comes by page."""
        frames = []
        for entry in entries:
            if entry.seq == self._cursor + 1:
                self._cursor = entry.seq
                frames.append(sse.entry_frame(entry))
        return frames
