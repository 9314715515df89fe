"""One question for everybody who asks at the same time.

What is asked while a question is under way is answered by the next one, never by that one: an answer is at least
as new as the moment it was asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Rounds(Generic[K, V]):
    """Gathers keys and asks *look* for all of them at once, one round after another."""

    def __init__(self, look: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._look = look
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V | None:
        """Return what the next round finds for *key*, None where it finds nothing; raises what *look* raises for it."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(answer)

    async def _ask(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            await self._round(asked)

    async def _round(self, asked: "dict[K, asyncio.Future[V | None]]") -> None:
        """Answer *asked*; where that fails, each key is asked for alone, so that one of them spoils it for no other."""
        try:
            found = await self._look(list(asked))
        except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it is
            if len(asked) > 1:
                for key, answer in asked.items():
                    await self._round({key: answer})
                return
            for answer in asked.values():
                answer.set_exception(error)
                answer.exception()  # nobody may be waiting any more, and that is no mistake
        else:
            for key, answer in asked.items():
                answer.set_result(found.get(key))
