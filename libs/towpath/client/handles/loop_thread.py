"""An event loop in a thread, for programs without asyncio: `run.sync` and SyncClient wait for what it does."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from towpath.declared_places import remember_caller
from towpath.inherited_objects import keep_inherited

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread of its own, begun when first used, for callers without one or with one that is busy."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """Begin with nothing: a fork has no threads of its parent, and its lock may be held by one of them."""
        keep_inherited(self._loop)
        self._lock = threading.RLock()  # what is collected meanwhile may have to wait here too
        self._loop = None
        self._thread: threading.Thread | None = None
        self._closing: set[asyncio.Task[Any]] = set()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what *work* returns; Ctrl-C cancels it and waits until it has closed what it opened.

        Raises RuntimeError in the thread itself.
        """
        if self._is_here():
            work.close()
            msg = (
                "this would wait for itself: it is called by what it waits for. "
                "In coroutines use Client, or await run(…), in the place of SyncClient and run.sync"
            )
            raise RuntimeError(msg)
        try:
            loop = self._begun()
        except BaseException:
            work.close()
            raise
        ended, tasks = threading.Event(), list[asyncio.Task[Result]]()

        def begin() -> None:
            tasks.append(loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it was to begin
                work.close()
                ended.set()

        remember_caller()
        try:
            loop.call_soon_threadsafe(begin)
            ended.wait()
        except BaseException:
            loop.call_soon_threadsafe(cancel)  # after it has begun
            ended.wait()  # a second Ctrl-C ends this too
            raise
        return tasks[0].result()

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for *work*; in the thread itself, where what it belongs to was collected, it is done afterwards."""
        if not self._is_here():
            self.wait(work)
            return
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(loop,), name="towpath-sync", daemon=True)
                try:
                    thread.start()
                except Exception:
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop* for ever: an exit that some work raises ends run_forever, but is for who waits for that work."""
    while not loop.is_closed():
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


LOOP = LoopThread()
"""Of this process: one thread serves all."""
