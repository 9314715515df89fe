"""NATS in memory: work-queue streams with redelivery, core messages, and everything that goes wrong between.

It promises as little as the real one. Acknowledgements are hints, message ids are forgotten by a restart, what was
acknowledged just before one may come again, and a wiped or restored store knows nothing of what was sent since.
"""

import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.simulation.coverage import Coverage
from tests.simulation.outside.clock import SimProcess, VirtualTimeLoop
from tests.simulation.outside.database import BEGAN

from towpath_contracts.streams import CONSUMERS, ConsumerSpec

DEDUPE_S = 120.0
ACKED_AGAIN_S = 1.0
"""What was acknowledged this shortly before a restart may come again."""


@dataclass(slots=True)
class StoredMessage:
    """A message in a stream. `held_until` is the end of its ack wait, or of its nak delay."""

    seq: int
    subject: str
    data: bytes
    headers: dict[str, str]
    at: float
    deliveries: int = 0
    delivered_at: float = 0.0
    held_until: float = 0.0


@dataclass(slots=True)
class StreamQueue:
    """One stream with its one consumer, or one of several that share a stream by subject."""

    spec: ConsumerSpec
    messages: dict[int, StoredMessage] = field(default_factory=dict)
    feeds: list[Any] = field(default_factory=list)
    acked: list[tuple[float, StoredMessage]] = field(default_factory=list)
    ids: dict[str, float] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    last_seq: int = 0


@dataclass(slots=True)
class BrokerFaults:
    """How likely each thing is that may happen to a message on its way; what begins with `once` is never repeated."""

    lost: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    late_s: float = 8.0
    once: str | None = None


class SimBroker:
    """One nats-server."""

    def __init__(self, loop: VirtualTimeLoop, chance: random.Random, seen: Coverage) -> None:
        self.loop = loop
        self.chance = chance
        self.seen = seen
        self.faults = BrokerFaults()
        self.up = True
        self.lives = 0
        self.clients = 0
        self.queues: dict[str, StreamQueue] = {}
        self.subscribers: dict[str, list[tuple[SimProcess, str, Callable[..., None]]]] = {}
        self.wild: dict[str, None] = {}
        self.copy: dict[str, dict[int, StoredMessage]] | None = None
        self.acked_of_inbox: Callable[[StoredMessage], None] | None = None
        for spec in CONSUMERS:
            if spec.stream not in ("EVENTS", "LOGS"):
                self.declare(spec)

    def declare(self, spec: ConsumerSpec) -> StreamQueue:
        """Return the queue of a consumer, made if it is new."""
        return self.queues.setdefault(spec.durable + "@" + spec.stream, StreamQueue(spec))

    def publish(
        self, data: bytes, subject: str, headers: dict[str, str], stored: Callable[[bool], None] | None
    ) -> None:
        """Take a message from a client; *stored* gets, if at all, whether a stream has it."""
        times = 1
        draw = self.chance.random()
        faults = self.faults
        if draw < faults.lost:
            self.seen.note("message_lost")
            return
        once = faults.once is not None and subject.startswith(faults.once)
        if draw < faults.lost + faults.repeated and not once:
            self.seen.note("message_repeated")
            times = 2
        for _ in range(times):
            self.loop.call_in(
                self.loop.outside, self._hop_s(), self._arrive, data, subject, headers, stored, self.lives
            )

    def _hop_s(self) -> float:
        draw = self.chance.random()
        if draw < self.faults.late:
            self.seen.note("message_delayed")
            return self.faults.late_s * self.chance.random()
        return 0.0001 + 0.001 * draw

    def _arrive(
        self,
        data: bytes,
        subject: str,
        headers: dict[str, str],
        stored: Callable[[bool], None] | None,
        life: int,
    ) -> None:
        if not self.up or (life != self.lives and self.chance.random() < 0.5):
            return
        queue = self._queue_of(subject)
        if queue is None:
            self._publish_core(subject, data, headers)
            return
        if not self._known(queue, headers.get("Nats-Msg-Id")):
            queue.last_seq += 1
            message = StoredMessage(queue.last_seq, subject, data, headers, self.loop.time())
            queue.messages[message.seq] = message
            self._offer(queue, message)
        if stored is not None:
            if self.chance.random() < self.faults.lost:
                self.seen.note("stored_but_told_nothing")
            else:
                stored(True)

    def _known(self, queue: StreamQueue, message_id: str | None) -> bool:
        if message_id is None:
            return False
        stored_at = queue.ids.get(message_id)
        if stored_at is not None and self.loop.time() - stored_at < DEDUPE_S:
            self.seen.note("deduplicated")
            return True
        if message_id in queue.forgotten:
            self.seen.note("id_forgotten")
        queue.ids[message_id] = self.loop.time()
        return False

    def _queue_of(self, subject: str) -> StreamQueue | None:
        for queue in self.queues.values():
            if _matches(queue.spec.filter_subject, subject):
                return queue
        return None

    def _publish_core(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        groups: dict[str, list[tuple[SimProcess, Callable[..., None]]]] = {}
        patterns = [subject, *(pattern for pattern in self.wild if _matches(pattern, subject))]
        for pattern in patterns:
            for process, group, callback in self.subscribers.get(pattern, ()):
                if not process.dead:
                    groups.setdefault(group or f"{id(callback)}", []).append((process, callback))
        for members in groups.values():
            process, callback = members[int(self.chance.random() * len(members))]
            self.loop.call_in(process, self._hop_s(), callback, subject, data, headers)

    def subscribe(self, process: SimProcess, subject: str, group: str, callback: Callable[..., None]) -> None:
        """Call *callback* with messages on *subject*; of a group, one member gets each."""
        self.subscribers.setdefault(subject, []).append((process, group, callback))
        if "*" in subject:
            self.wild[subject] = None

    def forget(self, process: SimProcess) -> None:
        """The connection of *process* is closed."""
        for listeners in self.subscribers.values():
            listeners[:] = [one for one in listeners if one[0] is not process]
        for subject in [subject for subject, listeners in self.subscribers.items() if not listeners]:
            del self.subscribers[subject]
        for queue in self.queues.values():
            queue.feeds[:] = [feed for feed in queue.feeds if feed.process is not process]

    def _offer(self, queue: StreamQueue, message: StoredMessage) -> None:
        """Deliver to a consumer that has room; without one the message waits until one asks."""
        if not self.up or message.held_until > self.loop.time() or queue.messages.get(message.seq) is not message:
            return
        willing = [feed for feed in queue.feeds if feed.has_room and not feed.process.dead]
        if not willing:
            return
        feed = willing[int(self.chance.random() * len(willing))] if len(willing) > 1 else willing[0]
        feed.promised += 1
        message.deliveries += 1
        message.delivered_at = self.loop.time()
        if message.deliveries > 1:
            self.seen.note("redelivered")
        self._hold(queue, message, queue.spec.ack_wait_s)
        self.loop.call_in(feed.process, self._hop_s(), feed.receive, queue, copy(message), self.lives)

    def _hold(self, queue: StreamQueue, message: StoredMessage, seconds: float) -> None:
        message.held_until = self.loop.time() + seconds
        self.loop.call_in(self.loop.outside, seconds, self._offer, queue, message)

    def offer_all(self, queue: StreamQueue) -> None:
        """Offer everything that waits: a consumer has room again."""
        for message in list(queue.messages.values()):
            self._offer(queue, message)

    def settle(self, queue: StreamQueue, seq: int, life: int, reply: bytes) -> None:
        """Take an acknowledgement, unless it gets lost."""
        if self.chance.random() < self.faults.lost:
            self.seen.note("acknowledgement_lost")
            return
        self.loop.call_in(self.loop.outside, self._hop_s(), self._settled, queue, seq, life, reply)

    def _settled(self, queue: StreamQueue, seq: int, life: int, reply: bytes) -> None:
        message = queue.messages.get(seq)
        if not self.up or message is None or life != self.lives:
            return
        if reply.startswith((b"+ACK", b"+TERM")):
            del queue.messages[seq]
            queue.acked.append((self.loop.time(), message))
            if reply == b"+ACK" and queue.spec.stream == "INBOX" and self.acked_of_inbox is not None:
                self.acked_of_inbox(message)
        elif reply.startswith(b"+WPI"):
            self._hold(queue, message, queue.spec.ack_wait_s)
        else:
            delay = int(reply.split(b'"delay": ')[1].rstrip(b"}")) / 1e9 if b"delay" in reply else 0.0
            self._hold(queue, message, delay)

    def stop(self) -> None:
        """The server dies."""
        self.up = False
        self.lives += 1

    def start(self) -> None:
        """The server is back: ids of what left the queues are forgotten, and some of that comes again."""
        self.up = True
        self.lives += 1
        for queue in self.queues.values():
            again = [m for at, m in queue.acked if at > self.loop.time() - ACKED_AGAIN_S and self.chance.random() < 0.5]
            queue.acked.clear()
            queue.forgotten.update(queue.ids)
            queue.ids = {m.headers["Nats-Msg-Id"]: m.at for m in queue.messages.values() if "Nats-Msg-Id" in m.headers}
            for message in again:
                queue.messages[message.seq] = message
            self._settle(queue)

    def _settle(self, queue: StreamQueue) -> None:
        for feed in queue.feeds:
            feed.promised = 0
        for message in queue.messages.values():
            message.held_until = 0.0
        self.offer_all(queue)

    def wipe(self) -> None:
        """The data directory is deleted; the server must be down."""
        self._replace({})

    def remember(self) -> None:
        """Keep a copy of the store, to be restored later."""
        self.copy = {
            name: {seq: copy(message) for seq, message in queue.messages.items()} for name, queue in self.queues.items()
        }

    def restore(self) -> None:
        """Put the old copy in place; the server must be down."""
        self._replace(self.copy or {})

    def _replace(self, stores: dict[str, dict[int, StoredMessage]]) -> None:
        for name, queue in self.queues.items():
            queue.forgotten.update(queue.ids)
            queue.messages = {seq: copy(message) for seq, message in stores.get(name, {}).items()}
            queue.last_seq = max(queue.messages, default=0)
            queue.acked.clear()
            queue.ids.clear()

    @staticmethod
    def timestamp(message: StoredMessage) -> Any:
        """When a message was stored."""
        return BEGAN + timedelta(seconds=message.at)


def _matches(pattern: str, subject: str) -> bool:
    if pattern == subject:
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">" and len(given) >= len(wanted):
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(w in ("*", g) for w, g in zip(wanted, given, strict=True))
