"""What a process has of the broker: its bus, and the feeds that its loops take from."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, ValidationError
from tests.simulation.outside.broker import SimBroker, StoredMessage, StreamQueue
from tests.simulation.outside.clock import SimProcess

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.rpc import PROBLEM_HEADER, RpcMethod
from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.nats.replies import ReplyBuilder, request_type
from towpath_fabric.nats.request_sender import FIRST_SILENCE_S, MAX_REPEATS
from towpath_fabric.ports import Handler
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_fabric.turns.fair_request_queue import FairQueueLimits

REPLY = "Reply-To"


class ReceivedMessage:
    """A message as handlers see it."""

    def __init__(self, bus: "SimBus", subject: str, data: bytes, headers: dict[str, str], reply: str = "") -> None:
        self.subject = subject
        self.data = data
        self.headers = headers
        self.reply = reply or headers.get(REPLY, "")
        self._client: Any = bus


class Delivery(ReceivedMessage):
    """A message of a stream; its acknowledgement goes back to the broker."""

    def __init__(self, feed: "MessageFeed", queue: StreamQueue, message: StoredMessage, life: int) -> None:
        super().__init__(feed.bus, message.subject, message.data, message.headers, "ack")
        self._queue, self._stored, self._life = queue, message, life
        self._client = self
        sequence = SimpleNamespace(stream=message.seq)
        self.metadata = SimpleNamespace(
            sequence=sequence, num_delivered=message.deliveries, timestamp=SimBroker.timestamp(message)
        )
        self._broker = feed.bus.broker

    async def publish(self, _reply: str, acknowledgement: bytes) -> None:
        """Acknowledge the message."""
        if not self._broker_away():
            self._broker.settle(self._queue, self._stored.seq, self._life, acknowledgement)

    def _broker_away(self) -> bool:
        return not self._broker.up


class MessageFeed:
    """Messages of one consumer that wait in a process."""

    def __init__(
        self, bus: "SimBus", spec: ConsumerSpec, window: int = 256, arrived: asyncio.Event | None = None
    ) -> None:
        self.bus = bus
        self.process = bus.process
        self._paused = False
        self.promised = 0
        self._window = window
        self._ready: deque[Delivery] = deque()
        self._arrived = arrived or asyncio.Event()
        self._queue = bus.broker.declare(spec)
        self._queue.feeds.append(self)
        bus.broker.offer_all(self._queue)

    @property
    def paused(self) -> bool:
        """Whether nothing more is wanted for the time being."""
        return self._paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self._paused = value
        if not value:
            self._ask()

    @property
    def has_room(self) -> bool:
        """Whether the broker may send more."""
        return not self._paused and self.promised + len(self._ready) < self._window

    @property
    def waiting(self) -> int:
        return len(self._ready)

    def receive(self, queue: StreamQueue, message: StoredMessage, life: int) -> None:
        """Take a delivery."""
        self.promised = max(0, self.promised - 1)
        self._ready.append(Delivery(self, queue, message, life))
        self._arrived.set()

    async def take(self, most: int) -> list[Delivery]:
        while not self._ready:
            self._ask()
            self._arrived.clear()
            await self._arrived.wait()
        return self.take_now(most)

    def take_now(self, most: int) -> list[Delivery]:
        taken = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        if not self._paused and taken:
            self._ask()
        return taken

    def take_in_turns(self, most: int, most_of_one: int, owner_of: Callable[[Any], str]) -> list[Delivery]:
        taken = take_in_turns(self._ready, most, most_of_one, owner_of)
        if not self._paused and taken:
            self._ask()
        return taken

    def _ask(self) -> None:
        broker = self.bus.broker
        if broker.up and self._queue.messages:
            broker.loop.call_in(broker.loop.outside, 0.0005, broker.offer_all, self._queue)


NOTICED_S = 0.5
"""How late a process notices at most that the broker came back."""


class SimBus:
    """The bus of one process."""

    def __init__(self, broker: SimBroker, process: SimProcess, role: str) -> None:
        self.broker = broker
        self.process = process
        self.role = role
        self.replies = ReplyBuilder(role, unavailable_errors=DATABASE_DOWN)
        self.complaints: list[str] = []
        self._inboxes = 0
        broker.clients += 1
        self.number = broker.clients  # as a client's inboxes are its own: a process started anew has others

    @property
    def connected(self) -> bool:
        return self.broker.up

    @property
    def reconnects(self) -> int:
        return self.broker.lives

    async def wait_reconnect(self, seen: int) -> int:
        while self.reconnects == seen or not self.connected:  # noqa: ASYNC110 - the simulated broker tells nobody
            await asyncio.sleep(NOTICED_S)
        return self.reconnects

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"_INBOX_{self.process.name}.{self.number}.{self._inboxes}"

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> bool:
        if not self.broker.up:
            return False
        self.broker.publish(body, subject, dict(headers or {}), None)
        return True

    async def store(
        self, subject: str, body: bytes, headers: Mapping[str, str] | None = None, timeout_s: float = 2.0
    ) -> bool:
        if not self.broker.up:
            return False
        loop = self.broker.loop
        acknowledged: asyncio.Future[bool] = loop.create_future()
        process = self.process

        def stored(answer: bool) -> None:
            loop.call_in(process, 0.0005, _settle, acknowledged, answer)

        self.broker.publish(body, subject, dict(headers or {}), stored)
        timer = loop.call_later(timeout_s, _settle, acknowledged, False)
        try:
            return await acknowledged
        finally:
            timer.cancel()

    async def request(self, method: RpcMethod, request: Message, timeout_s: float = 5.0) -> Any:
        return await self.request_subject(
            method.subject, request, method.answer, timeout_s=timeout_s, repeatable=method.repeatable
        )

    async def request_subject(
        self, subject: str, request: BaseModel, answer: Any, timeout_s: float = 5.0, *, repeatable: bool = False
    ) -> Any:
        loop = self.broker.loop
        if not self.broker.up:
            raise ProblemError(problem("unavailable", f"no broker for {subject}", retry_after_s=2))
        inbox = self.new_inbox()
        reply: asyncio.Future[Any] = loop.create_future()
        on_reply = lambda _subject, data, headers: _settle(reply, (data, headers))  # noqa: E731
        self.broker.subscribe(self.process, inbox, "", on_reply)
        body = request.model_dump_json().encode()

        def ask() -> None:
            if self.broker.up:
                self.broker.publish(body, subject, {REPLY: inbox}, None)

        ask()
        timers = [loop.call_later(timeout_s, _settle, reply, None)]
        if repeatable:  # every try is handled, as by replicas that do not know of each other
            held_s = getattr(request, "wait_ms", 0) / 1_000
            silences = [(held_s + FIRST_SILENCE_S) * (2 ** (tries + 1) - 1) for tries in range(MAX_REPEATS)]
            timers += [loop.call_later(at_s, ask) for at_s in silences if at_s < timeout_s]
        try:
            answered = await reply
        finally:
            for timer in timers:
                timer.cancel()
            self.broker.subscribers.pop(inbox, None)
        if answered is None:
            raise ProblemError(problem("unavailable", f"no answer on {subject}", retry_after_s=2))
        data, headers = answered
        if PROBLEM_HEADER in headers:
            raise ProblemError(Problem.model_validate_json(data))
        return answer.model_validate_json(data)

    async def subscribe(
        self, subject: str, callback: Callable[[Any], Awaitable[None]], *, shared: bool = False
    ) -> "SimSubscription":
        """Call *callback* for every message on *subject*; replicas of a role share them if *shared*."""

        def deliver(address: str, data: bytes, headers: dict[str, str]) -> None:
            task = self.broker.loop.create_task(
                callback(ReceivedMessage(self, address, data, headers)), name=f"on {subject}"
            )
            task.add_done_callback(self._ended)

        self.broker.subscribe(self.process, subject, self.role if shared else "", deliver)
        return SimSubscription()

    def subscriber(self, address: RpcMethod | str) -> Callable[[Handler], Handler]:
        """Register a handler; parts of the subject in braces are handed to it by their names, as FastStream does."""
        template = address.subject if isinstance(address, RpcMethod) else address

        def register(handler: Handler) -> Handler:
            parts = [(part[1:-1], "*") if part.startswith("{") else ("", part) for part in template.split(".")]

            def arguments(subject: str) -> dict[str, str]:
                return {name: token for (name, _), token in zip(parts, subject.split("."), strict=True) if name}

            self._register(".".join(token for _, token in parts), handler, arguments)
            return handler

        return register

    def _register(
        self, pattern: str, handler: Callable[..., Awaitable[Message]], arguments: Callable[[str], dict[str, str]]
    ) -> None:
        request = request_type(handler)

        async def answer(message: ReceivedMessage) -> None:
            try:
                reply = await handler(request.model_validate_json(message.data), **arguments(message.subject))
            except (ValidationError, ProblemError, *DATABASE_DOWN) as error:
                reply = self.replies.problem_of(error, message.subject)
            headers = {PROBLEM_HEADER: reply.code} if isinstance(reply, Problem) else {}
            await self.publish(message.reply, reply.model_dump_json().encode(), headers)

        self._serving = [*getattr(self, "_serving", []), (pattern, answer)]

    async def subscribe_fairly(
        self, subjects: tuple[str, ...], handler: Callable[..., Awaitable[Message]], limits: FairQueueLimits
    ) -> Callable[[], Awaitable[None]]:
        """Every task is taken at once: the order of callers is not what is tested here."""
        for subject in subjects:
            self._register(subject, handler, lambda asked: {"caller": limits.caller_of(asked)})
        return self.serve

    async def serve(self) -> None:
        """Begin to answer."""
        for subject, handler in getattr(self, "_serving", []):
            await self.subscribe(subject, handler, shared=True)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None and not self.process.dead:
            self.complaints.append(f"{self.process.name}: {task.exception()!r}")


class SimSubscription:
    """A subscription."""

    async def stop(self) -> None:
        """Hear no more; a killed process is forgotten by the broker."""


def _settle(future: "asyncio.Future[Any]", value: Any) -> None:
    if not future.done():
        future.set_result(value)
