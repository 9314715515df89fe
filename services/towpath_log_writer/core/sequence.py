"""Which events of what arrived continue a run's history, and where something is missing.

History of a run grows by the next seq or not at all. What is already held is dropped, what comes after a gap waits
for the run log to be read: nothing is remembered here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from towpath_contracts.runs.raw_events import RawEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ContiguousEvents:
    """Events that continue one run's history after `held`, without a gap."""

    run_id: UUID
    project: str
    held: int
    entries: tuple[RawEntry, ...]

    @property
    def seq(self) -> int:
        """How far the run's history goes with them."""
        return self.entries[-1].seq if self.entries else self.held


def continue_from(run_id: UUID, project: str, held: int, entries: Iterable[RawEntry]) -> tuple[ContiguousEvents, bool]:
    """Return what continues the history held so far, and whether something is missing behind it."""
    following: list[RawEntry] = []
    seq = held
    missing = False
    for entry in sorted(entries, key=_seq):
        if entry.seq <= seq:
            continue
        if entry.seq > seq + 1:
            missing = True
            break
        following.append(entry)
        seq = entry.seq
    return ContiguousEvents(run_id=run_id, project=project, held=held, entries=tuple(following)), missing


def _seq(entry: RawEntry) -> int:
    return entry.seq


def halves(segments: list[ContiguousEvents]) -> list[list[ContiguousEvents]]:
    """Split work that failed, to find what is at fault; a single event can't be split and gives nothing."""
    if len(segments) > 1:
        middle = len(segments) // 2
        return [segments[:middle], segments[middle:]]
    (segment,) = segments
    if len(segment.entries) < 2:
        return []
    middle = len(segment.entries) // 2
    first, second = segment.entries[:middle], segment.entries[middle:]
    parts = ((segment.held, first), (first[-1].seq, second))
    return [
        [ContiguousEvents(run_id=segment.run_id, project=segment.project, held=held, entries=entries)]
        for held, entries in parts
    ]
