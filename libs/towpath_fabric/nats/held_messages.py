"""Messages that this process has and has not answered yet: it tells the broker that they are not lost.

A slow process else gets its own messages again, and so do its peers. These copies make all of them slower still, and
a message that came several times is handled alone (`towpath_fabric.redelivery`), which is slower than a batch.
"""

import asyncio
import weakref
from typing import NamedTuple

from nats.aio.msg import Msg

from towpath_fabric.clock import monotonic

LONGEST_S = 60.0
"""Who has not answered a message after this time, and has it still, may never do so: the broker delivers it again."""

PARTS = 3
"""Of an ack wait: after each all are extended, so that one that was lost with this process is noticed in time."""


class _Held(NamedTuple):
    message: "weakref.ref[Msg]"
    since_s: float


class HeldMessages:
    """Those of one consumer. A message that nobody refers to any more was given up without an answer."""

    def __init__(self, ack_wait_s: float) -> None:
        self._ack_wait_s = ack_wait_s
        self._held: list[_Held] = []

    def add(self, message: Msg) -> None:
        """Hold a message that has just arrived, until it is answered."""
        self._held.append(_Held(weakref.ref(message), monotonic()))

    def unanswered(self) -> list[Msg]:
        """Return the messages to extend, and forget all others."""
        oldest_s = monotonic() - LONGEST_S
        kept, messages = [], []
        for held in self._held:
            message = held.message()
            if message is not None and not message.is_acked and held.since_s > oldest_s:
                kept.append(held)
                messages.append(message)
        self._held = kept
        return messages

    async def next_turn(self) -> list[Msg]:
        """Wait for the time to extend, and return what is to be extended."""
        await asyncio.sleep(self._ack_wait_s / PARTS)
        return self.unanswered()
