"""Stored runs as material: their record for export, the result of its replay, and where a fork came from.

A record travels as text, exactly as it is stored, so that a replay elsewhere compares the same bytes.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message, MessagePart

Verdict = Literal["identical", "diverged", "parked", "incomplete", "unreadable"]
"""What a replay found.

`parked`: the same up to the fact that the machine of then could not apply. `incomplete`: some events have no facts, as
in runs from before facts were kept. `unreadable`: this version can't read what is stored.
"""

PASSES: frozenset[Verdict] = frozenset({"identical", "parked"})
"""Verdicts that say nothing against the version that replayed. `incomplete` proves nothing, and is counted apart."""


class GetRunRecord(Message):
    """Asks for the next piece of a run's record (header, facts, events); `cursor` is `next` of the piece before."""

    project: str
    run_id: UUID
    cursor: str = Field(default="", max_length=64)


class RunRecordPiece(Message):
    """A piece of a record as JSON lines: header, facts, events. Pieces joined in order are the whole file."""

    run_id: UUID
    text: str
    next: str | None = None


class ReplayRuns(Message):
    """Replay stored runs through the engine of the version that answers: one run, or a page of many, oldest first.

    `after` is the run id that ended the page before; a page also ends when it has taken about `budget_ms`.
    """

    project: str
    run_id: UUID | None = None
    network: str | None = None
    since: datetime | None = None
    after: UUID | None = None
    limit: int = Field(default=50, ge=1, le=500)
    budget_ms: int = Field(default=3_000, ge=1, le=20_000)


class ReplayResult(Message):
    """What the replay of one run found.

    `events` agree from the first on; `seq` is the first that does not, with what is recorded and what was made instead.
    `widened` events differ only by fields that were added to the contracts since. `engine_versions` recorded the run.
    """

    run_id: UUID
    network: str = ""
    version: int = 0
    status: str = ""
    verdict: Verdict
    events: int = 0
    widened: int = 0
    engine_version: str
    engine_versions: tuple[str, ...] = ()
    seq: int | None = None
    why: str = ""
    differences: tuple[str, ...] = ()
    recorded: str = ""
    replayed: str = ""


class ReplayPage(Message):
    """How the runs of one page replayed; `results` are those that are not identical, or the one asked for."""

    engine_version: str
    runs: int
    events: int
    identical: int
    results: tuple[ReplayResult, ...] = ()
    next_after: UUID | None = None


class ForkedFrom(MessagePart):
    """The run that another one is forked from, and the first step that the fork decides anew."""

    run_id: UUID
    step: int
