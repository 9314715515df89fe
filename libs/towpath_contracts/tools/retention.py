"""For how long the tool-access service keeps the audit, and runs: the periods of the platform that settings decide.

Pruning: what is stored of runs that ended long ago goes, as far as the audit does not need it. Of a pruned run its row
stays, emptied, so that its id is told as pruned; so does its audit. Nothing younger than a week is pruned. A run goes
with every run below it, and a thread of runs as a whole.
"""

from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import Message

MIN_KEEP_DAYS = 7
"""What is younger is never pruned: messages about it may be on their way, and people may look for it."""

MAX_KEEP_DAYS = 36_500

MAX_REASON_CHARS = 2_000

EndedStatus = Literal["completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"]

WhyKept = Literal["not_ended", "too_young", "held", "not_asked_for", "too_large"]
"""Why a family of runs stays: one of it has not ended, or not long enough ago; a gate of it is open, or a call of it
is not settled; it is of another network or status; or it has more runs than one pruning takes."""


class GetRetention(Message):
    """Gateway to TAS: for how long do you keep the audit and runs?"""


class TasRetention(Message):
    """What the replica that answered was started with; days of 0 or less: for ever.

    `run_keep_days` is None where it is of the version before, which keeps runs for ever.
    """

    instance: str
    audit_keep_days: int
    origin: Literal["set", "default"]
    run_keep_days: int | None = None
    runs_origin: Literal["set", "default"] = "default"
    run_keep_days_by_status: dict[str, int] = Field(default_factory=dict)
    run_keep_days_by_network: dict[str, int] = Field(default_factory=dict)


class PruneRuns(Message):
    """Prune runs of a project that ended more than so many days ago, or with `dry_run` count them only.

    A request looks at the oldest families; `behind` goes on behind an earlier answer.
    """

    project: str
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    older_than_days: int = Field(ge=MIN_KEEP_DAYS, le=MAX_KEEP_DAYS)
    statuses: tuple[EndedStatus, ...] = ()
    network: str | None = None
    dry_run: bool = True
    behind: UUID | None = None
    reason: str = Field(default="", max_length=MAX_REASON_CHARS)


class PrunedRuns(Message):
    """What goes: so many runs, of families of which others are `kept`, by why, and of the runs about so many `bytes`.

    The bytes are those of tables without blobs, estimated from some of the runs; only a dry run has them.

    `erasure_id` is what carries it out, to be watched as any erasure; None where nothing goes, or nothing was to. There
    may be more where `next_behind` is given.
    """

    before: AwareDatetime
    runs: int = 0
    families: int = 0
    bytes: int | None = None
    kept: dict[WhyKept, int] = Field(default_factory=dict)
    erasure_id: UUID | None = None
    next_behind: UUID | None = None
