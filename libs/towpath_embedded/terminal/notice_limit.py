"""Shows the first few lines of each kind and counts the rest, so that a flood of runs is one line every few seconds."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

BURST = 3
"""Lines of one kind that are shown one by one within a window."""

WINDOW_S = 5.0

ShowLine = Callable[[str, str], None]
"""Gets a line and its style."""


@dataclass(slots=True)
class NoticeWindow:
    """The lines of one kind since a window began."""

    shown: int = 0
    left_out: int = 0


class NoticeLimit:
    """Passes lines to *show*; what is left out of a kind is told by the words of *more*, for one and for several.

    A window that had left something out is followed by one in which nothing is shown one by one.
    """

    def __init__(self, show: ShowLine, more: Mapping[str, tuple[str, str]]) -> None:
        self._show = show
        self._more = more
        self._windows: dict[str, NoticeWindow] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def tell(self, kind: str, line: str, style: str) -> None:
        """Show *line*, or count it."""
        window = self._windows.get(kind)
        if window is None:
            window = self._begin(kind, NoticeWindow())
        if window.shown < BURST:
            window.shown += 1
            self._show(line, style)
        else:
            window.left_out += 1

    def close(self) -> None:
        """Tell what was left out by now, and end."""
        for timer in self._timers.values():
            timer.cancel()
        for kind, window in self._windows.items():
            self._tell_left_out(kind, window)
        self._windows.clear()

    def _begin(self, kind: str, window: NoticeWindow) -> NoticeWindow:
        self._windows[kind] = window
        self._timers[kind] = asyncio.get_running_loop().call_later(WINDOW_S, self._end, kind)
        return window

    def _end(self, kind: str) -> None:
        window = self._windows.pop(kind)
        del self._timers[kind]
        if window.left_out:
            self._tell_left_out(kind, window)
            self._begin(kind, NoticeWindow(shown=BURST))

    def _tell_left_out(self, kind: str, window: NoticeWindow) -> None:
        if window.left_out:
            one, several = self._more[kind]
            self._show(f"… {window.left_out} more {one if window.left_out == 1 else several}", "dim")
