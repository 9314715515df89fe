"""Erasing: somebody asks for it, and another person confirms it, or whoever asked does after a delay.

What is erased can't be brought back, so one stolen or misused credential must not be enough for it. Whatever is asked,
confirmed, withdrawn and erased stands in the audit.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import Message

ErasureStatus = Literal["requested", "confirmed", "done", "withdrawn"]
"""`confirmed` is being carried out; `done` and `withdrawn` are final."""

ErasureKind = Literal["payloads", "run", "prune"]
"""What is erased: payloads of audit entries, or all that is stored of a run and of every run below it.

Retention prunes the same of runs that ended before a time. Nobody has to confirm that, and their audit stays.
"""

RequestedKind = Literal["payloads", "run"]

MAX_REASON = 2_000


class RequestErasure(Message):
    """Ask for the payloads of the entries that fit all that is given to be erased. `before` is exclusive.

    With the kind `run`: for the run `run_id` and every run below it, and nothing else is given.
    """

    project: str
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""
    kind: RequestedKind = "payloads"
    reason: str = Field(min_length=1, max_length=MAX_REASON)
    run_id: UUID | None = None
    execution_id: UUID | None = None
    caller: str | None = None
    before: AwareDatetime | None = None


class DecideErasure(Message):
    """Confirm a requested erasure, which carries it out, or withdraw it."""

    project: str
    erasure_id: UUID
    verdict: Literal["confirm", "withdraw"]
    actor: str
    key_prefix: str = ""
    key_commitment: str = ""


class ListErasures(Message):
    """The erasures of a project, newest first: of one status, before one of them, or one alone."""

    project: str
    status: ErasureStatus | None = None
    erasure_id: UUID | None = None
    before: UUID | None = None
    limit: int = Field(default=100, ge=1, le=500)


class ErasureView(Message):
    """One erasure. Until `alone_from` who asked can't confirm it; `erased` counts the payloads that are gone.

    Where the platform is for a `single_person`, who asked can confirm it at once.

    Of the kind `run`: `runs` counts the run and those below it, which were fixed when it was asked for, and `run_ids`
    are they; in lists only the first five. `parts` names what is erased, of `runs`, `blobs`, `history` and `tas`: each
    is the tables of one owner, and `blobs` those of the run log. With the kind `prune` they ended before `before`.
    """

    erasure_id: UUID
    kind: ErasureKind = "payloads"
    project: str
    status: ErasureStatus
    run_id: UUID | None = None
    execution_id: UUID | None = None
    caller: str | None = None
    before: datetime | None = None
    reason: str
    requested_by: str
    requested_at: datetime
    alone_from: datetime
    decided_by: str = ""
    decided_at: datetime | None = None
    erased: int = 0
    done_at: datetime | None = None
    runs: int = 0
    run_ids: tuple[UUID, ...] = ()
    parts: tuple[str, ...] = ()
    single_person: bool = False


class ErasureList(Message):
    """A page of erasures; there are more where `next_before` is given."""

    erasures: tuple[ErasureView, ...]
    next_before: UUID | None = None
