"""Conversations: runs that continue each other are a thread, and each begins with what was said before it.

Only two roles speak in an earlier turn: the user, who is the caller, and the assistant, which is whatever answered.
What tools returned belongs into `quoted_inputs`, or is read again.
"""

from typing import Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, MessagePart, is_unset

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
    """One earlier turn as a client gives it."""

    role: TurnRole
    content: str = Field(min_length=1, max_length=100_000)


class EarlierTurn(MessagePart):
    """One earlier turn as a run has it; `run_id` is the run of the thread in which it was said, if it was in one."""

    role: TurnRole
    content: str
    run_id: UUID | None = Field(default=None, exclude_if=is_unset)


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
