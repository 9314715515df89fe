"""Reads one run for a viewer: its log in order, and on request what a model is writing.

What is read is exactly the log after the seq that the reader has; the bus only makes it fast. The run's seq is
checked now and then (`stream_pace.py`) and at its end. Pieces of a model's text are read only once the log has been.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from uuid import UUID

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_fabric.clock import monotonic
from towpath_gateway.adapters.event_feed import RunEventFeed, TokenFeed
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.stream_pace import PageTurns
from towpath_readings.stream.deltas import DeltaEvent, TokenDeltaFilter
from towpath_readings.stream.tree import PARKED

_closing: set[asyncio.Task[None]] = set()
"""Tasks that close readers; one that nobody holds may be gone before it has ended."""


class RunStreamReader:
    """Reads one run: `open` it, call `read_new` and `new_deltas` after every wait, then `close`."""

    def __init__(
        self,
        platform: PlatformClient,
        project: str,
        run_id: UUID,
        arrived: asyncio.Event,
        turns: PageTurns,
        *,
        after: int = 0,
        deltas: bool = False,
    ) -> None:
        """*arrived* is set when there may be something, *turns* are whose pages are read; *after* is the seq it has."""
        self.run_id = run_id
        self.page: EventPage | None = None
        self.cursor = after
        self.next_check = monotonic() + turns.check_s
        self.has_read = True
        """Whether the last reading brought something, so that the next one may at once."""
        self._platform = platform
        self._project = project
        self._turns = turns
        self._feed = RunEventFeed(platform.bus, run_id, platform.stopping, arrived)
        self._token_feed = TokenFeed(platform.bus, run_id, arrived) if deltas else None
        self._deltas = TokenDeltaFilter()
        self._open = AsyncExitStack()

    async def open(self) -> None:
        """Subscribe; raises ProblemError `unavailable` without a bus."""
        await self._open.enter_async_context(self._feed)
        if self._token_feed is not None:
            self._open.push_async_callback(self._token_feed.close)
            await self._token_feed.open()

    async def close(self) -> None:
        """Unsubscribe; safe to call twice."""
        await self._open.aclose()

    async def wait(self, seconds: float) -> None:
        """Return when there may be something, when the process is asked to end, or after *seconds*."""
        await self._feed.wait(seconds)

    @property
    def is_behind(self) -> bool:
        """Whether the log is known to hold more than was read."""
        return self.page is None or self.cursor < self.page.seq

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and its log was read to the end."""
        return self.page is not None and self.page.status in FINAL_STATUSES and not self.is_behind

    @property
    def is_parked(self) -> bool:
        """Whether the run stands still until a person acts, by the last look, and its log was read to the end."""
        return self.page is not None and self.page.status == PARKED and self.cursor == self.page.seq

    def accept_page(self, page: EventPage) -> list[LogEntry]:
        """Return the entries of a page that somebody has read already."""
        self.page = page
        return self._in_order(page.entries)

    async def read_new(self) -> list[LogEntry]:
        """Return the entries that are available: those that arrived, and those of the log where it may hold more."""
        at_end = self._feed.ended
        arrived = self._feed.take()
        entries = self._in_order(arrived)
        missed = any(entry.seq > self.cursor for entry in arrived)
        if self.is_behind or at_end or missed or monotonic() >= self.next_check:
            entries += await self.read_page()
        self.has_read = bool(entries)
        return entries

    async def read_page(self) -> list[LogEntry]:
        """Read what comes after the cursor; when nobody answers, the page stays until the next look."""
        self.next_check = monotonic() + self._turns.check_s
        try:
            page = await self._feed.unless_stopping(self._page())
        except ProblemError as error:
            if not error.problem.retryable:
                raise
            return []
        return [] if page is None else self.accept_page(page)

    async def _page(self) -> EventPage:
        async with self._turns.turn:
            return await self._platform.page(self._project, self.run_id, self.cursor)

    def superseded_by(self, entry: LogEntry) -> tuple[DeltaEvent, ...]:
        """Return the deltas that become void with *entry*, to be sent before it."""
        return self._deltas.entry(entry) if self._token_feed is not None else ()

    def new_deltas(self) -> list[DeltaEvent]:
        """Return what the model has written since the last time, as far as it can be read and nothing is behind."""
        if self._token_feed is None or self.is_behind:
            return []
        return [one for piece in self._token_feed.take() for one in self._deltas.piece(piece)]

    def _in_order(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Return those entries that follow the cursor without a gap; the rest comes by page."""
        found = []
        for entry in entries:
            if entry.seq == self.cursor + 1:
                self.cursor = entry.seq
                found.append(entry)
        return found


async def close_readers(readers: Iterable[RunStreamReader]) -> None:
    """Close them in a task of its own: that of a client that went away is cancelled at every await."""
    closing = asyncio.create_task(_close(list(readers)))
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    await asyncio.shield(closing)


async def _close(readers: Sequence[RunStreamReader]) -> None:
    for reader in readers:
        await reader.close()
