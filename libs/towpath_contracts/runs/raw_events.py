"""Events as readers take them: the envelope is read, the event itself is not yet.

A newer orchestrator may write event types that a reader does not know, and it must get by them.
"""

from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import JsonObject, Message, MessagePart, Token


class RawEntry(MessagePart):
    """An event as it stands in the log. It is not read yet: a newer orchestrator may write types unknown here."""

    seq: int = Field(ge=1, le=2**62)
    at: AwareDatetime
    event: JsonObject


class RawTransitionEvents(Message):
    """What `run.event.<run_id>` carries, tolerant of unknown events."""

    run_id: UUID
    project: Token
    entries: tuple[RawEntry, ...]


class RawEventPage(Message):
    """The answer of `svc.orchestrator.events_since`, tolerant of unknown events."""

    run_id: UUID
    entries: tuple[RawEntry, ...]
    seq: int
    status: str
