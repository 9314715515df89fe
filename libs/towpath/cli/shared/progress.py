"""Says on a person's terminal that a command is still at work, once that takes longer than a moment.

It is one line of stderr, which a thread draws, so that code which blocks is covered too. The cursor stays in its first
column and is never hidden: whatever else writes there, or ends the process, leaves a terminal that can be used.
"""

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator

from towpath.cli.shared.text import one_line
from towpath_fabric.clock import monotonic

DELAY_S = 0.7
"""What is done sooner shows nothing."""

REFRESH_S = 0.1
"""Between two looks at the line; work that pauses for less has not paused."""

_ERASE = "\r\x1b[K"


class ProgressLine:
    """What a command is doing, how far it is and for how long it has been at it. Nothing is drawn unless *drawn*."""

    def __init__(self, text: str, *, drawn: bool) -> None:
        self._text, self._count = one_line(text), ""
        self.drawn = drawn
        self.drawn_text = ""
        self._at_work = 0
        self._began = self._quiet_since = 0.0
        self._ended: float | None = None
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def count(self, done: int, unit: str, *, of: int | None = None) -> None:
        """Say how much is done, and of how much where that is known."""
        self._count = f"{done} {unit}" if of is None else f"{done} of {of} {unit}"

    def say(self, text: str) -> None:
        """Say *text* from here on."""
        self._text = one_line(text)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Be at work for the time of the block; the line is gone when nothing else is."""
        with self._lock:
            now = monotonic()
            if not self._at_work and (self._ended is None or now - self._ended > REFRESH_S):
                self._began = self._quiet_since = now
            self._at_work += 1
            if self.drawn and self._thread is None:
                self._thread = threading.Thread(target=self._refresh, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                self._ended = monotonic()
                if not self._at_work:
                    self._draw("")

    @contextlib.contextmanager
    def saying(self, text: str) -> Iterator[None]:
        """Say *text* for the time of the block."""
        before = self._text, self._count
        self._text, self._count = one_line(text), ""
        try:
            yield
        finally:
            self._text, self._count = before

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line away while something else is printed, or asked, and for a moment after it."""
        with self._lock:
            self._draw("")
            try:
                yield
            finally:
                self._quiet_since = monotonic()

    def close(self) -> None:
        """Take the line away for good."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._draw("")

    def shown_text(self) -> str:
        """Return what the line says now; nothing where it is not to be seen."""
        now = monotonic()
        if not self._at_work or now - self._quiet_since < DELAY_S:
            return ""
        seconds = int(now - self._began)
        parts = [part for part in (self._count, f"{seconds} s" if seconds else "") if part]
        return f"{self._text} … {', '.join(parts)}".rstrip()

    def _refresh(self) -> None:
        while not self._closing.wait(REFRESH_S):
            with self._lock:
                self._draw(self.shown_text())

    def _draw(self, text: str) -> None:
        if text == self.drawn_text:
            return
        self.drawn_text = text
        with contextlib.suppress(OSError, ValueError):  # a terminal that went away is told nothing more
            sys.stderr.write(_drawing(text))
            sys.stderr.flush()


_open: list[ProgressLine] = []
"""The lines of this process; the first is the only one that may be drawn, since a terminal has one last line."""


@contextlib.contextmanager
def progress_line(text: str, *, shown: bool) -> Iterator[ProgressLine]:
    """Have a line that is seen whenever something is at work; that of whoever called, where there is one already."""
    if _open and (_open[0].drawn or not shown):
        yield _open[0]
        return
    line = ProgressLine(text, drawn=shown and sys.stderr.isatty())
    _open.insert(0, line)
    try:
        yield line
    finally:
        _open.remove(line)
        line.close()


@contextlib.contextmanager
def progress(text: str, *, shown: bool) -> Iterator[ProgressLine]:
    """Say *text*, such as "Verifying the audit", while the block is at work."""
    with progress_line(text, shown=shown) as line, line.saying(text), line.working():
        yield line


@contextlib.contextmanager
def progress_of_imports(text: str, *, shown: bool) -> Iterator[None]:
    """Say *text* while the block imports; what draws the line is imported first, so that no two threads import."""
    if shown:
        importlib.import_module("rich.console")
    with progress(text, shown=shown):
        yield


def without_progress() -> contextlib.AbstractContextManager[None]:
    """Keep the line, if there is one, away for the time of the block."""
    return _open[0].hidden() if _open else contextlib.nullcontext()


def _drawing(text: str) -> str:
    """Return what draws *text* on one line, as the only thing there; nothing for a terminal that takes nothing away.

    It is cut to the width of the terminal, since a line that wraps could not be taken away again.
    """
    from rich.cells import cell_len, set_cell_size
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return ""
    fitted = text if cell_len(text) < console.width else set_cell_size(text, console.width - 1)
    return f"{_ERASE}{fitted}\r" if text else _ERASE
