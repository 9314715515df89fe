"""One NATS connection per service: connect for ever, post, ask, answer.

Law: `post` does not wait for the broker. What it sends is either said again by somebody who remembers (pending effects,
unconfirmed outcomes) or may be lost by promise; never use it for anything else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

import structlog
from faststream.nats import NatsBroker, NatsMessage, NatsResponse
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel, ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, details_of, problem
from towpath_contracts.rpc import PROBLEM_HEADER, Method
from towpath_contracts.strict_json import check_json
from towpath_fabric.crash_points import flush_first
from towpath_fabric.fair_request_queue import Door, Rules
from towpath_fabric.nats.login import security
from towpath_fabric.nats.tolerant_nats_client import make_careful
from towpath_fabric.settings import Settings

B = TypeVar("B", bound=BaseModel)
R = TypeVar("R", bound=Message)

ASK_TIMEOUT_S = 5.0
"""How long a service waits for another's answer before it says `unavailable`."""

HEADERS_ROOM = 1_024
"""Bytes of a message kept free for its headers."""

MAX_ECHO = 128
"""Characters of a correlation id that an answer repeats."""

PING_INTERVAL_S = 5
"""With two unanswered pings a frozen broker is noticed in 15 s."""


_QUICKLY: dict[str, Any] = {"reconnect_time_wait": 0.25}
"""Seconds between two tries to connect again; FastStream's annotation says whole ones, nats-py takes any."""

ANSWERS_AT_ONCE = 1_024
"""Per subject. FastStream answers one by one unless told otherwise, and one question that waits would hold up all."""

CORRELATION = "correlation_id"
"""FastStream's header; an answer repeats that of its question."""

BAD_PREFIXES = 100
"""First parts of impossible subjects that are logged, each once; what is sent again and again is no news."""


async def _undecoded(message: Any) -> Any:
    return message


def make_broker(role: str, settings: Settings) -> NatsBroker:
    """Return the FastStream broker of *role*: reconnects for ever, buffers nothing while disconnected.

    Raises BrokerLoginError for files of its login that can't be used.
    """
    return NatsBroker(
        settings.nats_url,
        name=f"{role}/{settings.instance}",
        max_reconnect_attempts=-1,
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=2,
        pending_size=0,
        inbox_prefix=f"_INBOX_{role}.{uuid4().hex[:12]}",
        graceful_timeout=settings.stop_grace_s,
        logger=None,
        apply_types=False,  # handlers take the raw message; injecting it would cost a thread switch per request
        decoder=_undecoded,
        security=security(settings),
        **_QUICKLY,
    )


def problem_from_validation(error: ValidationError, what: str) -> Problem:
    """List every problem of an input that failed validation, each with its JSON pointer."""
    details = details_of(error)
    return problem("request_invalid", f"{what}: {len(details)} problem(s)", errors=details)


def _echoed(correlation_id: str | None) -> str:
    """Return what an answer repeats of its question's headers: never so much that no message holds it."""
    return correlation_id[:MAX_ECHO] if correlation_id and correlation_id[:MAX_ECHO].isprintable() else "-"


def _say_no(word: "asyncio.Future[bool]") -> None:
    if not word.done():
        word.set_result(False)


class Ear:
    """One subscription on core NATS."""

    def __init__(self, nc: Client, subscription: Subscription) -> None:
        self._nc = nc
        self._subscription = subscription

    async def stop(self) -> None:
        """Hear no more."""
        if not self._nc.is_closed:
            await self._subscription.unsubscribe()


class Bus:
    """The NATS side of a service. `nc` is usable after `connect`."""

    def __init__(self, role: str, settings: Settings) -> None:
        self.role = role
        self.broker = make_broker(role, settings)
        self._nc: Client | None = None
        self._words: dict[str, asyncio.Future[bool]] = {}
        self._words_inbox = ""
        self._asked = 0
        self._bad_prefixes: set[str] = set()
        self.outages: tuple[type[BaseException], ...] = (OSError,)
        """What handlers raise while something they need is away; who asked is told to try again."""
        self.data_at_fault: tuple[type[BaseException], ...] = ()
        """What handlers raise for a value that nothing can store; who asked is told that it is wrong."""

    @property
    def nc(self) -> Client:
        """The connection; raises RuntimeError before `connect`."""
        if self._nc is None:
            msg = "the bus is not connected yet"
            raise RuntimeError(msg)
        return self._nc

    async def connect(self) -> Client:
        """Connect once; later calls return the same connection. Waits as long as the broker is away."""
        while self._nc is None:
            try:
                nc = make_careful(await self.broker.connect())
                self._words_inbox = nc.new_inbox()
                await nc.subscribe(f"{self._words_inbox}.*", cb=self._on_word)
                self._nc = nc
                flush_first(nc.flush)
            except (OSError, nats_errors.Error):
                await asyncio.sleep(0.5)
        return self._nc

    async def post(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Send without waiting; False when the connection is down (the caller's memory will say it again).

        False also for a subject that no message can have, e.g. from a name with a space: one bad name stops no loop.
        Raises MaxPayloadError for a body that no message holds: the caller has to know its limits.
        """
        try:
            await self.nc.publish(subject, body, headers=dict(headers) if headers else None)
        except (
            nats_errors.OutboundBufferLimitError,
            nats_errors.ConnectionClosedError,
            nats_errors.ConnectionDrainingError,
        ):
            return False
        except nats_errors.BadSubjectError:
            self._log_bad_subject(subject)
            return False
        return True

    def _log_bad_subject(self, subject: str) -> None:
        prefix = subject.partition(".")[0][:64]
        if prefix not in self._bad_prefixes and len(self._bad_prefixes) < BAD_PREFIXES:
            self._bad_prefixes.add(prefix)
            structlog.get_logger(self.role).error("a subject that can't be sent on", subject=subject[:200])

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        """Publish into a stream and wait for the broker's word; False when it is unclear or refused."""
        # nats-py's own publish costs up to three times the processor time: it waits with a task per message.
        self._asked += 1
        reply = f"{self._words_inbox}.{self._asked}"
        loop = asyncio.get_running_loop()
        word: asyncio.Future[bool] = loop.create_future()
        self._words[reply] = word
        timer = loop.call_later(timeout_s, _say_no, word)
        try:
            await self.nc.publish(subject, body, reply=reply, headers=dict(headers) if headers else None)
            return await word
        except nats_errors.Error:
            return False
        finally:
            timer.cancel()
            self._words.pop(reply, None)

    async def _on_word(self, message: Msg) -> None:
        word = self._words.get(message.subject)
        if word is not None and not word.done():
            # An acknowledgement names the place in the stream; without a stream there is only a status.
            word.set_result(b'"seq"' in message.data and b'"error"' not in message.data)

    async def ask(self, method: Method, request: Message, timeout_s: float = ASK_TIMEOUT_S) -> Any:
        """Ask another service; returns the method's answer type.

        Raises ProblemError with the other's problem, or `unavailable` when nobody answers in time.
        """
        return await self.ask_subject(method.subject, request, method.answer, timeout_s=timeout_s)

    async def ask_subject(
        self, subject: str, request: BaseModel, answer: type[R], timeout_s: float = ASK_TIMEOUT_S
    ) -> R:
        """Ask on any subject; like `ask`."""
        try:
            reply = await self.nc.request(subject, request.model_dump_json().encode(), timeout=timeout_s)
        except nats_errors.MaxPayloadError as error:
            raise ProblemError(problem("request_too_large", f"no message to {subject} can hold this")) from error
        except (TimeoutError, nats_errors.Error) as error:
            raise ProblemError(problem("unavailable", f"no answer on {subject}", retry_after_s=2)) from error
        if reply.headers and PROBLEM_HEADER in reply.headers:
            raise ProblemError(Problem.model_validate_json(reply.data))
        return answer.model_validate_json(reply.data)

    def answer(self, method: Method, handler: Callable[[Any], Awaitable[Message]]) -> None:
        """Serve *method* with *handler*, which takes the request type; replicas share the work."""

        async def without_subject(request: Any, _subject: str) -> Message:
            return await handler(request)

        self.answer_subject(method.subject, method.request, without_subject)

    def answer_subject(
        self,
        subject: str,
        request: type[B],
        handler: Callable[[B, str], Awaitable[Message]],
        *,
        strict: bool = False,
        at_once: int = ANSWERS_AT_ONCE,
    ) -> None:
        """Serve requests on *subject*, which may have wildcards; *handler* also gets the subject that was asked.

        Problems are answers too, so a caller never waits for a timeout. *strict* also refuses JSON that others behind
        could not store or read: for what clients send.
        """

        async def serve(message: NatsMessage) -> NatsResponse:
            raw = message.raw_message
            reply = await self._reply(subject, request, handler, raw.subject, message.body, strict=strict)
            body, headers = self._sayable(subject, reply)
            return NatsResponse(body, headers=headers, correlation_id=_echoed(message.correlation_id))

        self.broker.subscriber(subject, queue=self.role, max_workers=at_once)(serve)

    async def answer_in_turns(
        self,
        words: tuple[str, ...],
        request: type[B],
        handler: Callable[[B, str], Awaitable[Message]],
        rules: Rules,
    ) -> Callable[[], Awaitable[None]]:
        """Serve requests on the subjects *words* as *rules* say, strictly; returns what stops that.

        For what anybody may ask in any number. Whoever asks when too much waits is told `overloaded` at once.
        """

        async def say(message: Msg, reply: Message) -> None:
            body, headers = self._sayable(message.subject, reply)
            echo = _echoed((message.headers or {}).get(CORRELATION))
            await self.post(message.reply, body, {**headers, CORRELATION: echo})

        async def serve(message: Msg) -> None:
            where = message.subject
            await say(message, await self._reply(where, request, handler, where, message.data, strict=True))

        async def full(message: Msg, waiting: int) -> None:
            await say(message, problem("overloaded", f"{waiting} tasks wait to be taken in", retry_after_s=1))

        door = Door(rules, serve, full)
        ears = [await self.listen(word, door.heard, shared=True) for word in words]

        async def stop() -> None:
            for ear in ears:
                await ear.stop()
            await door.stop()

        return stop

    async def _reply(
        self,
        subject: str,
        request: type[B],
        handler: Callable[[B, str], Awaitable[Message]],
        asked: str,
        body: bytes,
        *,
        strict: bool,
    ) -> Message:
        """Return the answer to what was asked on *asked*; a problem is an answer too."""
        try:
            fault = check_json(body) if strict else None
            if fault is not None:
                return problem("request_malformed", f"{subject}: {fault}")
            return await handler(request.model_validate_json(body), asked)
        except ValidationError as error:
            return problem_from_validation(error, request.__name__)
        except ProblemError as error:
            return error.problem
        except self.data_at_fault as error:
            return problem("request_invalid", f"{subject}: a value can't be stored ({type(error).__name__})")
        except self.outages as error:
            return problem("unavailable", f"{subject}: {type(error).__name__}", retry_after_s=2)
        except Exception as error:  # noqa: BLE001 - the outermost edge: who asks gets an answer, and we a log line
            structlog.get_logger(self.role).error("a request failed", subject=subject, exc_info=error)
            return problem("internal", f"{subject}: {type(error).__name__}")

    def _sayable(self, subject: str, reply: Message) -> tuple[bytes, dict[str, str]]:
        """Return body and headers of an answer; one that no message holds is told as a problem."""
        body = reply.model_dump_json().encode()
        if len(body) > self.nc.max_payload - HEADERS_ROOM:
            reply = problem("answer_too_large", f"{subject}: {len(body)} bytes are more than one message holds")
            body = reply.model_dump_json().encode()
        return body, {PROBLEM_HEADER: reply.code} if isinstance(reply, Problem) else {}

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]], *, shared: bool = False) -> "Ear":
        """Call *heard* for every message on *subject*; where *shared*, one replica of this role hears each.

        Not through FastStream, which costs a multiple per message.
        """
        queue = self.role if shared else ""
        return Ear(self.nc, await self.nc.subscribe(subject, queue=queue, cb=heard))

    @property
    def connected(self) -> bool:
        """Whether there is a broker at the other end, as far as is known."""
        return self.nc.is_connected

    @property
    def reconnects(self) -> int:
        """How often the connection was made anew: what was on its way at such a moment may be lost."""
        return int(self.nc.stats["reconnects"])

    async def close(self) -> None:
        """Drain and close; safe to call twice."""
        if self._nc is not None:
            self._nc = None
            await self.broker.stop()
