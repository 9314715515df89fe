"""The calls that are in this process, and the room that is left.

An execution is here at most once; nothing is fetched that could not begin at once.
"""

import asyncio
from collections.abc import Iterator
from uuid import UUID

from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_worker.app.call import Call


class Slots:
    """At most *size* calls. `consumers` fetch no more than what has room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._calls: dict[UUID, Call] = {}
        self._room = asyncio.Event()
        self._room.set()
        self.consumers: list[PullConsumer] = []

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(tuple(self._calls.values()))

    @property
    def free(self) -> int:
        """How many calls may begin."""
        return self._size - len(self._calls)

    def find(self, execution_id: UUID) -> Call | None:
        """Return the call of this execution, if it is here."""
        return self._calls.get(execution_id)

    async def wait_room(self) -> None:
        """Wait until a call may begin."""
        await self._room.wait()

    def occupy(self, call: Call) -> None:
        """Take a slot for *call*."""
        self._calls[call.invocation.execution_id] = call
        if self.free <= 0:
            self._room.clear()
        for consumer in self.consumers:
            consumer.hold(1)

    def vacate(self, call: Call) -> None:
        """Give the slot of *call* back, once its function has really ended."""
        del self._calls[call.invocation.execution_id]
        self._room.set()
        for consumer in self.consumers:
            consumer.hold(-1)
