"""A process whose event loop is blocked is ended; one that is merely idle, or was stopped as a whole, is not."""

import signal
import subprocess
import sys
import time

PROGRAM = """
import asyncio, ctypes, sys, time
from towpath_fabric.health import EventLoopWatchdog
whole = ctypes.CDLL
class Library:  # of a C library before glibc 2.34, or of one that has no timers at all
    def __init__(self, name):
        if name is not None and sys.argv[3] == "none":
            raise OSError(name)
        self._library = whole(None)
        self._hidden = "timer_" if name is None else "hides nothing"
    def __getattr__(self, name):
        if name.startswith(self._hidden):
            raise AttributeError(name)
        return getattr(self._library, name)
if sys.argv[3] != "new":
    ctypes.CDLL = Library
async def main():
    task = asyncio.create_task(EventLoopWatchdog(stuck_after_s=0.5 if sys.argv[1] == "pow" else 1, every_s=0.2).run())
    await asyncio.sleep(0.5)
    print("runs", flush=True)
    if sys.argv[1] == "pow":
        3 ** 3 ** 25  # computes for minutes, and lets no other thread run
    else:
        time.sleep(float(sys.argv[1]))
    await asyncio.sleep(float(sys.argv[2]))
    assert not task.done()
    task.cancel()
asyncio.run(main())
"""
"""Blocks the event loop for the first time of its arguments, then rests for the second."""


def started(blocked_s: float | str, rests_s: float, library: str = "new") -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-c", PROGRAM, str(blocked_s), str(rests_s), library]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    return process


def test_a_blocked_event_loop_ends_the_process() -> None:
    process = started(600, 0)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 70
    assert b"time.sleep" in errors or b"<string>" in errors


def test_an_idle_event_loop_is_not_blocked() -> None:
    process = started(0, 3)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_a_stopped_process_goes_on() -> None:
    process = started(0, 4)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_a_library_that_lets_no_thread_run_ends_the_process_too() -> None:
    process = started("pow", 0)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGALRM
    assert b"in main" in errors


def test_an_event_loop_that_computes_in_short_turns_is_not_stuck() -> None:
    process = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, timeout=60, check=False)
    assert (process.returncode, process.stderr) == (0, b"")


BUSY = """
import asyncio, time
from towpath_fabric.health import EventLoopWatchdog
async def main():
    task = asyncio.create_task(EventLoopWatchdog(stuck_after_s=0.5, every_s=0.1).run())
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        sum(range(200_000))
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
asyncio.run(main())
"""


def test_an_older_c_library_has_timers_beside_it() -> None:
    process = started("pow", 0, library="librt")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGALRM


def test_a_library_without_timers_leaves_the_thread_to_end_the_process() -> None:
    process = started(600, 0, library="none")
    process.communicate(timeout=60)
    assert process.returncode == 70
    process = started(0, 1, library="none")
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
