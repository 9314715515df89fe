"""What an agent was told and decided since it took control, so that its next prompt only adds to the one before.

Providers keep the beginning of a prompt that they have read before, and charge less for it: only where it is the same
byte for byte. Turns are therefore added and never rewritten, but for cuts that a limit makes, which are rare.
What calls returned stands in the context (`outputs`, `older_outputs`) and is found by its execution id.
"""

from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, MessagePart, is_unset


class EpochTurn(MessagePart):
    """One decision: what the agent was told before it, the decision as it was written, and the calls it made.

    A decision that is too large to be kept has its long texts cut.
    """

    step: int
    steps_left: int
    decision: JsonObject
    calls: tuple[UUID, ...] = Field(default=(), exclude_if=lambda calls: not calls)
    handoff: str | None = Field(default=None, exclude_if=is_unset)
    handoff_from: str | None = Field(default=None, exclude_if=is_unset)
    feedback: tuple[str, ...] = Field(default=(), exclude_if=lambda told: not told)
    notes: tuple[str, ...] = Field(default=(), exclude_if=lambda told: not told)


class EpochTurns(MessagePart):
    """The agent's turns, oldest first; `log` is what happened before it took control, `left_out` counts turns cut."""

    log: tuple[JsonObject, ...] = ()
    turns: tuple[EpochTurn, ...] = ()
    left_out: int = Field(default=0, exclude_if=lambda count: count == 0)
