"""Dead letters: messages that could not be handled, and what a person decides about them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import Message

MAX_REPORT_BASE64 = 4 * -(-700_000 // 3)
"""Of a body that travels in a message itself, and so must leave room in it; longer ones are cut."""

LetterStatus = Literal["dead", "requeued", "discarded"]


class ReportDeadLetter(Message):
    """A service without a database to the owner of the stream: this message can't be handled, keep it.

    `delivery` names the stored message, so that a repeated report is the same one.
    """

    stream: str
    subject: str = Field(max_length=512)
    reason: str = Field(max_length=2_000)
    body_base64: str = Field(max_length=MAX_REPORT_BASE64)
    delivery: int
    tells: bool = True


class DeadLetter(Message):
    """One dead letter. `body` is its text, as much of it as fits an answer; lists leave it out.

    What is not UTF-8 is shown as U+FFFD. `cut` says that only the beginning of the message is kept, `size` bytes: such
    a letter can't be sent again.
    """

    dead_letter_id: int
    at: datetime
    stream: str
    subject: str
    project: str | None = None
    run_id: UUID | None = None
    effect_id: UUID | None = None
    reason: str
    failures: int
    status: LetterStatus
    size: int
    cut: bool = False
    body: str | None = None
    settled_at: datetime | None = None
    settled_by: str = ""
    settled_reason: str = ""


class ListDeadLetters(Message):
    """Dead letters of a project, newest first, and with `unowned` those whose project nobody knows."""

    project: str
    unowned: bool = False
    status: LetterStatus | None = "dead"
    stream: str | None = None
    run_id: UUID | None = None
    dead_letter_id: int | None = None
    before: int | None = None
    limit: int = Field(default=50, ge=1, le=200)


class DeadLetterPage(Message):
    """Dead letters, newest first; `next_before` continues."""

    letters: tuple[DeadLetter, ...]
    next_before: int | None = None


class SettleDeadLetter(Message):
    """A person's word on a dead letter: send it again, once, or throw it away."""

    project: str
    unowned: bool = False
    dead_letter_id: int
    verdict: Literal["requeue", "discard"]
    actor: str
    reason: str = Field(max_length=2_000)
    key_prefix: str = ""
    key_commitment: str = ""


class RepublishDeadLetter(Message):
    """Orchestrator to TAS: put the message of this dead letter back into its stream, which is TAS's to write."""

    dead_letter_id: int
