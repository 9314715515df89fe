"""Conversations: runs that continue each other are a thread, and each begins with what was said before it.

Only two roles speak in an earlier turn: the user, who is the caller, and the assistant, which is whatever answered.
What tools returned belongs into `quoted_inputs`, or is read again. What a user attached to a turn is shown with it.
"""

from collections.abc import Callable, Iterable
from typing import Literal
from uuid import UUID

from pydantic import Field, model_validator

from towpath_contracts.base import ClientMessagePart, MessagePart, is_unset
from towpath_contracts.decisions.attachments import MAX_ATTACHMENTS, StoredAttachment, TaskAttachment

TurnRole = Literal["user", "assistant"]

MAX_TURNS = 200
"""Earlier turns of one run, whoever brings them."""

TURNS_BYTES = 128 * 1024
"""Of their texts together, as JSON. They go into every message of the run, which the broker limits to 1 MiB."""

FIRST_TURNS = 2
"""Turns that a cut keeps at the beginning of a conversation; what is left out stood behind them."""


SUMMARY_CHARS = 8_000
"""Of a summary of the turns that are left out."""


class TaskTurn(ClientMessagePart):
    """One earlier turn as a client gives it; only a user attaches anything."""

    role: TurnRole
    content: str = Field(min_length=1, max_length=100_000)
    attachments: tuple[TaskAttachment, ...] = Field(
        default=(), max_length=MAX_ATTACHMENTS, exclude_if=lambda attached: not attached
    )

    @model_validator(mode="after")
    def _users_attach(self) -> "TaskTurn":
        if self.attachments and self.role != "user":
            msg = "only a turn of the user has attachments"
            raise ValueError(msg)
        return self


class EarlierTurn(MessagePart):
    """One earlier turn as a run has it; `run_id` is the run of the thread in which it was said, if it was in one."""

    role: TurnRole
    content: str
    run_id: UUID | None = Field(default=None, exclude_if=is_unset)
    attachments: tuple[StoredAttachment, ...] = Field(default=(), exclude_if=lambda attached: not attached)


def with_attachments(
    turns: Iterable[EarlierTurn], shown: Callable[[tuple[StoredAttachment, ...]], tuple[StoredAttachment, ...]]
) -> tuple[EarlierTurn, ...]:
    """Return *turns* with what *shown* returns of the attachments of each."""
    return tuple(
        one.model_copy(update={"attachments": shown(one.attachments)}) if one.attachments else one for one in turns
    )


def words_of(turns: Iterable[EarlierTurn]) -> tuple[EarlierTurn, ...]:
    """Return *turns* without what was attached to them."""
    return with_attachments(turns, lambda _: ())


class ContinuedRun(MessagePart):
    """The run that another one continues, and the first run of their thread, which names it.

    `turns_left_out` of the conversation before it were left out when the others were cut. A model is asked to summarize
    those `to_summarize`, which are new among them; `summary` is what one has said of those before.
    """

    run_id: UUID
    thread_id: UUID
    turns_left_out: int = 0
    to_summarize: tuple[EarlierTurn, ...] = Field(default=(), exclude_if=lambda turns: not turns)
    summary: str = Field(default="", exclude_if=lambda text: not text)
