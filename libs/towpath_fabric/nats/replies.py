"""The reply to a request on the bus: the handler's message, or the problem that stands for its error.

FastStream subscribers (through `ReplyMiddleware`) and the fair queue of submits both use it. So a caller can't tell
which of them answered, and never waits for a timeout because a handler failed.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from faststream import BaseMiddleware, ContextRepo, StreamMessage
from faststream.nats import NatsMessage, NatsResponse
from nats.aio.msg import Msg
from pydantic import BaseModel, ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, details_of, problem
from towpath_contracts.rpc import PROBLEM_HEADER
from towpath_fabric.telemetry.logs import get_logger

HEADERS_ROOM = 1_024
"""Bytes of a message kept free for its headers."""

MAX_ECHO = 128
"""Characters of a correlation id that an answer repeats."""

CORRELATION = "correlation_id"
"""FastStream's header; an answer repeats that of its request."""


def problem_from_validation(error: ValidationError, what: str) -> Problem:
    """List every problem of an input that failed validation, each with its JSON pointer."""
    details = details_of(error)
    return problem("request_invalid", f"{what}: {len(details)} problem(s)", errors=details)


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


def json_decoder(request: type[BaseModel]) -> Callable[[NatsMessage], Awaitable[BaseModel]]:
    """Return a FastStream decoder that parses and validates a body as *request* in one step.

    FastStream's own decoder would make plain JSON values, which pydantic validates by the looser rules for Python
    values, and the JSON pointers of its errors would begin with the name of the handler's parameter.
    """

    async def decode(message: NatsMessage) -> BaseModel:
        return request.model_validate_json(message.body)

    return decode


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


def encode_reply(subject: str, reply: Message, max_bytes: int) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of *reply*; one that no message of *max_bytes* holds becomes a problem."""
    body = reply.model_dump_json().encode()
    if len(body) > max_bytes - HEADERS_ROOM:
        reply = problem("answer_too_large", f"{subject}: {len(body)} bytes are more than one message holds")
        body = reply.model_dump_json().encode()
    return body, {PROBLEM_HEADER: reply.code} if isinstance(reply, Problem) else {}


class ReplyMiddleware(BaseMiddleware[Any, Any]):
    """Turns what a FastStream handler returns or raises into the reply, as `ReplyBuilder` and `encode_reply` say."""

    def __init__(self, msg: Any, /, *, context: ContextRepo, replies: ReplyBuilder) -> None:
        super().__init__(msg, context=context)
        self._replies = replies

    async def consume_scope(
        self, call_next: Callable[[Any], Awaitable[Message]], msg: StreamMessage[Any]
    ) -> NatsResponse:
        raw: Msg = msg.raw_message
        subject = raw.subject
        try:
            reply = await call_next(msg)
        except Exception as error:  # noqa: BLE001 - the outermost edge: the caller gets an answer, the log gets the error
            reply = self._replies.problem_of(error, subject)
        body, headers = encode_reply(subject, reply, raw._client.max_payload)
        return NatsResponse(body, headers=headers, correlation_id=echoed_correlation_id(msg.correlation_id))
