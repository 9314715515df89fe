"""Which runs a restored backup has as unfinished, and since when it is not known what they did.

Their next calls are asked about (`calls.restore_doubts`). A run that is not listed has begun after the restore.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID


class RestoredRuns:
    """The unfinished runs of one project that a backup brought back."""

    def __init__(self, lost_since: Mapping[UUID, datetime] | None = None) -> None:
        self.lost_since = lost_since or {}

    def find(self, run_ids: Iterable[UUID | None]) -> datetime | None:
        """Return since when it is not known what one of these did; None where all is known."""
        found = [self.lost_since[run_id] for run_id in run_ids if run_id is not None and run_id in self.lost_since]
        return min(found, default=None)
