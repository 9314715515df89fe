"""Running without asyncio: in a script, inside a loop as in a notebook, in a forked process, and never for itself."""

import asyncio
import os
import threading

import pytest

from towpath import UnavailableError, run, run_sync
from towpath.client.run_handle import LoopThread

NOBODY = "http://127.0.0.1:9"


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def test_it_waits_inside_a_running_loop_as_in_a_notebook() -> None:
    with pytest.raises(UnavailableError, match="server_unreachable"):
        run_sync("solo", "hello", server=NOBODY)


def test_it_waits_where_there_is_no_loop() -> None:
    with pytest.raises(UnavailableError, match="server_unreachable"):
        run.sync("solo", "hello", server=NOBODY)


def test_one_thread_serves_all_and_a_fork_begins_its_own() -> None:
    loop = LoopThread()
    assert {loop.wait(thread_name()) for _ in range(3)} == {"towpath-sync"}
    assert loop._begun() is loop._begun()
    child = os.fork()
    if child == 0:
        os._exit(7 if loop.wait(thread_name()) == "towpath-sync" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_it_waits_for_can_not_wait_for_it() -> None:
    loop = LoopThread()

    async def nested() -> str:
        return loop.wait(thread_name())

    with pytest.raises(RuntimeError, match="would wait for itself"):
        loop.wait(nested())


def test_an_interrupt_cancels_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, cancelled = LoopThread(), threading.Event()

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(*_given: object) -> None:
        loop.wait(asyncio.sleep(0.05))  # it has begun by then
        raise KeyboardInterrupt

    class Waited:
        """A future whose wait is interrupted."""

        def __init__(self, future: object) -> None:
            self.future = future
            self.cancel = future.cancel  # type: ignore[attr-defined]

        def result(self) -> None:
            monkeypatch.undo()
            interrupted()

    submit = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda work, to: Waited(submit(work, to)))
    with pytest.raises(KeyboardInterrupt):
        loop.wait(long())
    assert cancelled.wait(10)
