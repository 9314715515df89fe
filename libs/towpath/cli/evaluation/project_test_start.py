"""Starts the process that tests a project: at the first moment of `towpath test`, which is read while it imports.

It takes longer to import the platform than to import the tree of commands and to find the tests, and both go on at
once. Nothing of that is imported here.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from towpath.extras import missing_packages

PROJECT_TESTS = "towpath_testing.project_tests"

_ONLY_HELP = frozenset({"--help", "-h"})

_early: list[subprocess.Popen[bytes]] = []


@contextlib.contextmanager
def started_early(words: Sequence[str]) -> Iterator[None]:
    """Start the process that `towpath test` with *words* will need; one that was not taken ends with the block."""
    try:
        if not _ONLY_HELP.intersection(words) and missing_packages("towpath_testing", "pytest") is None:
            _early.append(_start())
        yield
    finally:
        while _early:
            _end(_early.pop())


def take_started() -> subprocess.Popen[bytes]:
    """Return the process that was started early, else one that is started now."""
    return _early.pop() if _early else _start()


def _start() -> subprocess.Popen[bytes]:
    """It is in our group of processes, and has our terminal: pytest reads it where a test has a breakpoint."""
    with contextlib.ExitStack() as stack:
        passed = [stack.enter_context(_passed_on(descriptor)) for descriptor in (0, 1)]
        stack.enter_context(_without_interrupts())
        words = [sys.executable, "-P", "-m", PROJECT_TESTS, *map(str, passed)]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=passed)


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:  # closes its pipes, and waits
        process.terminate()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Have what is started now ignore Ctrl-C from its first moment: it is for us, and we end it."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _passed_on(descriptor: int) -> Iterator[int]:
    """Give another number for *descriptor*, whose own the process needs for the request and the answers."""
    try:
        passed = os.dup(descriptor)
    except OSError:  # it was closed by who started this
        passed = os.open(os.devnull, os.O_RDWR)
    try:
        yield passed
    finally:
        os.close(passed)
