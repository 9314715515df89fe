"""The pull consumer of the hot batch loops: it prefetches messages while the previous batch is committed.

Messages may be delivered again and acks may be lost, so nothing here is exactly-once. A missing stream or consumer
means "wait and rebind", never an error. One long-lived pull request is kept open, so a message needs one hop and no
polling. nats-py's own `fetch` is not used: it has two bugs that can cost seconds.
"""

import asyncio
import contextlib
import json
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.nats.clusters import CLUSTER_HEARTBEAT_S, CLUSTER_LOST_S, is_clustered
from towpath_fabric.nats.direct_delivery import DirectDelivery
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_fabric.turns.task_end import end_tasks

EXPIRES_S = 30.0
"""Lifetime of one pull request at the server."""

HEARTBEAT_S = 4.5
"""The server sends this often while a request is idle: every heartbeat wakes two processes that have nothing to do."""

LOST_S = 10.0
"""After this time without a word a request is taken as lost: two heartbeats did not come. A new connection, and a
consumer that was deleted, are noticed at once."""

CHECK_S = 0.25
"""How often a consumer without a request looks whether it can send one."""

LONGEST_PAUSE_S = 2.0
"""Between two attempts to declare a consumer that is missing, from CHECK_S on."""

FLUSH_S = 2

LONGEST_HELD_S = 60.0
"""Who has not answered a message after this time, and has it still, may never do so: the broker delivers it again."""

STALLED_WAITS = 3
"""Ack waits after which a process that has messages, and has answered none, is taken for one that stands still: a peer
may be able to handle them. A busy one answers some of them all the time."""

EXTENSIONS = 3
"""Of an ack wait: after each all are extended, so that one that was lost with this process is noticed in time."""

Rebind = Callable[[], Awaitable[None]]


class _Held(NamedTuple):
    message: "weakref.ref[Msg]"
    since_s: float


class HeldMessages:
    """Messages of one consumer that this process has and has not answered: the broker is told that they are not lost.

    A slow process else gets its own messages again, and so do its peers. These copies make all of them slower still,
    and a message that came several times is handled alone (`towpath_fabric.redelivery`), which is slower than a batch.
    A message that nobody refers to any more was given up without an answer.
    """

    def __init__(self, ack_wait_s: float) -> None:
        self._ack_wait_s = ack_wait_s
        self._held: list[_Held] = []
        self._moved_s = monotonic()

    @property
    def turn_s(self) -> float:
        """How long after one turn of extending the next one comes."""
        return self._ack_wait_s / EXTENSIONS

    def add(self, message: Msg) -> None:
        """Hold a message that has just arrived, until it is answered."""
        self._held.append(_Held(weakref.ref(message), monotonic()))
        message._held_by = self  # type: ignore[attr-defined]  # so that it says when it is answered

    def move(self) -> None:
        """Note that one was answered just now, or that none can be, since the database is away."""
        self._moved_s = monotonic()

    def unanswered(self) -> list[Msg]:
        """Return the messages to extend, and forget those that are answered or given up; none where nothing moves."""
        now = monotonic()
        found = [(held, held.message()) for held in self._held if held.since_s > now - LONGEST_HELD_S]
        kept = [(held, message) for held, message in found if message is not None and not message.is_acked]
        self._held = [held for held, _ in kept]
        if not kept:
            self._moved_s = now
        stands_still = now - self._moved_s >= STALLED_WAITS * self._ack_wait_s
        return [] if stands_still else [message for _, message in kept]


class PullConsumer:
    """Pulls one durable consumer. Use: `await start()`, then `await take(n)` in a loop, `await stop()` at the end."""

    def __init__(
        self,
        nc: Client,
        spec: ConsumerSpec,
        *,
        window: int = 512,
        rebind: Rebind | None = None,
        arrived: asyncio.Event | None = None,
        extends: bool = False,
    ) -> None:
        """Keep at most *window* messages requested or waiting; *rebind* is called where the consumer is missing.

        Loops that read several consumers share one *arrived* event. With *extends* the ack wait of messages is extended
        as long as this process has them, waiting or taken, and has not answered; not while it is `paused`.
        """
        self.spec = spec
        self._nc = nc
        self._window = window
        self._rebind = rebind
        self._ready: deque[Msg] = deque()
        self._arrived = arrived or asyncio.Event()
        self._requested = 0
        self._held = 0
        self._last_heard = 0.0
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._unanswered = HeldMessages(spec.ack_wait_s) if extends else None
        self._extender: asyncio.Task[None] | None = None
        self._missing = False
        self._troubled = asyncio.Event()
        self._forget_listener: Callable[[], None] | None = None
        self.paused = False

    async def start(self) -> None:
        """Subscribe and request the first messages."""
        self._inbox = self._nc.new_inbox()
        self._subscription = await self._nc.subscribe(self._inbox, future=DirectDelivery(self._on_message))
        self._forget_listener = on_reconnect(self._nc, self._troubled.set)
        self._keeper = asyncio.create_task(self._keep(), name=f"pull-{self.spec.durable}")
        if self._unanswered is not None:
            self._extender = asyncio.create_task(self._extend(self._unanswered), name=f"extend-{self.spec.durable}")
        await self._request()

    async def stop(self) -> None:
        """Request no more; messages that were not taken go back to the stream."""
        if self._forget_listener is not None:
            self._forget_listener()
            self._forget_listener = None
        await end_tasks([task for task in (self._keeper, self._extender) if task is not None])
        self._keeper = self._extender = None
        if self._subscription is not None and not self._nc.is_closed:
            try:
                await self._subscription.unsubscribe()
            except nats_errors.Error:
                self._subscription = None
        waiting, self._ready = list(self._ready), deque()
        for message in waiting:
            await nak(message, 0)

    async def take(self, limit: int) -> list[Msg]:
        """Wait for at least one message; return up to *limit* received ones."""
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        return self.take_now(limit)

    def take_now(self, limit: int) -> list[Msg]:
        """Return up to *limit* received messages, possibly none."""
        batch = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        self._request_if_low()
        return batch

    def take_in_turns(self, limit: int, most_of_one: int, owner_of: Callable[[Msg], str]) -> list[Msg]:
        """Return received messages in turns of their owners: up to *limit*, of one owner up to *most_of_one*."""
        batch = take_in_turns(self._ready, limit, most_of_one, owner_of)
        self._request_if_low()
        return batch

    def _request_if_low(self) -> None:
        if self._is_low and not self.paused:
            asyncio.get_running_loop().call_soon(self._request_soon)

    @property
    def _is_low(self) -> bool:
        """Whether it is time to request more; with a window of one as soon as nothing is requested."""
        return self._requested < max(1, self._window // 2)

    def hold(self, count: int) -> None:
        """Count *count* taken messages against the window while they are handled; a negative count releases them.

        For handlers that work long on many messages: no message is fetched that could not start at once.
        """
        self._held += count
        if count < 0 and self._is_low and not self.paused:
            self._request_soon()

    @property
    def waiting(self) -> int:
        """Messages that were received and not taken yet."""
        return len(self._ready)

    def _request_soon(self, request: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        if self._keeper is not None:
            task = asyncio.ensure_future((request or self._request)())
            task.add_done_callback(_ignore_error)

    async def _renew(self) -> None:
        """Request again after a request has ended; the keeper goes on where that can't be done now."""
        if not self._missing:
            await self._request()
        if self._requested == 0:
            self._troubled.set()

    async def _request(self) -> None:
        room = self._window - self._requested - self._held - len(self._ready)
        if room <= 0 or self.paused or (self._requested and room < self._window // 4):
            return
        heartbeat_s = min(HEARTBEAT_S, CLUSTER_HEARTBEAT_S) if is_clustered(self._nc) else HEARTBEAT_S
        body = {"batch": room, "expires": int(EXPIRES_S * 1e9), "idle_heartbeat": int(heartbeat_s * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.spec.stream}.{self.spec.durable}"
        self._requested += room
        self._last_heard = monotonic()
        try:
            await self._nc.publish(subject, json.dumps(body).encode(), reply=self._inbox)
        except nats_errors.Error:
            self._requested -= room
            self._troubled.set()

    def _on_message(self, message: Msg) -> None:
        self._last_heard = monotonic()
        status = message.headers.get("Status") if message.headers and not message.reply.startswith("$JS.ACK") else None
        if status is None:
            self._requested = max(0, self._requested - 1)
            self._ready.append(message)
            if self._unanswered is not None:
                self._unanswered.add(message)
            self._arrived.set()
            if self._requested == 0:
                self._request_soon()
            return
        if status == "100":
            return
        self._missing = status == "503" or (status == "409" and "Consumer Deleted" in str(message.headers))
        ended = (message.headers or {}).get("Nats-Pending-Messages")
        self._requested = max(0, self._requested - int(ended)) if ended else 0
        self._request_soon(self._renew)

    async def _extend(self, unanswered: HeldMessages) -> None:
        while True:
            await asyncio.sleep(unanswered.turn_s)
            await self._extend_once(unanswered)

    async def _extend_once(self, unanswered: HeldMessages) -> None:
        """Extend what is held; a call of its own, since a message that is referred to counts as held."""
        if self.paused:  # a replica that has a database may take them meanwhile
            unanswered.move()
            return
        for message in unanswered.unanswered():
            await in_progress(message)

    async def _keep(self) -> None:
        """Request again where a request was lost: broker restarts, missing consumers, dropped heartbeats."""
        pause = CHECK_S
        reconnects = self._nc.stats["reconnects"]
        while True:
            await self._wait_troubled()
            if self._nc.stats["reconnects"] != reconnects and self._nc.is_connected:
                reconnects = self._nc.stats["reconnects"]
                self.reset()  # the request was lost with the old connection; else only missing heartbeats would show it
            if self._missing and self._rebind is not None and self._nc.is_connected:
                with contextlib.suppress(TimeoutError, nats_errors.Error):
                    await self._rebind()
                    self._missing = False
                    await self._request()
                await asyncio.sleep(pause)  # it may be missing again at once
                pause = min(pause * 2, LONGEST_PAUSE_S)
                if self._missing:
                    self._troubled.set()
                continue
            pause = CHECK_S
            if self._requested and self._silent_s >= self._lost_s:
                self._requested = 0
            if self._requested == 0 and self._nc.is_connected:
                await self._request()
            if self._requested == 0:  # there is no connection, no room, or a pause
                await asyncio.sleep(CHECK_S)
                self._troubled.set()

    async def _wait_troubled(self) -> None:
        """Return when something may be wrong with the request, at the latest when it is to be taken as lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(CHECK_S, self._lost_s - self._silent_s)):
                await self._troubled.wait()
        self._troubled.clear()

    @property
    def _lost_s(self) -> float:
        return min(LOST_S, CLUSTER_LOST_S) if is_clustered(self._nc) else LOST_S

    @property
    def _silent_s(self) -> float:
        return monotonic() - self._last_heard

    def reset(self) -> None:
        """Forget outstanding requests; called after a reconnect."""
        self._requested = 0


def _ignore_error(task: "asyncio.Future[None]") -> None:
    if not task.cancelled():
        task.exception()


async def ack(message: Msg) -> None:
    """Acknowledge the message; a lost ack only means that it is delivered again."""
    await _answer(message, b"+ACK")


async def nak(message: Msg, delay_s: float) -> None:
    """Return the message to the stream, to be delivered again after *delay_s*."""
    await _answer(message, b"-NAK" if delay_s <= 0 else b"-NAK " + json.dumps({"delay": int(delay_s * 1e9)}).encode())


async def term(message: Msg) -> None:
    """Remove the message from the stream for good; its dead letter must be stored before."""
    await _answer(message, b"+TERM")


async def in_progress(message: Msg) -> None:
    """Extend the ack wait; only while the work makes progress."""
    await _respond(message, b"+WPI")


async def flush(message: Msg) -> None:
    """Wait until the broker has what was sent on the message's connection, acks among it; at most FLUSH_S."""
    with contextlib.suppress(TimeoutError, nats_errors.Error):
        await message._client.flush(timeout=FLUSH_S)


async def _answer(message: Msg, response: bytes) -> None:
    message._ackd = True  # nats-py's own mark
    held_by: HeldMessages | None = getattr(message, "_held_by", None)
    if held_by is not None:
        held_by.move()
    await _respond(message, response)


async def _respond(message: Msg, response: bytes) -> None:
    try:
        await message._client.publish(message.reply, response)  # nats-py's ack() allows one response only
    except nats_errors.Error:
        return


def age_s(message: Msg) -> float:
    """Return the seconds since the broker stored this message; at least 0, also where the two clocks disagree."""
    return max(0.0, (wall() - message.metadata.timestamp).total_seconds())


def deliveries(message: Msg) -> int:
    """Return how often the broker has delivered this message, including this time."""
    count = message.metadata.num_delivered
    return int(count or 1)
