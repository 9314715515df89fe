"""The one NATS connection of a service: reconnects for ever, publishes, sends requests, answers requests.

`publish` does not wait for the broker, so a message can be lost. Use it only for what is stored and sent again (pending
effects, unconfirmed outcomes), or for what may be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from faststream.nats import NatsBroker
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.rpc import PROBLEM_HEADER, RpcMethod
from towpath_contracts.strict_json import NotStrictJsonError, read_bounded
from towpath_fabric.crash_points import flush_before_crash
from towpath_fabric.nats.broker_errors import BrokerErrors, PublishDeniedError, broker_denied
from towpath_fabric.nats.broker_owner import client_of
from towpath_fabric.nats.clusters import CLUSTER_PING_S, is_clustered
from towpath_fabric.nats.faststream_handlers import HandlerArguments, ReplyMiddleware, json_decoder
from towpath_fabric.nats.login import security
from towpath_fabric.nats.long_requests import LongReadings, LongRequestReader
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_fabric.nats.replies import (
    CORRELATION,
    ReplyBuilder,
    TryCounter,
    echoed_correlation_id,
    encode_reply,
    read_request,
    request_type,
    with_caller_span,
    with_event_key,
)
from towpath_fabric.nats.request_sender import RequestSender
from towpath_fabric.nats.stream_publisher import StreamPublisher
from towpath_fabric.nats.tolerant_nats_client import TolerantNatsClient, make_tolerant
from towpath_fabric.ports import Handler
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.logs import get_logger
from towpath_fabric.telemetry.recorder import RequestTracing
from towpath_fabric.turns.fair_request_queue import FairQueueLimits, FairRequestQueue

R = TypeVar("R", bound=Message)

REQUEST_TIMEOUT_S = 5.0
"""How long a service waits for another's answer before it raises `unavailable`."""

PING_INTERVAL_S = 5
"""With two unanswered pings a frozen broker is noticed in 15 s."""


_RECONNECT: dict[str, Any] = {"reconnect_time_wait": 0.25}
"""Seconds between two attempts to reconnect; FastStream's annotation is int, nats-py takes fractions."""

WORK = ("decide.", "tool.request", "tool.exec.", "run.inbox.")
"""How the subjects of streams begin that a run waits for, but for outcomes of tools, which a worker sends again."""

MAX_CONCURRENT_REQUESTS = 1_024
"""Per subject. FastStream's default is one, and then one request that waits would delay all others."""

MAX_LOGGED_PREFIXES = 100
"""First tokens of invalid subjects that are logged, each once: the same message may be sent again and again."""


class OwnerCheckedBroker(NatsBroker):
    """FastStream's broker, on a client that was given its owner; FastStream has no hook for the client it makes."""

    owner: int | None = None

    async def _connect(self) -> Client:
        client = client_of(self.owner)
        await client.connect(**self._connection_kwargs)
        self.config.connect(client)
        return client


def make_broker(
    role: str,
    settings: Settings,
    replies: ReplyBuilder,
    tracing: RequestTracing | None = None,
    errors: BrokerErrors | None = None,
) -> OwnerCheckedBroker:
    """Return the FastStream broker of *role*: reconnects for ever, buffers nothing while disconnected.

    Raises LoginFileError for files of its login that can't be used.
    """
    broker = OwnerCheckedBroker(
        settings.nats_servers,
        name=f"{role}/{settings.instance}",
        max_reconnect_attempts=-1,
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=2,
        pending_size=0,
        inbox_prefix=f"_INBOX_{role}.{uuid4().hex[:12]}",
        graceful_timeout=settings.stop_grace_s,
        logger=None,
        middlewares=(*(() if tracing is None else (tracing.middleware,)), partial(ReplyMiddleware, replies=replies)),
        security=security(settings),
        serializer=HandlerArguments(use_fastdepends_errors=False),
        error_cb=errors,
        **_RECONNECT,
    )
    broker.owner = settings.nats_owner
    return broker


def _read_strictly(request: type[BaseModel], data: bytes) -> Any:
    read_bounded(data)
    return read_request(request, data)


class CoreSubscription:
    """One subscription on core NATS."""

    def __init__(self, nc: Client, subscription: Subscription) -> None:
        self._nc = nc
        self._subscription = subscription

    async def stop(self) -> None:
        """End the subscription."""
        if not self._nc.is_closed:
            await self._subscription.unsubscribe()


class Bus:
    """The NATS side of a service. `nc` is usable after `connect`."""

    def __init__(self, role: str, settings: Settings, tracing: RequestTracing | None = None) -> None:
        self.role = role
        self._tracing = tracing
        self._reads_traceparent = settings.otel.reads_traceparent
        self.stop_grace_s = settings.stop_grace_s
        self.stream_replicas = settings.stream_replicas
        """How many copies a stream gets that this process creates."""
        self.replies = ReplyBuilder(role)
        self._settings = settings
        self._errors = BrokerErrors(role, self._on_denied)
        self.outage = self._errors.outage
        self.broker = make_broker(role, settings, self.replies, tracing, self._errors)
        self._nc: TolerantNatsClient | None = None
        self._requests: RequestSender | None = None
        self._streams = StreamPublisher()
        self._logged_prefixes: set[str] = set()
        self._reconnected = asyncio.Event()

    @property
    def nc(self) -> Client:
        """The connection; raises RuntimeError before `connect`."""
        if self._nc is None:
            msg = "the bus is not connected yet"
            raise RuntimeError(msg)
        return self._nc

    async def connect(self) -> Client:
        """Connect once; later calls return the same connection. Waits until the broker is reachable.

        Raises ProblemError for what no waiting mends: a login that is refused, an address that can't be read.
        """
        while self._nc is None:
            try:
                nc = make_tolerant(await self._errors.first_connection(self.broker.connect(), self._settings))
                await self._streams.open(nc)
                if is_clustered(nc):
                    nc.options["ping_interval"] = min(PING_INTERVAL_S, CLUSTER_PING_S)
                self._nc = nc
                self._errors.outage.worked()
                on_reconnect(nc, self._errors.outage.worked)
                on_reconnect(nc, self._reconnected.set)
                flush_before_crash(nc.flush)
            except (OSError, nats_errors.Error) as error:
                self._errors.meet(error, self._settings)
                await asyncio.sleep(0.5)
        return self._nc

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Publish without waiting; False where the connection is down, so that the caller sends it again later.

        To a cluster, work is sent again until a node has it. False also for an invalid subject, e.g. from a name with
        a space: one bad name must not end a loop. Raises MaxPayloadError for a body that is too large for a message:
        callers have to limit what they send.
        """
        try:
            if is_clustered(self.nc) and subject.startswith(WORK):
                await self._streams.post(subject, body, headers)
            else:
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
        if prefix not in self._logged_prefixes and len(self._logged_prefixes) < MAX_LOGGED_PREFIXES:
            self._logged_prefixes.add(prefix)
            get_logger(self.role).error("an invalid subject", subject=subject[:200])

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        """Publish into a stream and wait for the broker's acknowledgement; False where it is missing or negative."""
        return await self._streams.store(subject, body, headers, timeout_s)

    def _on_denied(self, subject: str) -> bool:
        return self._requests is not None and self._requests.deny(subject)

    async def request(self, method: RpcMethod, request: Message, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Call a method of another service; returns the method's answer type.

        One that is `repeatable` is sent again when no answer comes (`request_sender.py`). Raises ProblemError with the
        service's problem, with `unavailable` where no answer comes in time, or with `broker_denied` where the broker
        does not let this login ask.
        """
        return await self.request_subject(
            method.subject, request, method.answer, timeout_s=timeout_s, repeatable=method.repeatable
        )

    async def request_subject(
        self,
        subject: str,
        request: BaseModel,
        answer: type[R],
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        repeatable: bool = False,
    ) -> R:
        """Send a request to any subject; otherwise like `request`."""
        if self._requests is None:
            self._requests = RequestSender(self.nc)
        body = request.model_dump_json().encode()
        held_s = getattr(request, "wait_ms", 0) / 1_000
        try:
            headers = None if self._tracing is None else self._tracing.headers()
            reply = await self._requests.request(
                subject, body, limit_s=timeout_s, repeat=repeatable, held_s=held_s, headers=headers
            )
        except nats_errors.MaxPayloadError as error:
            raise ProblemError(problem("request_too_large", f"no message to {subject} can hold this")) from error
        except PublishDeniedError as error:
            raise broker_denied(self._settings, subject) from error
        except (TimeoutError, nats_errors.Error) as error:
            raise ProblemError(problem("unavailable", f"no answer on {subject}", retry_after_s=2)) from error
        if reply.headers and PROBLEM_HEADER in reply.headers:
            raise ProblemError(Problem.model_validate_json(reply.data))
        return answer.model_validate_json(reply.data)

    def subscriber(
        self, address: RpcMethod | str, reader: LongRequestReader | None = None
    ) -> Callable[[Handler], Handler]:
        """Return FastStream's decorator for a handler of the requests on *address*; replicas share the work.

        What may be long is read by *reader*.

        The handler declares the message that it takes as its first parameter. A subject may have parts in braces, which
        are handed to the handler where it declares them: `agent: Annotated[str, Path()]` for `….{project}.{agent}`.
        Raises TypeError where the handler of a method takes another message than the method.
        """
        subject = address.subject if isinstance(address, RpcMethod) else address

        def register(handler: Handler) -> Handler:
            request = request_type(handler)
            if isinstance(address, RpcMethod) and request is not address.request:
                msg = f"{subject} takes {address.request.__name__}, its handler {request.__name__}"
                raise TypeError(msg)
            decoder = json_decoder(request) if reader is None else reader.decoder(request)
            subscriber = self.broker.subscriber(
                subject, queue=self.role, max_workers=MAX_CONCURRENT_REQUESTS, decoder=decoder
            )
            subscriber(handler)
            return handler

        return register

    async def subscribe_fairly(
        self,
        subjects: tuple[str, ...],
        handler: Callable[[Any, str], Awaitable[Message]],
        limits: FairQueueLimits,
    ) -> Callable[[], Awaitable[None]]:
        """Answer the requests on *subjects* in turns of their callers, within *limits*; returns what stops that.

        For subjects that clients may flood. A request that finds no room is answered with `overloaded` at once,
        one that waits while this stops with `unavailable`.
        *handler* takes the request, which is parsed strictly, and the caller. Not through FastStream, which takes
        messages in the order of arrival (docs/decisions/0013-faststream-for-request-reply.md).
        """
        request = request_type(handler)
        tries, long = TryCounter(), LongReadings()

        async def answer(message: Msg) -> None:
            subject, caller = message.subject, limits.caller(message)
            try:
                asked = await long.read(caller, message.data, partial(_read_strictly, request))
                asked = with_event_key(asked, message)
                if self._reads_traceparent:
                    asked = with_caller_span(asked, message)
                with self._answering(message):
                    reply: Message = await self.replies.in_time(handler(asked, caller), subject)
            except NotStrictJsonError as error:
                reply = problem("request_malformed", f"{subject}: {error}")
            except Exception as error:  # noqa: BLE001 - the outermost edge: the caller gets an answer
                reply = self.replies.problem_of(error, subject)
            await self._reply(message, reply, tries.end(message))

        async def refuse(message: Msg, waiting: int | None) -> None:
            code, why = (
                ("unavailable", "this replica stops") if waiting is None else ("overloaded", f"{waiting} requests wait")
            )
            refusal = problem(code, why, retry_after_s=1)
            await self._reply(message, refusal, tries.end(message))

        queue = FairRequestQueue(limits, answer, refuse)

        async def accept(message: Msg) -> None:
            if tries.begin(message):
                await queue.accept(message)

        subscriptions = [await self.subscribe(subject, accept, shared=True) for subject in subjects]

        async def stop() -> None:
            for subscription in subscriptions:
                await subscription.stop()
            await queue.stop()

        return stop

    def _answering(self, message: Msg) -> AbstractContextManager[None]:
        if self._tracing is None:
            return nullcontext()
        return self._tracing.answering(message.subject, message.headers)

    async def _reply(self, message: Msg, reply: Message, times: int) -> None:
        body, headers = encode_reply(message.subject, reply, self.nc.max_payload)
        echo = echoed_correlation_id((message.headers or {}).get(CORRELATION))
        for _ in range(times):
            await self.publish(message.reply, body, {**headers, CORRELATION: echo})

    async def subscribe(
        self, subject: str, handler: Callable[[Msg], Awaitable[None]], *, shared: bool = False
    ) -> "CoreSubscription":
        """Call *handler* for every message on *subject*; where *shared*, one replica of this role gets each message.

        Not through FastStream, which costs a multiple per message (decision 0013).
        """
        queue = self.role if shared else ""
        return CoreSubscription(self.nc, await self.nc.subscribe(subject, queue=queue, cb=handler))

    @property
    def connected(self) -> bool:
        """Whether the broker is reachable, as far as is known."""
        return self.nc.is_connected

    @property
    def reconnects(self) -> int:
        """How often the connection was re-established: what was in flight at that moment may be lost."""
        return int(self.nc.stats["reconnects"])

    async def wait_reconnect(self, seen: int) -> int:
        """Wait until the connection was re-established more than *seen* times and is there; returns how often.

        For one loop of the process.
        """
        while self.reconnects == seen or not self.connected:
            self._reconnected.clear()
            await self._reconnected.wait()
        return self.reconnects

    async def close(self) -> None:
        """Drain and close within `stop_grace_s`, then close by force; safe to call twice."""
        if (nc := self._nc) is not None:
            self._nc = self._requests = None
            self._streams.close()
            if not await nc.close_within(self.stop_grace_s, self.broker.stop()):
                get_logger(self.role).warning(
                    "closed the connection to the broker, which did not take all that was sent"
                )
