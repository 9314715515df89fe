"""What was heard of one run, as the hops of its median step: who sent what to whom, when, and after what wait.

A step begins when the broker stores its request for a decision, and ends where the next one begins. A hop's `sent` is
the time at which the broker stored the message, or heard it where it is in no stream; `received` is when the broker
passed it on. `waited` is the sender's time since it received what it sends this for: its wake-up, its code, its
statements in Postgres.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from timeline.tap import SeenMessage

BROKER = "broker"
FIRST = "decide."
_ROLES_OF_CONSUMERS = {"decide": "decider", "exec": "worker"}
"""By the part of a consumer's name before its pool or toolset; the others are named after the role."""
_SENDERS = {
    "decide.": "orchestrator",
    "run.inbox.decider.": "decider",
    "run.inbox.tas.": "tas",
    "run.event.": "orchestrator",
    "tool.request": "orchestrator",
    "tool.exec.": "tas",
    "tool.outcome": "worker",
}
_OUTSIDE_STREAMS = {"tool.confirm.": ("tas", "worker"), "svc.tas.claim_start": ("worker", "tas")}
_VARIABLE = re.compile(r"(?<=\.)[0-9a-f]{32}$|(?<=\.)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Message(NamedTuple):
    """A message on its way from one process to another; times are seconds since 1970."""

    sender: str
    receiver: str
    subject: str
    kind: str
    sent_s: float
    received_s: float

    @property
    def way(self) -> tuple[str, str, str, str]:
        """What is the same in every step."""
        return self.sender, self.receiver, self.subject, self.kind


class Hop(NamedTuple):
    """A hop of the median step; times are milliseconds, `sent` and `received` since the step began.

    `after` is the subject of what was sent to the sender last, empty where it was nothing.
    """

    sender: str
    receiver: str
    subject: str
    kind: str
    sent_ms: float
    received_ms: float
    broker_ms: float
    after: str
    waited_ms: float
    steps: int


class Step(NamedTuple):
    """The median step, its hops in their order."""

    ms: float
    steps: int
    hops: list[Hop]


def messages_of(seen: Iterable[SeenMessage]) -> list[Message]:
    """Return what was sent, in the order of sending; a message with two receivers is there twice."""
    found = [message for one in seen if (message := _message(one)) is not None]
    return sorted(found, key=lambda message: message.sent_s)


def _message(seen: SeenMessage) -> Message | None:
    subject = _VARIABLE.sub("*", seen.subject)
    if seen.reply.startswith("$JS.ACK."):
        _, consumer, stored_ns = _delivery(seen.reply)
        return Message(_sender(subject), _role(consumer), subject, "stream", stored_ns / 1e9, seen.at_s)
    if subject.startswith("$JS.ACK."):
        stream, consumer, _ = _delivery(subject)
        return Message(_role(consumer), BROKER, f"ack {stream}", "core", seen.at_s, seen.at_s)
    if subject.startswith("_INBOX_") and b'"seq"' in seen.body:
        role = subject.removeprefix("_INBOX_").partition(".")[0]
        return Message(BROKER, role, "stored", "core", seen.at_s, seen.at_s)
    for prefix, (sender, receiver) in _OUTSIDE_STREAMS.items():
        if subject.startswith(prefix):
            return Message(sender, receiver, subject, "core", seen.at_s, seen.at_s)
    return None  # the publication of a message in a stream, which its delivery tells of, or what is of no step


def _delivery(subject: str) -> tuple[str, str, int]:
    """Read stream, consumer and time of storing (ns) from an acknowledgement's subject, which has two forms."""
    words = subject.split(".")
    stream, consumer, _, _, _, stored_ns, _ = words[2:9] if len(words) == 9 else words[4:11]
    return stream, consumer, int(stored_ns)


def _role(consumer: str) -> str:
    return _ROLES_OF_CONSUMERS.get(consumer.partition("_")[0], consumer)


def _sender(subject: str) -> str:
    return next((role for prefix, role in _SENDERS.items() if subject.startswith(prefix)), "other")


def median_step(messages: list[Message]) -> Step:
    """Return the median of all steps but the first and the last; a hop counts that at least half of them have.

    Raises ValueError for fewer than four decisions.
    """
    starts = [message.sent_s for message in messages if message.subject.startswith(FIRST)]
    if len(starts) < 4:
        raise ValueError(f"{len(starts)} decisions are too few for a median step")
    windows = list(pairwise(starts[1:-1]))
    found: dict[tuple[tuple[str, ...], int], list[tuple[float, Message, Message | None]]] = defaultdict(list)
    for began, ends in windows:
        times: Counter[tuple[str, ...]] = Counter()
        for place, message in enumerate(messages):
            if began <= message.sent_s < ends:
                times[message.way] += 1
                cause = _cause(messages, place)
                found[message.way, times[message.way]].append((began, message, cause))
    hops = [_median_hop(seen) for seen in found.values() if len(seen) * 2 >= len(windows)]
    length = statistics.median(ends - began for began, ends in windows)
    return Step(_ms(length), len(windows), sorted(hops, key=lambda hop: hop.sent_ms))


def _cause(messages: list[Message], place: int) -> Message | None:
    """Return what was sent last to the sender of a message.

    Not what was heard last: a listener that is late hears a message after its receiver has answered it.
    """
    sent = messages[place]
    if sent.sender == BROKER:  # it answers at once
        return None
    return next((one for one in reversed(messages[max(0, place - 40) : place]) if one.receiver == sent.sender), None)


def _median_hop(seen: list[tuple[float, Message, Message | None]]) -> Hop:
    one = seen[0][1]
    causes = Counter(cause.subject for _, _, cause in seen if cause is not None)
    after = causes.most_common(1)[0][0] if causes else ""
    waits = [
        max(0.0, message.sent_s - cause.received_s) for _, message, cause in seen if cause and cause.subject == after
    ]
    return Hop(
        *one.way,
        sent_ms=_ms(statistics.median(message.sent_s - began for began, message, _ in seen)),
        received_ms=_ms(statistics.median(message.received_s - began for began, message, _ in seen)),
        broker_ms=_ms(statistics.median(message.received_s - message.sent_s for _, message, _ in seen)),
        after=after,
        waited_ms=_ms(statistics.median(waits)) if waits else 0.0,
        steps=len(seen),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
