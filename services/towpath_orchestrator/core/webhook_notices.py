"""Notices of gates: who gets one, what it says, and when it is sent again.

    gate opened or closed ──> pending ──try──> sent
                                │ ^ │
                        failed  └─┘ ├──> dead: tried in vain, refused by the receiver, or the backlog was full
                                    └──> obsolete: nobody is asked at the gate any more

A try that failed is repeated after the waits of RETRY_S. Dead notices are listed, and a person may send them again.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID, uuid5

from towpath_contracts import ids
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.events.cloud_events import cloud_event
from towpath_contracts.gate_notices import GateNoticeBody
from towpath_contracts.runs.run_control import NO_QUESTIONS
from towpath_contracts.text import truncate

RETRY_S = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
"""Waits between tries, about as long in all as a gate stays open by default; after them a notice is dead."""

MAX_BACKLOG = 10_000
"""Notices that wait for one receiver; what comes on top is dead at once, and listed."""

UNKNOWN_EFFECT = "unknown_effect"
PLAIN_REASONS = frozenset({"approval", "budget", "low_confidence", "timeout"})
"""Types of gates whose reason is a rule's, or made of the platform's own words and numbers."""

REASON_CHARS = 500
GONE = 410
"""The status with which a receiver ends its subscription, by the specification."""


NoticeFormat = Literal["standard", "cloudevents"]
"""How the body of a notice looks: as Standard Webhooks say, or that in a CloudEvent; both are signed alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One receiver, with its secrets at hand."""

    name: str
    url: str
    secrets: tuple[bytes, ...]
    projects: tuple[str, ...]
    kinds: tuple[str, ...]
    format: NoticeFormat = "standard"

    def wants(self, project: str, kind: str) -> bool:
        """Return whether it gets notices of *kind* in *project*."""
        return kind in self.kinds and any(fnmatchcase(project, glob) for glob in self.projects)

    def __repr__(self) -> str:
        return f"Webhook({self.name})"


class NoticeReceiver(Protocol):
    """Who is told of gates: a webhook, a mailbox, a channel of a chat."""

    @property
    def name(self) -> str: ...
    def wants(self, project: str, kind: str) -> bool: ...


class NewNotice(NamedTuple):
    """A notice that is about to be stored."""

    notice_id: UUID
    webhook: str
    gate_id: UUID
    project: str
    kind: str
    body: str
    status: str
    error: str


def notice_body(gate: Any, kind: str, console_url: str = "") -> str:
    """Return the notice of a gate row: who is needed for what, where to look, and of the call only its names.

    An approval's reason is what its rule says. Others get a sentence of their own where the gate's reason repeats what
    a tool said of a failure, as that of an unknown effect and of a loop does, or is in words of a model or a person.
    """
    detail = json.loads(gate["detail"])
    opened = kind == "gate.opened"
    named = {name: detail.get(name) for name in ("tool", "agent", "rule", "role", "quorum", "revision", "edited_by")}
    data = {
        "gate_id": str(gate["gate_id"]),
        "run_id": str(gate["run_id"]),
        "project": gate["project"],
        "network": gate["network"],
        "gate_type": gate["gate_type"],
        "status": "pending" if opened else gate["status"],
        "reason": truncate(told_reason(gate, detail), REASON_CHARS),
        "opened_at": _text(gate["opened_at"]),
        "expires_at": _text(gate["expires_at"]),
        "traceparent": ids.traceparent(gate["run_id"], "run", trace=gate["trace"]),
        **{name: value for name, value in named.items() if value},
    }
    if console_url:
        data["url"] = f"{console_url.rstrip('/')}/approvals/{gate['gate_id']}"
    if not opened:
        data |= {"verdict": gate["verdict"], "closed_by": gate["closed_by"], "closed_at": _text(gate["closed_at"])}
    at = gate["opened_at"] if opened else gate["closed_at"] or gate["opened_at"]
    return GateNoticeBody.model_validate({"type": kind, "timestamp": at, "data": data}).model_dump_json()


def event_body(message_id: str, body: str) -> bytes:
    """Return the notice *body* as a CloudEvent with the id of its message."""
    notice = json.loads(body)
    data = notice["data"]
    event = cloud_event(
        event_id=message_id,
        kind=notice["type"],
        project=data["project"],
        subject=data["gate_id"],
        at=notice["timestamp"],
        data=data,
        traceparent=data.get("traceparent"),
    )
    return canonical_json(event).encode()


def told_reason(gate: Any, detail: JsonObject) -> str:
    """Return why a person is asked, in words that neither a tool nor a model, nor who steers the run, has chosen."""
    if gate["gate_type"] == UNKNOWN_EFFECT:
        return f"nobody knows whether {detail.get('tool', 'the call')} happened"
    if gate["gate_type"] in PLAIN_REASONS or detail.get("rule"):  # the last approval of a call is of the type manual
        return str(gate["reason"])
    return f"the run asks a person: {gate['gate_type']}"


def new_notices(
    gate: Any, receivers: Iterable[NoticeReceiver], waiting: Counter[str], console_url: str = ""
) -> list[NewNotice]:
    """Return the notices that a gate row owes to *receivers*; *waiting* counts what each has before it."""
    if gate["gate_type"] in NO_QUESTIONS:
        return []
    kinds = ["gate.opened"] if gate["noticed"] == "" else []
    kinds += ["gate.closed"] if gate["status"] != "pending" else []
    made = []
    for kind in kinds:
        for receiver in receivers:
            if receiver.wants(gate["project"], kind):
                waiting[receiver.name] += 1
                full = waiting[receiver.name] > MAX_BACKLOG
                status, error = ("dead", "the backlog is full") if full else ("pending", "")
                notice_id = uuid5(gate["gate_id"], f"{kind}:{receiver.name}")
                body = notice_body(gate, kind, console_url)
                made.append(
                    NewNotice(notice_id, receiver.name, gate["gate_id"], gate["project"], kind, body, status, error)
                )
    return made


def status_after_try(tries: int, *, taken: bool, gone: bool, obsolete: bool = False) -> tuple[str, float]:
    if taken:
        return "sent", 0.0
    if obsolete:
        return "obsolete", 0.0
    if gone or tries > len(RETRY_S):
        return "dead", 0.0
    return "pending", float(RETRY_S[tries - 1])


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
