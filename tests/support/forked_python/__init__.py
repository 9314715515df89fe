"""A stand-in for `sys.executable`: what it runs with `-m` is forked from a process that has imported it.

For tests of commands that start an interpreter and wait for it, where its start is not what is tested: imports are
most of a start, and are paid once. The command has a process as its child (`hand_over.py`) that passes signals on and
ends as the fork does; the fork has the files, folder and environment of that process, in a session of its own, and
another parent.
"""

import contextlib
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from towpath_embedded.servers.postgres_identity import temporary_folder

HAND_OVER, SERVER = (Path(__file__).with_name(name) for name in ("hand_over.py", "server.py"))
"""Both run as files: what a fork imports as `tests` is its own."""

MOST_WAITING = 16


@contextlib.contextmanager
def forked_python(*modules: str) -> Iterator[str]:
    """Give the path of the stand-in until the block ends; what it is given beside *modules* is imported by the fork."""
    with temporary_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        place = folder / "starts"
        listener.bind(str(place))
        listener.listen(MOST_WAITING)
        program = folder / "python"
        words = (sys.executable, "-I", "-S", HAND_OVER, place)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n', "utf-8")
        program.chmod(0o700)
        server = subprocess.Popen(
            [sys.executable, "-P", SERVER, str(listener.fileno()), *modules],
            stdin=subprocess.PIPE,  # it ends when this side is closed, by whatever end of this process
            pass_fds=[listener.fileno()],
        )
        listener.close()  # where the server has ended nobody waits for it
        try:
            yield str(program)
        finally:
            server.send_signal(signal.SIGKILL)  # what it has forked goes on
            server.wait()
            assert server.stdin is not None
            server.stdin.close()
