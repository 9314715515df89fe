"""Pages of a run's log, as a reader asks for them one after the other."""

from uuid import UUID

from towpath_contracts.base import Message
from towpath_contracts.events.log import LogEntry


class EventPage(Message):
    """Events in seq order, the run's current seq and status."""

    run_id: UUID
    entries: tuple[LogEntry, ...]
    seq: int
    status: str
