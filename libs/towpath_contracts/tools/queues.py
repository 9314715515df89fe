"""Queues as the broker has them now: what waits, what is being worked on, and whether anybody takes from them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from towpath_contracts.base import Message, MessagePart, Token

MAX_TOOLSETS = 64
"""Toolsets of a project in one answer: the broker is asked about each."""

BUSY_CALLS = 2
"""A worker that asks for no more calls has so many at least: one that runs, and one that it has fetched ahead."""


class QueueState(MessagePart):
    """One queue and who takes from it.

    `toolset` is set where workers take from it. `waits` has not been taken, `in_flight` was taken and is not settled,
    `redelivered` of these more than once; `listeners` counts open requests for more, which one process may have several
    of. `missing`: the broker does not know the queue, or has not answered.
    """

    stream: str
    consumer: str
    toolset: str = ""
    waits: int = 0
    in_flight: int = 0
    redelivered: int = 0
    listeners: int = 0
    last_taken_at: datetime | None = None
    missing: bool = False

    @property
    def has_worker(self) -> bool:
        """Whether a worker takes from it, or has too much to do to ask for more."""
        return self.listeners > 0 or self.in_flight - self.redelivered >= BUSY_CALLS

    @property
    def is_untaken(self) -> bool:
        """Whether calls wait in it that no worker takes."""
        return self.waits > 0 and not self.has_worker


class StreamFill(MessagePart):
    """How full a stream is. When it is, it refuses `new` messages, or drops the `old` ones."""

    stream: str
    messages: int
    bytes: int
    max_bytes: int
    discard: Literal["new", "old"]


class ListQueues(Message):
    """Gateway to TAS: the queues of the toolsets of a project, or of one; with `platform` those that all share too.

    With `run_id` only those that hold calls of this run which no worker has begun for a while.
    """

    project: Token
    platform: bool = False
    toolset: Token | None = None
    run_id: UUID | None = None


class QueueList(Message):
    """Queues and streams; `left_out` counts toolsets that did not fit the answer."""

    queues: tuple[QueueState, ...]
    streams: tuple[StreamFill, ...] = ()
    left_out: int = 0


class PoolDemand(Message):
    """How much work the workers of one toolset have: calls that wait for one, and calls that one runs."""

    pool: Token
    value: int
