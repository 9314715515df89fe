"""Threads of user code that nobody waits for any more: a plain method that hangs can't be ended from outside.

There are never more of them than the bound and the answers that are worked on at the same time; beyond the bound
the process takes no work until some have ended, and says so.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from towpath.user_code import Found, in_thread

MOST_ABANDONED = 16
"""As many as answers of one process by default: all of a batch may hang once."""


class Threads:
    """Runs plain functions, and remembers the threads of those that were given up."""

    def __init__(self, most: int = MOST_ABANDONED) -> None:
        self._most = most
        self._abandoned: set[threading.Thread] = set()

    async def run(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what *function* returns, in a thread of its own; raises what it raises. May be cancelled."""
        thread, ended = in_thread(name, function, *arguments)

        def note(found: Found) -> None:
            if found.cancelled():
                self._abandoned.add(thread)

        ended.add_done_callback(note)
        succeeded, found = await asyncio.wrap_future(ended)
        if not succeeded:
            raise found
        return found

    @property
    def abandoned(self) -> int:
        """How many threads still run that nobody waits for."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        return len(self._abandoned)

    @property
    def fault(self) -> str:
        """Why no more work should be taken; empty where it may be."""
        left = self.abandoned
        return "" if left < self._most else f"{left} calls of plain methods hang: their threads can't be ended"


PROCESS = Threads()
"""Those of this process: threads are its own, whichever agent's they are."""
