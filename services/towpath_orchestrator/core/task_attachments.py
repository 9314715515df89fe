"""Reads the attachments of a task, and says which of its models could not be shown them.

Every agent of the network may get to see a task, so each model that any of them asks has to take every attachment. What
can't be shown is refused with the task; a run would find it out after it has been paid for. What earlier runs of a
thread had is shown as far as it fits and the models take it, the newest first; the rest is only named.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import (
    MAX_ATTACHED_BYTES,
    MAX_ATTACHMENTS,
    MAX_NAMED_ATTACHMENTS,
    MAX_SHOWN_ATTACHMENTS,
    MAX_SHOWN_BYTES,
    PDF,
    StoredAttachment,
    TaskAttachment,
    attachment_fault,
    is_text_type,
)
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask

REFUSED = "attachment_refused"

_BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
"""How files of a type begin, so that a mistake is told by us and not by a provider."""

PDF_BEGINNING, PDF_BEGINS_WITHIN = b"%PDF-", 1_024
"""Readers of PDF look for its header in so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAttachments:
    """The attachments of a task: what the run keeps, its `turns` too, the bytes by digest, and what is wrong."""

    stored: tuple[StoredAttachment, ...] = ()
    turns: tuple[EarlierTurn, ...] = ()
    data: dict[str, bytes] = field(default_factory=dict)
    problems: tuple[ProblemDetail, ...] = ()


def read_attachments(task: SubmitTask) -> ReadAttachments:
    """Read what *task* attaches to itself and to its earlier turns, whichever models are to see it."""
    data: dict[str, bytes] = {}
    problems: list[ProblemDetail] = []
    turns = tuple(
        EarlierTurn(
            role=turn.role,
            content=turn.content,
            attachments=_read(turn.attachments, f"/messages/{place}/attachments", data, problems),
        )
        for place, turn in enumerate(task.messages)
    )
    stored = _read(task.attachments, "/attachments", data, problems)
    every = [one for attached in (stored, *(turn.attachments for turn in turns)) for one in attached]
    size = sum(one.size for one in every)
    if len(every) > MAX_ATTACHMENTS:
        detail = f"task and messages have {len(every)} attachments; the limit is {MAX_ATTACHMENTS}"
        problems.append(ProblemDetail(pointer="/attachments", code=REFUSED, detail=detail))
    if size > MAX_ATTACHED_BYTES:
        detail = f"the attachments have {size} bytes; the limit is {MAX_ATTACHED_BYTES}"
        problems.append(ProblemDetail(pointer="/attachments", code=REFUSED, detail=detail))
    return ReadAttachments(stored=stored, turns=turns, data=data, problems=tuple(problems))


def _read(
    attached: Sequence[TaskAttachment], pointer: str, data: dict[str, bytes], problems: list[ProblemDetail]
) -> tuple[StoredAttachment, ...]:
    """Return what stands at *pointer* as it is stored; bytes go to *data*, and what is wrong to *problems*."""
    stored: list[StoredAttachment] = []
    for place, one in enumerate(attached):
        content = _decoded(one)
        fault = "it is not base64" if content is None else _fault(one, content)
        if any(one.name == other.name for other in stored):
            fault = f"two attachments are called {one.name!r}"
        if fault or content is None:
            problems.append(ProblemDetail(pointer=f"{pointer}/{place}", code=REFUSED, detail=fault))
            continue
        digest = digest_text(content)
        data[digest] = content
        stored.append(StoredAttachment(name=one.name, media_type=one.media_type, digest=digest, size=len(content)))
    return tuple(stored)


def attachment_problems(task: SubmitTask, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Return what is wrong with the attachments of *task*, and which models of *snapshot* can't be shown them."""
    given = [("/attachments", task.attachments)]
    given += [(f"/messages/{place}/attachments", turn.attachments) for place, turn in enumerate(task.messages)]
    many = sum(len(attached) for _, attached in given)
    if not many:
        return
    yield from read_attachments(task).problems
    if many > MAX_ATTACHMENTS:
        return  # messages have room for 1,600: to hold each against every model of a network would take seconds
    models = _models(task.model, snapshot, scripted=task.script is not None)
    for pointer, attached in given:
        for place, one in enumerate(attached):
            faults = dict.fromkeys(fault for model in models if (fault := attachment_fault(model, one.media_type)))
            for fault in faults:
                yield ProblemDetail(pointer=f"{pointer}/{place}/media_type", code=REFUSED, detail=fault)


def carried_attachments(
    turns: Sequence[EarlierTurn], own: Sequence[StoredAttachment], model: str | None, snapshot: NetworkSnapshot
) -> tuple[EarlierTurn, ...]:
    """Return *turns* with what a run is shown of their attachments, beside its *own*; *model* is that of its task.

    The newest come first; once one does not fit, none before it is shown, and of many the oldest are not even named.
    """
    models = _models(model, snapshot)
    count, size, named, fits = len(own), sum(one.size for one in own), 0, True
    kept: list[EarlierTurn] = []
    for turn in reversed(turns):
        attached: list[StoredAttachment] = []
        for one in reversed(turn.attachments[: MAX_NAMED_ATTACHMENTS - named]):
            taken = not any(attachment_fault(model, one.media_type) for model in models)
            if taken:
                fits = fits and count < MAX_SHOWN_ATTACHMENTS and size + one.size <= MAX_SHOWN_BYTES
            if taken and fits:
                count, size = count + 1, size + one.size
            attached.append(one.model_copy(update={"shown": taken and fits}))
        named += len(attached)
        kept.append(turn.model_copy(update={"attachments": tuple(reversed(attached))}) if turn.attachments else turn)
    return tuple(reversed(kept))


def _models(model: str | None, snapshot: NetworkSnapshot, *, scripted: bool = False) -> list[str]:
    """Return every model that may be asked for a decision: *model* where the task names one, or a script's."""
    if model is not None or scripted:
        return [model or "scripted:task"]
    agents = snapshot.agents.values()
    return list(dict.fromkeys(model for agent in agents for model in (agent.model, *agent.fallback_models)))


def _decoded(one: TaskAttachment) -> bytes | None:
    try:
        return base64.b64decode(one.data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _fault(one: TaskAttachment, content: bytes) -> str:
    """Return why *content* can't be what *one* says it is; empty where it may be."""
    wrong = f"its bytes are no {one.media_type}"
    if is_text_type(one.media_type):
        return "" if _is_text(content) else f"{wrong}: a text is UTF-8, without NUL characters"
    if one.media_type == PDF:
        return "" if PDF_BEGINNING in content[:PDF_BEGINS_WITHIN] else wrong
    return "" if content.startswith(_BEGINNINGS.get(one.media_type, b"")) else wrong


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
