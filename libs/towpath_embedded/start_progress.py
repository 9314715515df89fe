"""What a start is at work on, as one line of a person's terminal: it is there wherever that takes longer than a moment.

Much goes on at once, so all of it is named: "Importing the services; starting postgres … 3 s".
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from towpath.cli.shared.progress import ProgressLine

Working = Callable[[str, str], AbstractContextManager[None]]
"""Says for the time of a block what is done with what: `working("Starting", "postgres")`."""


def untold(_doing: str, _what: str) -> AbstractContextManager[None]:
    """Say nothing."""
    return contextlib.nullcontext()


class StartProgress:
    """The line; nothing is drawn unless *shown*, and where stderr is no terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._line = ProgressLine("", drawn=shown and sys.stderr.isatty())
        self._at_work: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def working(self, doing: str, what: str) -> Iterator[None]:
        """Name *what* among that with which *doing* is at work, such as "Starting", for the time of the block."""
        self._at_work.append((doing, what))
        self._line.say(self.text())
        try:
            with self._line.working():
                yield
        finally:
            self._at_work.remove((doing, what))
            self._line.say(self.text())

    def text(self) -> str:
        """Return what is going on, by what is done; empty where nothing is."""
        things: dict[str, list[str]] = {}
        for doing, what in self._at_work:
            things.setdefault(doing, []).append(what)
        told = "; ".join(f"{doing[0].lower()}{doing[1:]} {', '.join(of)}" for doing, of in things.items())
        return told[:1].upper() + told[1:]

    def hidden(self) -> AbstractContextManager[None]:
        """Keep the line away while something else is printed."""
        return self._line.hidden()

    def close(self) -> None:
        """Take the line away for good."""
        self._line.close()
