"""A broker in memory for one process: subjects, queues and requests, with the messages that travel as JSON.

A message of a queue stays until it is acknowledged; one that is handed back comes again after its delay. Nothing is
lost and nothing is said twice, so what a test sees is what the services do when nobody disturbs them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.rpc import PROBLEM_HEADER, RpcMethod
from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.clock import time_of, wall_ns
from towpath_fabric.nats.replies import problem_from_validation, request_type
from towpath_fabric.ports import Handler
from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_fabric.turns.fair_request_queue import FairQueueLimits
from towpath_testing.memory.subject_patterns import SubjectIndex

OnMessage = Callable[[Any], Awaitable[None]]


class MemoryMessage:
    """A message as handlers see it."""

    def __init__(self, subject: str, data: bytes, headers: Mapping[str, str], client: Any = None) -> None:
        self.subject = subject
        self.data = data
        self.headers = dict(headers)
        self.reply = ""
        self._client = client


class StreamSequence:
    """The place of a message in its stream."""

    __slots__ = ("stream",)

    def __init__(self, number: int) -> None:
        self.stream = number


class DeliveryMetadata:
    """What a broker says of a delivery."""

    __slots__ = ("_stored_ns", "num_delivered", "sequence")

    def __init__(self, number: int) -> None:
        self.sequence = StreamSequence(number)
        self.num_delivered = 1
        self._stored_ns = wall_ns()

    @property
    def timestamp(self) -> datetime:
        """When the message was stored; few ask, so it becomes a time only then."""
        return time_of(self._stored_ns)


class QueuedMessage(MemoryMessage):
    """A message of a queue; it goes back there where it is not acknowledged."""

    def __init__(self, feed: "MessageFeed", subject: str, data: bytes, headers: Mapping[str, str], number: int) -> None:
        super().__init__(subject, data, headers, self)
        self.reply = "ack"
        self._feed = feed
        self.metadata = DeliveryMetadata(number)

    async def publish(self, _reply: str, response: bytes) -> None:
        """Take the response to this delivery."""
        if response.startswith(b"-NAK"):
            delay_s = int(response.split(b'"delay": ')[1].rstrip(b"}")) / 1e9 if b"delay" in response else 0.0
            self.metadata.num_delivered += 1
            asyncio.get_running_loop().call_later(delay_s, self._feed.put, self)


class MessageFeed:
    """Messages of one consumer that wait in the process."""

    def __init__(self, bus: "MemoryBus", spec: ConsumerSpec, arrived: asyncio.Event | None = None) -> None:
        self.paused = False
        self._ready: deque[Any] = deque()
        self._arrived = arrived or asyncio.Event()
        self._ids: set[str] = set()
        self._stored = 0
        bus.takers.add(spec.filter_subject, self)

    @property
    def waiting(self) -> int:
        return len(self._ready)

    def deliver(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Store a message; one that was stored before, as its id says, is left out."""
        named = headers.get("Nats-Msg-Id")
        if named is not None:
            if named in self._ids:
                return
            self._ids.add(named)
        self._stored += 1
        self.put(QueuedMessage(self, subject, body, headers, self._stored))

    def put(self, message: QueuedMessage) -> None:
        """Add a message, and wake whoever takes them."""
        self._ready.append(message)
        self._arrived.set()

    async def take(self, limit: int) -> list[Any]:
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        return self.take_now(limit)

    def take_now(self, limit: int) -> list[Any]:
        return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    def take_in_turns(self, limit: int, most_of_one: int, owner_of: Callable[[Any], str]) -> list[Any]:
        return take_in_turns(self._ready, limit, most_of_one, owner_of)


class MemorySubscription:
    """A subscription, which ends with `stop`."""

    def __init__(self, bus: "MemoryBus", subject: str, handler: OnMessage) -> None:
        self._bus, self._subject, self.handler = bus, subject, handler

    def deliver(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Handle a message in a task of its own."""
        self._bus.spawn(self.handler(MemoryMessage(subject, body, headers, self._bus)), f"on {subject}")

    async def stop(self) -> None:
        self._bus.takers.remove(self._subject, self)


class MemoryListener:
    """Wants to know that there is a message, and not which one: it is told at once, without a task."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def deliver(self, _subject: str, _body: bytes, _headers: Mapping[str, str]) -> None:
        """Tell it."""
        self._notify()


class MemoryBus:
    """The bus of every service in the process. `failed` receives what a handler raised that none should raise."""

    connected = True
    reconnects = 0

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self.takers = SubjectIndex[MessageFeed | MemorySubscription | MemoryListener]()
        self._handlers: dict[str, Callable[[bytes, str], Awaitable[Any]]] = {}
        self._patterns = SubjectIndex[Callable[[bytes, str], Awaitable[Any]]]()
        self._inboxes = 0
        self._replies: dict[str, asyncio.Future[MemoryMessage]] = {}
        self._failed = failed
        self._tasks: set[asyncio.Task[Any]] = set()
        self.nc = ClientOfBus(self)

    async def wait_reconnect(self, seen: int) -> int:
        """Wait for ever: a connection in memory is never lost."""
        await asyncio.Event().wait()
        return seen

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        waiting = self._replies.get(subject)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(MemoryMessage(subject, body, headers or {}, self))
            return True
        for taker in self.takers.find(subject):
            taker.deliver(subject, body, headers or {})
        return True

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        return await self.publish(subject, body, headers)

    async def request(self, method: RpcMethod, request: Message, timeout_s: float = 5.0) -> Any:
        return await self.request_subject(method.subject, request, method.answer, timeout_s=timeout_s)

    async def request_subject(
        self, subject: str, request: BaseModel, answer: Any, timeout_s: float = 5.0, *, repeatable: bool = False
    ) -> Any:
        handler = self._handler(subject) or self._ask_subscriber
        try:
            async with asyncio.timeout(timeout_s):
                reply = await handler(request.model_dump_json().encode(), subject)
        except TimeoutError as error:
            raise ProblemError(problem("unavailable", f"no answer on {subject}", retry_after_s=2)) from error
        return answer.model_validate_json(reply if isinstance(reply, bytes) else reply.model_dump_json())

    async def _ask_subscriber(self, data: bytes, subject: str) -> bytes:
        """Ask one that subscribed to *subject* and answers by publishing; raises ProblemError where there is none."""
        found = next((one for one in self.takers.find(subject) if isinstance(one, MemorySubscription)), None)
        if found is None:
            raise ProblemError(problem("unavailable", f"nobody answers on {subject}", retry_after_s=2))
        reply: asyncio.Future[MemoryMessage] = asyncio.get_running_loop().create_future()
        self._inboxes += 1
        inbox = f"_INBOX.{self._inboxes}"
        self._replies[inbox] = reply
        message = MemoryMessage(subject, data, {}, self)
        message.reply = inbox
        try:
            self.spawn(found.handler(message), f"on {subject}")
            answered = await reply
        finally:
            del self._replies[inbox]
        if PROBLEM_HEADER in answered.headers:
            raise ProblemError(Problem.model_validate_json(answered.data))
        return answered.data

    def _handler(self, subject: str) -> Callable[[bytes, str], Awaitable[Any]] | None:
        found = self._handlers.get(subject)
        if found is None:
            found = next(iter(self._patterns.find(subject)), None)
        return found

    async def subscribe(self, subject: str, handler: OnMessage, *, shared: bool = False) -> MemorySubscription:
        subscription = MemorySubscription(self, subject, handler)
        self.takers.add(subject, subscription)
        return subscription

    def listen(self, subject: str, notify: Callable[[], None]) -> None:
        """Call *notify* for every message on *subject*."""
        self.takers.add(subject, MemoryListener(notify))

    def subscriber(self, address: RpcMethod | str) -> Callable[[Handler], Handler]:
        """Register a handler; parts of the subject in braces are handed to it by their names."""
        template = address.subject if isinstance(address, RpcMethod) else address
        parts = template.split(".")
        names = [(place, part[1:-1]) for place, part in enumerate(parts) if part.startswith("{")]

        def register(handler: Handler) -> Handler:
            self._register(
                ".".join("*" if part.startswith("{") else part for part in parts),
                handler,
                lambda subject: {name: subject.split(".")[place] for place, name in names},
            )
            return handler

        return register

    async def subscribe_fairly(
        self, subjects: tuple[str, ...], handler: Callable[..., Awaitable[Message]], limits: FairQueueLimits
    ) -> Callable[[], Awaitable[None]]:
        """Answer at once: one process has one caller to serve."""
        for subject in subjects:
            self._register(subject, handler, lambda asked: {"caller": limits.caller_of(asked)})

        async def stop() -> None:
            return

        return stop

    def _register(
        self, pattern: str, handler: Callable[..., Awaitable[Any]], arguments: Callable[[str], dict[str, str]]
    ) -> None:
        kind = request_type(handler)

        async def answer(data: bytes, subject: str) -> Any:
            try:
                reply = await handler(kind.model_validate_json(data), **arguments(subject))
            except ValidationError as error:
                raise ProblemError(problem_from_validation(error, error.title, None, kind)) from error
            if isinstance(reply, Problem):
                raise ProblemError(reply)
            return reply

        if "*" in pattern:
            self._patterns.add(pattern, answer)
        else:
            self._handlers[pattern] = answer

    def spawn(self, work: Any, name: str) -> "asyncio.Task[Any]":
        """Run *work* in a task of its own; what it raises is a fault of the platform's code."""
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(task.get_name(), error)

    async def close(self) -> None:
        """End everything that still runs."""
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class ClientOfBus:
    """What workers have of a broker's client."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    async def subscribe(self, subject: str, cb: OnMessage) -> MemorySubscription:
        """Call *cb* for every message on *subject*."""
        return await self._bus.subscribe(subject, cb)
