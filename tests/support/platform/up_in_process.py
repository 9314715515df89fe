"""Calls the command line of the embedded platform in this process, whose main thread it takes until it ends.

An interpreter that imports the platform, and the fork server that it starts, cost two seconds of processor time; here
both are there already. It ends as a person ends it: by Ctrl-C.
"""

import contextlib
import io
import os
import queue
import signal
import threading
from collections.abc import Callable

from towpath_embedded.__main__ import app

READY_S = 60.0
_LOOK_S = 0.2


class Lines(io.TextIOBase):
    """What is written to it, line by line, for another thread."""

    def __init__(self) -> None:
        self._begun = ""
        self._lines: queue.Queue[str] = queue.Queue()
        self.ended = threading.Event()

    def write(self, text: str) -> int:
        """Take *text*; a line counts once it is whole."""
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            self._lines.put(line)
        return len(text)

    def wait_for(self, text: str) -> str:
        """Return the next line that contains *text*; AssertionError where none comes any more."""
        seen: list[str] = []
        for _ in range(int(READY_S / _LOOK_S)):
            with contextlib.suppress(queue.Empty):
                seen.append(self._lines.get(timeout=_LOOK_S))
                if text in seen[-1]:
                    return seen[-1]
                continue
            if self.ended.is_set():
                break
        raise AssertionError(f"{text!r} was not told; told was: {seen}")


def command_status(*words: str) -> int:
    """Run a command to its end; returns its exit status. Leaves the umask and the handlers of signals as they were."""
    umask = os.umask(0)
    os.umask(umask)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return app(words, result_action="return_value") or 0
    finally:
        os.umask(umask)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def status_after(look: Callable[[Lines], None], *words: str) -> int:
    """Run a command, *look* at what it prints from another thread, press Ctrl-C; returns its exit status."""
    told, failures = Lines(), list[BaseException]()

    def watch() -> None:
        try:
            look(told)
        except BaseException as error:  # noqa: BLE001 - it is raised in the test's thread
            failures.append(error)
        if not told.ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    watching = threading.Thread(target=watch)
    with contextlib.redirect_stdout(told):
        watching.start()
        try:
            status = command_status(*words)
        finally:
            told.ended.set()
            watching.join()
    for failure in failures:
        raise failure
    return status
