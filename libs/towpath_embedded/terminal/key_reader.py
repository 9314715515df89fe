"""Reads single keys from the terminal, and leaves it as it was found.

Lines are not edited and keys are not shown while they are read; Ctrl-C, Ctrl-Z and the like stay signals. The terminal
gets its own mode back at the end, however it comes, and before this process is stopped; SIGKILL leaves that to the
shell. A process in the background reads no key, since the terminal would stop it for that. That it is in the foreground
again need not be told by a signal (`up &`, then `fg`), so it looks now and then.
"""

import asyncio
import atexit
import os
import signal
import termios
from collections.abc import Callable, Mapping
from typing import Any, Self

_LOCAL, _CHARACTERS = 3, 6  # places in what tcgetattr returns
_CHUNK_BYTES = 256
LOOK_S = 1.0
"""Between two looks whether it is in the foreground again."""


class KeyReader:
    """Calls the action of each key that is pressed; use as a context manager, inside a running loop.

    *taken* is called once keys are read for the first time, which may be long after the start in the background.
    Several keys at once are a paste or the sequence of a function key, and are no order to do anything.
    """

    def __init__(
        self, descriptor: int, actions: Mapping[str, Callable[[], object]], taken: Callable[[], object] | None = None
    ) -> None:
        self._descriptor = descriptor
        self._taken = taken
        self._actions = actions
        self._found: list[Any] | None = None
        self._is_reading = False
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None

    @property
    def reads(self) -> bool:
        """Whether keys are read now."""
        return self._is_reading

    def __enter__(self) -> Self:
        self._loop.add_signal_handler(signal.SIGTSTP, self._end_by, signal.SIGTSTP)
        self._loop.add_signal_handler(signal.SIGQUIT, self._end_by, signal.SIGQUIT)
        self._loop.add_signal_handler(signal.SIGCONT, self._begin)
        atexit.register(self._give_back)
        self._look_again()
        return self

    def __exit__(self, *_: object) -> None:
        if self._look is not None:
            self._look.cancel()
        self._give_back()
        atexit.unregister(self._give_back)
        for number in (signal.SIGTSTP, signal.SIGQUIT, signal.SIGCONT):
            self._loop.remove_signal_handler(number)

    def _look_again(self) -> None:
        if not self.reads:
            self._begin()
        self._look = self._loop.call_later(LOOK_S, self._look_again)

    def _begin(self) -> None:
        """Take the terminal, if this process is in its foreground; read no key of it, if it isn't.

        After SIGSTOP, for which it was not given back, its mode is set anew: the shell has set another one meanwhile.
        """
        if not is_foreground(self._descriptor):
            self._loop.remove_reader(self._descriptor)
            self._is_reading = False
            return
        try:
            found = self._found or termios.tcgetattr(self._descriptor)
            wanted = [*found[:_CHARACTERS], list(found[_CHARACTERS])]
            wanted[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
            wanted[_CHARACTERS][termios.VMIN], wanted[_CHARACTERS][termios.VTIME] = 1, 0
            if not self._is_reading:
                termios.tcflush(self._descriptor, termios.TCIFLUSH)  # what was typed before was meant for nobody here
            termios.tcsetattr(self._descriptor, termios.TCSANOW, wanted)
        except termios.error:  # it has gone
            return
        self._found, self._is_reading = found, True
        self._loop.add_reader(self._descriptor, self._read)
        taken, self._taken = self._taken, None
        if taken is not None:
            taken()

    def _give_back(self) -> None:
        """Give the terminal the mode that it had, and read no more.

        In the background its mode is the shell's, and this process would be stopped for setting it.
        """
        if self._found is None:
            return
        found, self._found, self._is_reading = self._found, None, False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        if not is_foreground(self._descriptor):
            return
        try:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, found)
        except termios.error:  # it has gone
            return

    def _end_by(self, number: signal.Signals) -> None:
        """Do what *number* does where nobody handles it, after the terminal was given back."""
        self._give_back()
        self._loop.remove_signal_handler(number)
        os.kill(os.getpid(), number)
        self._loop.add_signal_handler(number, self._end_by, number)  # it goes on: `fg`, `bg`, or nothing stopped it
        self._begin()

    def _read(self) -> None:
        if not is_foreground(self._descriptor):
            self._begin()
            return
        try:
            keys = os.read(self._descriptor, _CHUNK_BYTES)
        except OSError:  # the terminal has gone; a hang-up comes as a signal
            keys = b""
        if not keys:
            self._give_back()
            return
        if len(set(keys)) == 1 and (action := self._actions.get(chr(keys[0]).lower())) is not None:
            action()


def is_foreground(descriptor: int) -> bool:
    """Return whether this process may read the terminal: in the background it would be stopped for trying."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # of another session: nobody is stopped for it
        return os.isatty(descriptor)
