"""Runs functions of user code: async ones on the event loop, plain ones each in a thread of its own.

A thread that never ends delays neither other calls nor the end of the process, and whoever waits for it may give up at
any time. A hung thread can't be ended from outside, so the number of abandoned ones is bounded: beyond the bound the
process takes no more work until some have ended.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

ThreadResult = Future[tuple[bool, Any]]
"""True and what the function returned, or False and what it raised."""


def in_thread(name: str, function: Callable[..., Any], *arguments: Any) -> tuple[threading.Thread, ThreadResult]:
    """Run *function* in a thread named *name*; returns the thread and where its end can be awaited."""
    found: ThreadResult = Future()
    context = contextvars.copy_context()

    def run() -> None:
        result = context.run(capture_result, function, *arguments)
        if found.set_running_or_notify_cancel():
            found.set_result(result)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, found


def capture_result(function: Callable[..., Any], /, *arguments: Any, **named: object) -> tuple[bool, Any]:
    """Return whether *function* returned, and what it returned or raised.

    StopIteration and SystemExit must not travel through a future.
    """
    try:
        return True, function(*arguments, **named)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever user code raises is a result of its call
        return False, error


MAX_ABANDONED = 16
"""As many as answers of one process by default: all of a batch may hang once."""


class UserCodeThreads:
    """Runs plain functions, and counts the threads of those that were abandoned."""

    def __init__(self, most: int = MAX_ABANDONED) -> None:
        self._most = most
        self._abandoned: set[threading.Thread] = set()

    async def run(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what *function* returns, in a thread of its own; raises what it raises. May be cancelled."""
        thread, ended = in_thread(name, function, *arguments)

        def note(found: ThreadResult) -> None:
            if found.cancelled():
                self._abandoned.add(thread)

        ended.add_done_callback(note)
        succeeded, found = await asyncio.wrap_future(ended)
        if not succeeded:
            raise found
        return found

    @property
    def abandoned(self) -> int:
        """How many abandoned threads still run."""
        self._abandoned = {thread for thread in self._abandoned if thread.is_alive()}
        return len(self._abandoned)

    @property
    def fault(self) -> str:
        """Why no more work should be taken; empty where it may be."""
        left = self.abandoned
        return "" if left < self._most else f"{left} calls of plain methods hang: their threads can't be ended"


PROCESS_THREADS = UserCodeThreads()
"""Those of this process: threads are its own, whichever agent's they are."""


async def call_method(method: Any, *arguments: Any) -> Any:
    """Call *method* of user code: an async one here, a plain one in a thread. Raises whatever it raises."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    found = await PROCESS_THREADS.run(f"agent {getattr(method, '__name__', '')}", method, *arguments)
    return await found if inspect.isawaitable(found) else found
