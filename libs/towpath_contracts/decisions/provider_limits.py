"""Limits of model providers: what people set, and what deciders tell each other of it (register `providers`).

Deciders of two versions share these, so they are added to and never changed. Times are the broker's seconds.
"""

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, Message, MessagePart


class ProviderLimit(ClientMessagePart):
    """What one provider, or one model of it, may be asked; None is no limit."""

    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)


class DeciderSlots(MessagePart):
    """One decider's slots, how many it could use, and until when it holds them, in the broker's seconds."""

    slots: int
    wants: int
    until: float


class ProviderUseSlice(MessagePart):
    """What was given in the piece of a minute that begins at `at`."""

    at: int
    requests: int
    tokens: int


class ProviderLimitState(Message):
    """What all deciders share of one provider limit: who holds slots, what was given lately, any pause."""

    holders: dict[str, DeciderSlots] = Field(default_factory=dict)
    given: tuple[ProviderUseSlice, ...] = ()
    paused_until: float = 0.0
