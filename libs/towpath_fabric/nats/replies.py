"""The reply to a request on the bus: the handler's message, or the problem that stands for its error.

FastStream subscribers (through `ReplyMiddleware` of `faststream_handlers.py`) and the fair queues of clients both use
it. So a caller can't tell which of them answered, and never waits for a timeout because a handler failed.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nats.aio.msg import Msg
from pydantic import BaseModel, ValidationError

from towpath_contracts.base import Message
from towpath_contracts.events.cloud_events import PREFIX, binary_attributes, read_task_event
from towpath_contracts.problems.input_faults import MAX_BUILT, faults_of_sample, list_faults
from towpath_contracts.problems.registry import Problem, ProblemDetail, ProblemError, problem
from towpath_contracts.rpc import PROBLEM_HEADER, REPEAT_HEADER
from towpath_contracts.runs.trace_context import HEADER, parse_traceparent
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.telemetry.logs import get_logger

HEADERS_ROOM = 1_024
"""Bytes of a message kept free for its headers."""

MAX_ECHO = 128
"""Characters of a correlation id that an answer repeats."""

CORRELATION = "correlation_id"
"""FastStream's header; an answer repeats that of its request."""

LOOKS_AFTER_S = 1.5
"""A request that takes longer is looked at: does what its handler waits for answer at all?

Together with the look it is less than the time after which a caller sends its request for the fourth time, so that all
tries of it have one answer."""

RequestT = TypeVar("RequestT", bound=BaseModel)

EncodedReply = tuple[bytes, dict[str, str]]
"""Body and headers."""


def problem_from_validation(
    error: ValidationError,
    what: str,
    again: Callable[[], ValidationError | None] | None = None,
    kind: type[BaseModel] | None = None,
) -> Problem:
    """List the problems of an input that failed validation, each with its JSON pointer.

    *again* and *kind* are those of `list_faults`.
    """
    faults = list_faults(error, again, kind)
    return problem("request_invalid", f"{what}: {faults.summary}", errors=faults.details)


def read_request(kind: type[RequestT], data: bytes) -> RequestT:
    """Return the request that *data* is; raises ProblemError `request_invalid`."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        again = faults_of_sample(kind, json.loads(data)) if error.error_count() > MAX_BUILT else None
        raise ProblemError(problem_from_validation(error, error.title, again, kind)) from error


def with_caller_span(request: RequestT, message: Msg) -> RequestT:
    """Return *request* with the span that the header of *message* names, where it can have one and names none."""
    named = (message.headers or {}).get(HEADER)
    if named is None or getattr(request, HEADER, "") is not None or parse_traceparent(named) is None:
        return request
    return request.model_copy(update={HEADER: named})


def with_event_key(request: RequestT, message: Msg) -> RequestT:
    """Return *request* with the idempotency key of the CloudEvent that it is, where it is a task in one.

    Raises ProblemError that names the header of a wrong attribute.
    """
    attributes = binary_attributes(message.headers or {})
    if not attributes or not isinstance(request, SubmitTask):
        return request
    event = read_task_event(attributes, f"/header/{PREFIX}")
    if request.idempotency_key is not None:
        why = "source and id of the event are the key: leave idempotency_key out"
        detail = ProblemDetail(pointer="/idempotency_key", code="value_invalid", detail=why)
        raise ProblemError(problem("request_invalid", why, errors=(detail,)))
    update: dict[str, Any] = {"idempotency_key": event.idempotency_key}
    if event.traceparent is not None and request.traceparent is None:
        update[HEADER] = event.traceparent
    return request.model_copy(update=update)


def request_type(handler: Callable[..., Any]) -> type[BaseModel]:
    """Return the type of the first parameter of *handler*; raises TypeError where that is no message.

    FastStream passes parameters by name and leaves out those that begin with an underscore.
    """
    parameter = next(iter(inspect.signature(handler, eval_str=True).parameters.values()), None)
    declared = None if parameter is None else parameter.annotation
    if not (isinstance(declared, type) and issubclass(declared, BaseModel)):
        msg = f"{handler!r} has to declare the message that it takes as its first parameter"
        raise TypeError(msg)
    if parameter is not None and parameter.name.startswith("_"):
        msg = f"{handler!r} calls its message {parameter.name}, which FastStream would not pass"
        raise TypeError(msg)
    return declared


def is_repeat(message: Msg) -> bool:
    """Return whether *message* is a further try of a request, which may be in work here."""
    return message.headers is not None and REPEAT_HEADER in message.headers


class TryCounter:
    """Counts the tries of the requests in work, by reply subject: each try gets the answer to the first."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def begin(self, message: Msg) -> bool:
        """Return whether *message* begins a request; False for a further try of one that is in work."""
        if is_repeat(message) and message.reply in self._tries:
            self._tries[message.reply] += 1
            return False
        self._tries.setdefault(message.reply, 1)
        return True

    def end(self, message: Msg) -> int:
        """Return how many tries the answer to *message* has to be sent to."""
        return self._tries.pop(message.reply, 1)


def echoed_correlation_id(correlation_id: str | None) -> str:
    """Return what an answer repeats of its request's headers: never so much that no message holds it."""
    return correlation_id[:MAX_ECHO] if correlation_id and correlation_id[:MAX_ECHO].isprintable() else "-"


@dataclass(slots=True)
class ReplyBuilder:
    """Makes replies of what handlers return and raise. `role` names the process in its log."""

    role: str
    unavailable_errors: tuple[type[BaseException], ...] = (OSError,)
    """What handlers raise while something that they need can't be reached: the caller should retry."""
    invalid_data_errors: tuple[type[BaseException], ...] = ()
    """What handlers raise for a value that can't be stored: the request is invalid."""
    silence: Callable[[str], Awaitable[Problem | None]] | None = None
    """Tells why a handler that was asked on a subject waits for something that does not answer.

    None in a process whose handlers wait for nothing."""
    in_work: "dict[str, asyncio.Future[EncodedReply]]" = field(default_factory=dict)
    """By reply subject, the replies that handlers are making: a further try of the same request waits for its reply."""

    async def in_time(self, making: Awaitable[Message], subject: str) -> Message:
        """Return what *making* makes of a request on *subject*.

        Raises ProblemError as soon as it is known to wait for what does not answer. It is not ended then: what it
        writes may be half-way, and its caller may ask again.
        """
        if self.silence is None:
            return await making
        made = asyncio.ensure_future(making)
        try:
            while not (await asyncio.wait({made}, timeout=LOOKS_AFTER_S))[0]:
                found = await self.silence(subject)
                if found is not None and not made.done():
                    made.add_done_callback(_forget)
                    raise ProblemError(found)
        except asyncio.CancelledError:
            made.cancel()
            await asyncio.wait({made})
            raise
        return made.result()

    def problem_of(self, error: Exception, subject: str) -> Problem:
        """Return the problem that stands for *error*; an unexpected one is logged, and its text stays here."""
        if isinstance(error, ValidationError):
            return problem_from_validation(error, error.title)
        if isinstance(error, ProblemError):
            return error.problem
        if isinstance(error, self.invalid_data_errors):
            return problem("request_invalid", f"{subject}: a value can't be stored ({type(error).__name__})")
        if isinstance(error, self.unavailable_errors):
            return problem("unavailable", f"{subject}: {type(error).__name__}", retry_after_s=2)
        get_logger(self.role).error("a request failed", subject=subject, exc_info=error)
        return problem("internal", f"{subject}: {type(error).__name__}")


def _forget(made: "asyncio.Future[Message]") -> None:
    if not made.cancelled():
        made.exception()


def encode_reply(subject: str, reply: Message, max_bytes: int) -> EncodedReply:
    """Return body and headers of *reply*; one that no message of *max_bytes* holds becomes a problem."""
    body = reply.model_dump_json().encode()
    if len(body) > max_bytes - HEADERS_ROOM:
        reply = problem("answer_too_large", f"{subject}: {len(body)} bytes are more than one message holds")
        body = reply.model_dump_json().encode()
    return body, {PROBLEM_HEADER: reply.code} if isinstance(reply, Problem) else {}
