"""A run, or a run and all below it, in the terms of a conversation: the typed events of the SDK's stream, as frames.

They are made of the log from its beginning, so that a client that resumes gets the same items as one that stayed. One
event of the log may be several items: the id of an item says how many of them were sent, and none comes twice.
"""

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from towpath_contracts.events.log import LogEntry
from towpath_gateway.core import sse
from towpath_readings.stream.deltas import DeltaEvent
from towpath_readings.stream.live import LiveStream, StreamEvent
from towpath_readings.stream.tree import TreeEntry, TreeStream, write_cursor

NewStream = Callable[[], LiveStream]
"""Makes the stream of one run, with what the client wants of it."""


class TypedRunFraming:
    """One run. The first *after* events were sent before, and so many *items* of the next."""

    def __init__(self, run_id: UUID, new_stream: NewStream, after: int, items: int) -> None:
        self._run_id = run_id
        self._stream = new_stream()
        self._after = after
        self._items = items

    def runs(self) -> tuple[UUID, ...]:
        """Return the run."""
        return (self._run_id,)

    def entry(self, _run_id: UUID, entry: LogEntry, superseded: tuple[DeltaEvent, ...]) -> Iterator[bytes]:
        """Yield the frames of what *entry* adds."""
        made = self._stream.of(entry)
        if entry.seq <= self._after:
            return
        yield from map(sse.delta_frame, superseded)
        skipped = self._items if entry.seq == self._after + 1 else 0
        for number, item in list(enumerate(made, 1))[skipped:]:
            name = str(entry.seq) if number == len(made) else f"{entry.seq}.{number}"
            yield sse.typed_frame(item, name)

    def delta_frame(self, _run_id: UUID, delta: DeltaEvent) -> bytes:
        """Return its frame, where the client wants what it is a piece of."""
        return sse.delta_frame(delta) if self._stream.wants(delta) else b""

    def remaining_frames(self, _run_id: UUID) -> Iterator[bytes]:
        """Nothing waits for a run alone."""
        return iter(())

    def is_waiting(self, _run_id: UUID) -> bool:
        """Nor does it wait."""
        return False


class TypedTreeFraming:
    """A run and all below it; *sent* says how far each was sent before, *items* how much of whose next event."""

    def __init__(
        self, run_id: UUID, new_stream: NewStream, sent: Mapping[UUID, int], items: Mapping[UUID, int]
    ) -> None:
        self._tree = TreeStream(run_id, sent)
        self._new_stream = new_stream
        self._sent = sent
        self._items = items
        self._streams: dict[UUID, LiveStream] = {}
        self._made: dict[tuple[UUID, int], tuple[StreamEvent, ...]] = {}

    def runs(self) -> tuple[UUID, ...]:
        """Return the runs that were begun so far."""
        return self._tree.runs

    def entry(self, run_id: UUID, entry: LogEntry, superseded: tuple[DeltaEvent, ...]) -> Iterator[bytes]:
        """Yield the frames of what may be sent now that *entry* was read, of whichever run."""
        made = self._stream(run_id).of(entry)
        if entry.seq > self._sent.get(run_id, 0):
            self._made[run_id, entry.seq] = made
            for one in superseded:
                yield self.delta_frame(run_id, one)
        yield from self._frames(self._tree.take(run_id, entry))

    def delta_frame(self, run_id: UUID, delta: DeltaEvent) -> bytes:
        """Return its frame, where the client wants what it is a piece of."""
        if not self._stream(run_id).wants(delta):
            return b""
        return sse.delta_frame(delta.model_copy(update={"run_id": run_id, "path": self._tree.path(run_id)}))

    def remaining_frames(self, run_id: UUID) -> Iterator[bytes]:
        """Yield the frames of what waited for *run_id*."""
        yield from self._frames(self._tree.end(run_id))

    def is_waiting(self, run_id: UUID) -> bool:
        """Return whether a child of *run_id* has to be sent to its end first."""
        return self._tree.is_held(run_id)

    def _stream(self, run_id: UUID) -> LiveStream:
        return self._streams.setdefault(run_id, self._new_stream())

    def _frames(self, entries: Iterator[TreeEntry]) -> Iterator[bytes]:
        for entry in entries:
            run_id, made = entry.run_id, self._made.pop((entry.run_id, entry.seq), ())
            skipped = self._items.get(run_id, 0) if entry.seq == self._sent.get(run_id, 0) + 1 else 0
            for number, item in list(enumerate(made, 1))[skipped:]:
                begun = "" if number == len(made) else f"!{write_cursor({run_id: entry.seq})}.{number}"
                shown = item.model_copy(update={"run_id": run_id, "path": entry.path})
                yield sse.typed_frame(shown, f"{self._tree.cursor}{begun}")
