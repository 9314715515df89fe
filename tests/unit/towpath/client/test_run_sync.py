"""Running without asyncio: in a script, inside a loop as in a notebook, in a forked process, and never for itself."""

import asyncio
import os
import signal
import threading

import pytest

from towpath import UnavailableError, run, run_sync, submit, submit_sync
from towpath.client.handles.loop_thread import LoopThread

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


async def test_a_task_can_be_begun_alone_with_and_without_asyncio() -> None:
    with pytest.raises(UnavailableError, match="server_unreachable"):
        await submit("solo", "hello", server=NOBODY)
    with pytest.raises(UnavailableError, match="server_unreachable"):
        submit_sync("solo", "hello", server=NOBODY)


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


def test_an_interrupt_cancels_what_is_waited_for_and_lets_it_close_first() -> None:
    loop, begun, closed = LoopThread(), threading.Event(), threading.Event()

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            closed.set()

    def interrupt() -> None:
        assert begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupting = threading.Thread(target=interrupt)
    try:
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            loop.wait(long())
        assert closed.is_set()
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)


def test_a_fork_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    loop = LoopThread()
    with loop._lock:  # as another thread of the parent holds it
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(7 if loop.wait(thread_name()) == "towpath-sync" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_exit_in_the_work_is_the_callers_and_the_loop_goes_on() -> None:
    loop = LoopThread()

    async def leave() -> None:
        raise SystemExit(3)

    async def leave_below() -> None:
        await asyncio.create_task(leave())

    for work in (leave, leave_below):
        with pytest.raises(SystemExit, match="3"):
            loop.wait(work())
    assert loop.wait(thread_name()) == "towpath-sync"


def test_a_thread_that_can_not_be_started_is_begun_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = LoopThread()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            loop.wait(thread_name())
    assert loop.wait(thread_name()) == "towpath-sync"
