"""Loads keys in batches: all callers that ask at the same time share one query.

A key that is asked for while a query runs is answered by the next query, never by the running one. So a result is never
older than the call that asked for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeyBatchLoader(Generic[K, V]):
    """Collects keys and calls *load* with all of them, one batch after another."""

    def __init__(self, load: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._load = load
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._running: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V | None:
        """Return what the next batch finds for *key*, or None; raises what *load* raises for it."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(answer)

    async def _run(self) -> None:
        while self._waiting:
            pending, self._waiting = self._waiting, {}
            await self._load_batch(pending)

    async def _load_batch(self, pending: "dict[K, asyncio.Future[V | None]]") -> None:
        """Answer *pending*. If the load fails, each key is loaded alone: one bad key fails only for its callers."""
        try:
            found = await self._load(list(pending))
        except Exception as error:  # noqa: BLE001 - every caller gets the error, whatever it is
            if len(pending) > 1:
                for key, answer in pending.items():
                    await self._load_batch({key: answer})
                return
            for answer in pending.values():
                answer.set_exception(error)
                answer.exception()  # mark it as retrieved: every caller may have given up by now
        else:
            for key, answer in pending.items():
                answer.set_result(found.get(key))
