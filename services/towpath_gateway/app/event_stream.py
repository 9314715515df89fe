"""The event stream of a run, or of a run and everything below it: every event once, in order, from the log.

What is sent is exactly the log after what the client has; the bus only makes it fast. A client that reads slowly
waits for itself alone: logs are read at its pace, and pieces of a model's text that it has no time for are dropped. The
stream says goodbye when this process stops, and never changes a run: dropping it cancels nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol
from uuid import UUID

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.clock import monotonic
from towpath_gateway.adapters.platform_client import PlatformClient
from towpath_gateway.app.run_reader import RunStreamReader, close_readers
from towpath_gateway.app.stream_pace import PageTurns
from towpath_gateway.core import sse
from towpath_readings.stream.deltas import DeltaEvent
from towpath_readings.stream.tree import TreeEntry, TreeStream

PING_S = 15.0
"""Proxies drop connections that are silent for 30 to 60 s."""


class StreamFraming(Protocol):
    """Which runs an event stream reads (one run, or a run with all below it), and how events are framed for SSE."""

    def runs(self) -> tuple[UUID, ...]:
        """Return the runs to read, the one that was asked for first; more may come while they are read."""

    def entry(self, run_id: UUID, entry: LogEntry, superseded: tuple[DeltaEvent, ...]) -> Iterator[bytes]:
        """Yield frames for the next entry of a run; *superseded* is sent before it."""

    def delta_frame(self, run_id: UUID, delta: DeltaEvent) -> bytes:
        """Return the frame of a piece of a model's text; empty where the client does not want it."""

    def remaining_frames(self, run_id: UUID) -> Iterator[bytes]:
        """Yield the frames that waited for a run that has no more events."""

    def is_waiting(self, run_id: UUID) -> bool:
        """Return whether reading more of a run has to wait for another one."""


class SingleRunFraming:
    """One run; the id of an event is its seq."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id

    def runs(self) -> tuple[UUID, ...]:
        """Return the run."""
        return (self._run_id,)

    def entry(self, _run_id: UUID, entry: LogEntry, superseded: tuple[DeltaEvent, ...]) -> Iterator[bytes]:
        """Yield its frame."""
        yield from map(sse.delta_frame, superseded)
        yield sse.entry_frame(entry, str(entry.seq))

    def delta_frame(self, _run_id: UUID, delta: DeltaEvent) -> bytes:
        """Return its frame."""
        return sse.delta_frame(delta)

    def remaining_frames(self, _run_id: UUID) -> Iterator[bytes]:
        """Nothing waits for a run alone."""
        return iter(())

    def is_waiting(self, _run_id: UUID) -> bool:
        """Nor does it wait."""
        return False


class RunTreeFraming:
    """A run and all below it; the id of an event says how far each of them was sent."""

    def __init__(self, run_id: UUID, delta: dict[UUID, int]) -> None:
        self._tree = TreeStream(run_id, delta)
        self._paths: dict[UUID, tuple[str, ...]] = {}

    def runs(self) -> tuple[UUID, ...]:
        """Return the runs that were begun so far."""
        return self._tree.runs

    def entry(self, run_id: UUID, entry: LogEntry, superseded: tuple[DeltaEvent, ...]) -> Iterator[bytes]:
        """Yield the frames of what may be sent now that *entry* was read, of whichever run."""
        for one in superseded:
            yield self.delta_frame(run_id, one)
        yield from self._frames(self._tree.take(run_id, entry))

    def delta_frame(self, run_id: UUID, delta: DeltaEvent) -> bytes:
        """Return its frame."""
        return sse.delta_frame(delta.model_copy(update={"run_id": run_id, "path": self._tree.path(run_id)}))

    def remaining_frames(self, run_id: UUID) -> Iterator[bytes]:
        """Yield the frames of what waited for *run_id*."""
        yield from self._frames(self._tree.end(run_id))

    def is_waiting(self, run_id: UUID) -> bool:
        """Return whether a child of *run_id* has to be sent to its end first."""
        return self._tree.is_held(run_id)

    def _frames(self, entries: Iterator[TreeEntry]) -> Iterator[bytes]:
        for entry in entries:
            yield sse.entry_frame(entry, self._tree.cursor)


class RunStream:
    """The frames of one client's stream. Make it after a first page has shown that the client may see the run."""

    def __init__(
        self,
        platform: PlatformClient,
        project: str,
        first: EventPage,
        layout: StreamFraming,
        turns: PageTurns,
        *,
        after: int = 0,
        deltas: bool = False,
    ) -> None:
        """*first* is a page of the log after seq *after*; with *deltas* pieces of a model's text are sent too."""
        self._platform = platform
        self._project = project
        self._first = first
        self._layout = layout
        self._turns = turns
        self._after = after
        self._deltas = deltas
        self._arrived = asyncio.Event()
        self._readers: dict[UUID, RunStreamReader] = {}
        self._ended: set[UUID] = set()
        self._sent = monotonic()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield frames until all runs have ended or the rest is parked, the process stops, or the client goes."""
        yield sse.RETRY
        try:
            async for frames in self._follow():
                self._sent = monotonic()
                yield frames
        except ProblemError as error:
            yield sse.problem_frame(error.problem.model_dump(mode="json", exclude_none=True))
        finally:
            await close_readers(self._readers.values())

    async def _follow(self) -> AsyncIterator[bytes]:
        top = await self._begin(self._first.run_id, self._after)
        frames = self._entries(top, top.accept_page(self._first)) + self._entries(top, await top.read_page())
        if frames:
            yield b"".join(frames)
        while True:
            self._arrived.clear()
            busy = False
            for run_id in self._layout.runs():  # one after the other: no more than a page is held for a slow client
                if self._is_live(run_id) and (frames := await self._read(run_id)):
                    busy = True
                    yield b"".join(frames)
            if busy or self._is_waiting_to_be_read():
                continue
            if frames := await self._end_parked(top):
                yield b"".join(frames)
                continue
            if self._platform.stopping.is_set():
                yield sse.BYE
                return
            if top.page is not None and self._ended >= set(self._layout.runs()):
                yield sse.end_frame(top.run_id, top.page.status, top.cursor)
                return
            if await self._is_silent_for_long(top):
                yield sse.PING

    async def _begin(self, run_id: UUID, after: int = 0) -> RunStreamReader:
        reader = RunStreamReader(
            self._platform, self._project, run_id, self._arrived, self._turns, after=after, deltas=self._deltas
        )
        self._readers[run_id] = reader
        await reader.open()
        return reader

    async def _read(self, run_id: UUID) -> list[bytes]:
        """Return the frames of what there is of a run, which may have begun just now."""
        reader = self._readers.get(run_id) or await self._begin(run_id)
        try:
            frames = self._entries(reader, await reader.read_new())
        except ProblemError as error:
            if error.problem.code not in {"run_not_found", "run_erased"} or run_id == self._first.run_id:
                raise
            return await self._end(reader)  # a child that is kept no longer
        deltas = (self._layout.delta_frame(run_id, one) for one in reader.new_deltas())
        frames += [frame for frame in deltas if frame]
        return frames + await self._end(reader) if reader.has_ended else frames

    async def _end(self, reader: RunStreamReader) -> list[bytes]:
        self._ended.add(reader.run_id)
        if reader.run_id != self._first.run_id:  # the first one is what is waited with
            await reader.close()
        return list(self._layout.remaining_frames(reader.run_id))

    async def _end_parked(self, top: RunStreamReader) -> list[bytes]:
        """Wait no more for parked runs once they alone are left; return the frames of what waited for them."""
        left = [self._readers[run_id] for run_id in self._layout.runs() if run_id not in self._ended]
        if any(reader is top or not reader.is_parked for reader in left):
            return []
        return [frame for reader in left for frame in await self._end(reader)]

    def _entries(self, reader: RunStreamReader, entries: list[LogEntry]) -> list[bytes]:
        return [
            frame
            for entry in entries
            for frame in self._layout.entry(reader.run_id, entry, reader.superseded_by(entry))
        ]

    def _is_live(self, run_id: UUID) -> bool:
        """Whether there may be more to read of a run now."""
        return run_id not in self._ended and not self._layout.is_waiting(run_id)

    def _is_waiting_to_be_read(self) -> bool:
        """Whether there is more to read at once: runs that were just begun, or pages that went on."""
        return any(run_id not in self._readers for run_id in self._layout.runs()) or any(
            reader.is_behind and reader.has_read for run_id, reader in self._readers.items() if self._is_live(run_id)
        )

    async def _is_silent_for_long(self, top: RunStreamReader) -> bool:
        """Wait for something to read, no longer than until the next look or ping; say whether a ping is due."""
        checks = [reader.next_check for run_id, reader in self._readers.items() if self._is_live(run_id)]
        until = min([*checks, self._sent + PING_S])
        await top.wait(max(0.0, until - monotonic()))
        return monotonic() - self._sent >= PING_S
