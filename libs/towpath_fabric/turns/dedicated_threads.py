"""Threads of one kind of work: what others compute for long never takes a thread from it, nor it one from them.

The threads that `asyncio.to_thread` shares are few and have one queue without turns. What one caller can fill must not
be in it beside what everybody waits for.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class DedicatedThreads:
    """At most *most* threads, which are started when they are first needed."""

    def __init__(self, most: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(most, thread_name_prefix=name)

    async def run(self, compute: Callable[[], Result]) -> Result:
        """Return what *compute* returns; it goes on where the caller is cancelled."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._executor, context.run, compute)
