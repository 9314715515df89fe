"""What the watchdog looks for, and how it asks which runs stand still.

The watchdog is the second layer: it reports what it sees, and the run machine decides what becomes of it.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, MessagePart

FindingName = Literal["similar_actions", "stalled_progress", "cycle", "silent", "lost"]
"""`similar_actions`, `stalled_progress` and `cycle` are about what a model does; `silent` and `lost` are about what the
platform owes the run: no event for longer than its lease, or work that nobody looks after in time."""

ABOUT_THE_MODEL: frozenset[str] = frozenset({"similar_actions", "stalled_progress", "cycle"})

KEY_CHARS = 200
"""Of the name of a finding: what it is about, so that two of one kind differ."""

DETAIL_CHARS = 500
TOOLS_TOLD = 10

Idle = Literal["overdue", "quiet", "queued"]
"""`overdue`: its time to be looked at has passed; `quiet`: it runs and nothing happens; `queued`: not admitted."""


class ListIdleRuns(Message):
    """Lists the runs that nobody advances. Times are seconds beyond which a run is named, of Postgres's clock."""

    overdue_s: float = Field(gt=0, le=86_400)
    quiet_s: float = Field(gt=0, le=86_400)
    queued_s: float = Field(gt=0, le=30 * 86_400)
    limit: int = Field(default=100, ge=1, le=1_000)


class IdleRun(MessagePart):
    """A run that stands still; `since` is when it should have been looked at, moved last, or was accepted."""

    run_id: UUID
    project: str
    seq: int
    status: str
    idle: Idle
    since: datetime
    for_s: float


class IdleRunList(Message):
    """Runs that stand still, those longest that do so longest of each sort; at most `limit` of each."""

    runs: tuple[IdleRun, ...]
