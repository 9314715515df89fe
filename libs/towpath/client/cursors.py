"""Where a stream over HTTP stands, and what its frames say.

An event is given out once, however often the stream is taken up again; pieces of a model's text as they come.
"""

from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.events.log import (
    AnyEvent,
    DecisionPostponed,
    DecisionRefused,
    DecisionRequestFailed,
    InstructionIssued,
    LogEntry,
    RunFinished,
)
from towpath_readings.stream.deltas import DeltaEvent
from towpath_readings.stream.live import RunStreamDelta, RunStreamSuperseded
from towpath_readings.stream.tree import TreeEntry

_PIECES: dict[str, TypeAdapter[Any]] = {
    "delta": TypeAdapter(RunStreamDelta),
    "superseded": TypeAdapter(RunStreamSuperseded),
}


class RunStreamCursor:
    """Follows a run after seq *after*, with *children* everything below it, with *deltas* what models write."""

    def __init__(self, run_id: UUID, after: int = 0, *, children: bool = False, deltas: bool = False) -> None:
        self.run_id = run_id
        self.ended = False
        self.by_page = False
        self.children = children
        self._deltas = deltas
        self._seen: dict[UUID, int] = {run_id: after}
        self._last = str(after) if after else ""
        self._written: dict[UUID, RunStreamDelta] = {}

    @property
    def after(self) -> int:
        """The seq of the run's last event that was given out."""
        return self._seen[self.run_id]

    @property
    def headers(self) -> dict[str, str]:
        """What takes the stream up where it stands."""
        return {"Last-Event-ID": self._last} if self._last else {}

    @property
    def query(self) -> dict[str, str]:
        """What the stream is to hold."""
        wanted = {"children": self.children, "deltas": self._deltas}
        return {name: "true" for name, on in wanted.items() if on}

    def superseded_deltas(self) -> list[DeltaEvent]:
        """Return what takes back the deltas that were given out before the stream was cut: their rest will not come.

        What the log brings of their calls comes whole.
        """
        cut = [
            RunStreamSuperseded(
                **one.model_dump(include={"step", "run_id", "path", "request_id", "attempt"}), reason="interrupted"
            )
            for one in self._written.values()
        ]
        self._written.clear()
        return [*cut]

    def read(self, event: str, data: str, name: str) -> LogEntry | DeltaEvent | None:
        """Return what a frame with the id *name* brings; None for what is known, or of a newer release."""
        try:
            if event in _PIECES:
                return self._remember_delta(_PIECES[event].validate_json(data))
            entry = (TreeEntry if self.children else LogEntry).model_validate_json(data)
        except ValidationError:
            return None
        if not self.accept(entry):
            return None
        self._last = name or str(entry.seq)
        if _ends_deltas(entry.event):
            self._written.pop(self._run_of(entry), None)
        return entry

    def _remember_delta(self, piece: DeltaEvent) -> DeltaEvent:
        run_id = piece.run_id or self.run_id
        if isinstance(piece, RunStreamDelta):
            self._written[run_id] = piece
        else:
            self._written.pop(run_id, None)
        return piece

    def _run_of(self, entry: LogEntry) -> UUID:
        return entry.run_id if isinstance(entry, TreeEntry) else self.run_id

    def accept(self, entry: LogEntry) -> bool:
        """Return whether *entry* is new, and move on if so."""
        run_id = self._run_of(entry)
        if entry.seq <= self._seen.get(run_id, 0):
            return False
        self._seen[run_id] = entry.seq
        return True

    def skip_to(self, seq: int) -> None:
        """Go on after *seq* of the run, which could not be read."""
        self._seen[self.run_id] = max(self.after, seq)
        self._last = str(self.after)


def _ends_deltas(event: AnyEvent) -> bool:
    """Return whether the deltas of a model call are in the log by now, or were discarded; an answer may not be yet."""
    if isinstance(event, InstructionIssued):
        return not isinstance(event.instruction, FinishInstruction)
    return isinstance(event, DecisionPostponed | DecisionRefused | DecisionRequestFailed | RunFinished)
