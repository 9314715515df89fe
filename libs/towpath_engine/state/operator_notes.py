"""What people said to a run from outside and its model has not read yet, and which of their acts it has taken."""

from dataclasses import dataclass
from uuid import UUID

from towpath_engine.state.replace import replace

NOTES_KEPT = 20
"""Notes that a prompt shows: the newest. All of them are in the log."""

ACTS_KEPT = 32
"""Acts that are remembered. Their ids are time-ordered: one that so many newer ones have overtaken counts as taken."""


@dataclass(frozen=True, kw_only=True)
class UnreadNote:
    """A note, and how many requests the run had made before it: only later ones show it."""

    text: str
    requests: int


@dataclass(frozen=True, kw_only=True)
class OperatorNotes:
    """Unread notes in their order, and the ids of the acts that were taken last, in ascending order."""

    notes: tuple[UnreadNote, ...] = ()
    acts: tuple[UUID, ...] = ()

    def has_taken(self, act_id: UUID) -> bool:
        """Return whether the act was taken already, or is too old to tell."""
        return act_id in self.acts or (len(self.acts) == ACTS_KEPT and act_id < self.acts[0])

    def with_act(self, act_id: UUID) -> "OperatorNotes":
        """Return the state that remembers an act."""
        return replace(self, acts=tuple(sorted((*self.acts, act_id)))[-ACTS_KEPT:])

    def with_note(self, text: str, requests: int) -> "OperatorNotes":
        """Return the state with one more note to be read."""
        return replace(self, notes=(*self.notes, UnreadNote(text=text, requests=requests))[-NOTES_KEPT:])

    def shown(self, requests: int) -> tuple[str, ...]:
        """Return what a prompt shows that is asked with the last of so many *requests*."""
        return tuple(note.text for note in self.notes if note.requests < requests)

    def answered(self, requests: int) -> "OperatorNotes":
        """Return the state without the notes that the answered request has shown."""
        if not self.notes:
            return self
        return replace(self, notes=tuple(note for note in self.notes if note.requests >= requests))


NO_NOTES = OperatorNotes()
