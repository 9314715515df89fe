"""Reads the attachments of a task, and says which of its models could not be shown them.

Every agent of the network may get to see a task, so each model that any of them asks has to take every attachment. What
can't be shown is refused with the task; a run would find it out after it has been paid for.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import (
    MAX_ATTACHED_BYTES,
    StoredAttachment,
    TaskAttachment,
    attachment_fault,
)
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask

REFUSED = "attachment_refused"

_BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
"""How files of a type begin, so that a mistake is told by us and not by a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAttachments:
    """The attachments of a task: what the run keeps, the bytes by digest, and what is wrong."""

    stored: tuple[StoredAttachment, ...] = ()
    data: dict[str, bytes] = field(default_factory=dict)
    problems: tuple[ProblemDetail, ...] = ()


def read_attachments(task: SubmitTask) -> ReadAttachments:
    """Read what *task* attaches, whichever models are to see it."""
    stored: list[StoredAttachment] = []
    data: dict[str, bytes] = {}
    problems: list[ProblemDetail] = []
    for place, one in enumerate(task.attachments):
        content = _decoded(one)
        fault = "it is not base64" if content is None else _fault(one, content)
        if any(one.name == other.name for other in stored):
            fault = f"two attachments are called {one.name!r}"
        if fault or content is None:
            problems.append(ProblemDetail(pointer=f"/attachments/{place}", code=REFUSED, detail=fault))
            continue
        digest = digest_text(content)
        data[digest] = content
        stored.append(StoredAttachment(name=one.name, media_type=one.media_type, digest=digest, size=len(content)))
    size = sum(one.size for one in stored)
    if size > MAX_ATTACHED_BYTES:
        detail = f"the attachments have {size} bytes; the limit is {MAX_ATTACHED_BYTES}"
        problems.append(ProblemDetail(pointer="/attachments", code=REFUSED, detail=detail))
    return ReadAttachments(stored=tuple(stored), data=data, problems=tuple(problems))


def attachment_problems(task: SubmitTask, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Return what is wrong with the attachments of *task*, and which models of *snapshot* can't be shown them."""
    if not task.attachments:
        return
    yield from read_attachments(task).problems
    for place, one in enumerate(task.attachments):
        faults = dict.fromkeys(
            fault for model in _models(task, snapshot) if (fault := attachment_fault(model, one.media_type))
        )
        for fault in faults:
            yield ProblemDetail(pointer=f"/attachments/{place}/media_type", code=REFUSED, detail=fault)


def _models(task: SubmitTask, snapshot: NetworkSnapshot) -> list[str]:
    """Return every model that may be asked for a decision."""
    if task.model is not None or task.script is not None:
        return [task.model or "scripted:task"]
    agents = snapshot.agents.values()
    return list(dict.fromkeys(model for agent in agents for model in (agent.model, *agent.fallback_models)))


def _decoded(one: TaskAttachment) -> bytes | None:
    try:
        return base64.b64decode(one.data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _fault(one: TaskAttachment, content: bytes) -> str:
    beginning = _BEGINNINGS.get(one.media_type, b"")
    return "" if content.startswith(beginning) else f"its bytes are no {one.media_type}"
