"""An event loop in a thread, for programs without asyncio: `run.sync` and SyncClient wait for what it does."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread of its own, begun when first used, for callers without one or with one that is busy."""

    def __init__(self) -> None:
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """Begin with nothing: a fork has no threads of its parent, and its lock may be held by one of them."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what *work* returns; Ctrl-C cancels it and waits until it has closed what it opened.

        Raises RuntimeError in the thread itself.
        """
        if threading.current_thread() is self._thread:
            work.close()
            msg = "this would wait for itself: it is called by what it waits for; write: await run(…)"
            raise RuntimeError(msg)
        loop, ended, tasks = self._begun(), threading.Event(), list[asyncio.Task[Result]]()

        def begin() -> None:
            tasks.append(loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it was to begin
                work.close()
                ended.set()

        try:
            loop.call_soon_threadsafe(begin)
            ended.wait()
        except BaseException:
            loop.call_soon_threadsafe(cancel)  # after it has begun
            ended.wait()  # a second Ctrl-C ends this too
            raise
        return tasks[0].result()

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="towpath-sync", daemon=True)
                self._thread.start()
            return self._loop


LOOP = LoopThread()
"""Of this process: one thread serves all."""
