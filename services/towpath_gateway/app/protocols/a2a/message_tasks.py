"""A message of A2A as the task that it is, or as words at gates."""

import hashlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.problems.input_faults import FaultList, list_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.errors import validation_problem
from towpath_gateway.app.protocols.a2a.call_messages import (
    A2aGateWord,
    A2aMessage,
    SendMessageParams,
    SendMetadata,
    read_part,
    with_whole_numbers,
)
from towpath_gateway.app.protocols.openai.conversation_items import attached_file
from towpath_gateway.core.a2a_errors import CONTENT_TYPE, CallRefusedError
from towpath_gateway.core.a2a_tasks import JSON, MESSAGE_LABEL, TEXT

MESSAGE = "body/params/message"

_PLACES = {
    "network": "body/params/tenant",
    "labels": f"{MESSAGE}/messageId",
    "continues": f"{MESSAGE}/contextId",
    "user_message": f"{MESSAGE}/parts",
    "quoted_inputs": f"{MESSAGE}/parts",
    "attachments": f"{MESSAGE}/parts",
}
_MODES = frozenset({TEXT, JSON, "text/*", "application/*", "*/*"})
_WORD = TypeAdapter(A2aGateWord)


def message_task(params: SendMessageParams, network: str, continues: UUID | None) -> SubmitTask:
    """Return the task of a message; raises ProblemError with all that is wrong. Sent again it is the same run."""
    message = params.message
    given: JsonObject = {"network": network, **(params.metadata or SendMetadata()).towpath.given(), **_said(message)}
    given |= {"labels": {MESSAGE_LABEL: message.message_id}, "continues": continues}
    given["idempotency_key"] = "a2a-" + hashlib.sha256(f"{network}\n{message.message_id}".encode()).hexdigest()
    try:
        return SubmitTask.model_validate(with_whole_numbers(given))
    except ValidationError as error:
        details = tuple(_placed(one) for one in list_faults(error).details)
        raise ProblemError(validation_problem(FaultList(details, len(details)))) from error


def refuse_other_outputs(accepted: tuple[str, ...]) -> None:
    """Raise CallRefusedError where a client takes neither texts nor JSON."""
    if accepted and _MODES.isdisjoint(accepted):
        detail = f"answers are {TEXT} or {JSON}"
        raise CallRefusedError(problem("request_invalid", detail), CONTENT_TYPE)


def gate_words(message: A2aMessage) -> list[A2aGateWord]:
    """Return the words that a message to a waiting task says; raises ProblemError where it says none."""
    found = [
        read_part(_WORD, with_whole_numbers(part.data), f"{MESSAGE}/parts/{number}/data")
        for number, part in enumerate(message.parts)
        if part.has_data
    ]
    if not found:
        detail = "the task waits for a person's word: a part whose data has gate_id and verdict"
        remedy = "Answer so; a new question is a message with the contextId and without a taskId."
        raise ProblemError(problem("request_invalid", detail, remedy=remedy))
    if len(found) < len(message.parts):
        detail = "beside a person's word nothing is read: say why in its reason"
        raise ProblemError(problem("request_invalid", detail))
    return found


def _said(message: A2aMessage) -> JsonObject:
    """Return what a message says: its texts are the caller's own, JSON beside them is quoted."""
    words = [part.text for part in message.parts if part.text]
    quoted = {f"data_{number}": _written(part.data) for number, part in enumerate(_data(message), 1)}
    if not words and quoted:
        words = [f"The caller sends {', '.join(quoted)}."]
    said: JsonObject = {"user_message": "\n\n".join(words), "quoted_inputs": quoted}
    files = list(_files(message))
    return said | ({"attachments": files} if files else {})


def _data(message: A2aMessage) -> list[Any]:
    return [part for part in message.parts if part.has_data]


def _written(data: Any) -> str:
    return data if isinstance(data, str) else canonical_json(with_whole_numbers(data))


def _files(message: A2aMessage) -> Iterator[JsonObject]:
    for number, part in enumerate(message.parts):
        if part.raw is None and part.url is None:
            continue
        where = f"/params/message/parts/{number}"
        data = f"data:{part.media_type or ''};base64,{part.raw}" if part.raw is not None else part.url
        found = attached_file(data, part.filename or f"file-{number + 1}", where)
        if isinstance(found, ProblemDetail):
            detail = "send the file itself: raw, in Base64, with its mediaType; nothing is fetched for a caller"
            fault = found.model_copy(update={"detail": detail})
            raise CallRefusedError(validation_problem(FaultList((fault,), 1)), CONTENT_TYPE)
        yield found


def _placed(found: ProblemDetail) -> ProblemDetail:
    """Return a fault of the task as one of the call."""
    first, _, rest = found.pointer.removeprefix("/").partition("/")
    place = _PLACES.get(first, f"body/params/metadata/towpath/{first}") if first else MESSAGE
    return found.model_copy(update={"pointer": "/".join(("", place, *([rest] if rest else [])))})
