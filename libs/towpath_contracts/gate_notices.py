"""Gate notices: what a webhook receives about gates, and whether it, an e-mail or a message in a chat arrived.

What a webhook receives says that somebody is wanted, and where to look; never the arguments of a call nor what a tool
returned, which may be anybody's data. Gates that only a switch opens are not reported. A notice is sent at least once,
under one id by which its receiver notices a repetition.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from towpath_contracts.base import JsonObject, Message, MessagePart

NoticeKind = Literal["gate.opened", "gate.closed"]
NoticeStatus = Literal["pending", "sent", "dead", "obsolete"]
"""`dead` is what nobody has taken; `obsolete` what nobody needs, since its gate was closed before."""


class GateNoticeBody(MessagePart):
    """What is posted to a webhook, as JSON: the payload of the Standard Webhooks specification."""

    type: NoticeKind
    timestamp: datetime
    data: JsonObject


class ListGateNotices(Message):
    """Notices of a project, newest first. `before` pages backwards."""

    project: str
    status: NoticeStatus | None = "dead"
    before: AwareDatetime | None = None
    limit: int = Field(default=100, ge=1, le=500)


class GateNoticeDelivery(MessagePart):
    """One notice to one receiver, which `webhook` names.

    `error` is why the last try failed; `due_at` when the next one is.
    """

    notice_id: UUID
    webhook: str
    gate_id: UUID
    kind: NoticeKind
    status: NoticeStatus
    tries: int
    created_at: datetime
    due_at: datetime
    ended_at: datetime | None = None
    error: str = ""


class GateNoticeReceiver(MessagePart):
    """Who is told of a project's gates, by its name in the operator's file."""

    name: str
    channel: Literal["webhook", "email", "chat"]


class GateNoticePage(Message):
    """Notices, newest first; `next_before` continues. `receivers` are those of the project.

    Without a `console_url` notices have no link to their gate.
    """

    notices: tuple[GateNoticeDelivery, ...]
    next_before: datetime | None = None
    receivers: tuple[GateNoticeReceiver, ...] = ()
    console_url: str = ""


class RetryGateNotice(Message):
    """Send a dead notice again, from its first try on."""

    project: str
    notice_id: UUID
