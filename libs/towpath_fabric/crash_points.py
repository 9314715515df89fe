"""Named places where a test may kill this process, as a power cut would.

Without the environment variable, which only tests set, a crash point does nothing. The variable names a folder. A file
in it with the name of a point arms that point: the next process that reaches it is killed, once. A number in the file
names at which passing. The file disappears when the process is killed, and a line is added to `.hits`.
"""

import asyncio
import functools
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

VARIABLE: Final = "TOWPATH_CRASH_POINTS"

HITS: Final = ".hits"
"""The file in that folder that gets a line `name pid` right before every kill."""

FLUSH_S: Final = 2.0
"""How long a flush may take before the kill; the broker is unreachable where it takes longer."""

Flush = Callable[[], Awaitable[object]]

_flushes: list[Flush] = []


def crash_point(name: str) -> None:
    """Kill this process where *name* is armed: `<role>.<place>`, always a literal, so that it can be listed."""
    if (folder := _folder()) and (claimed := _reached(Path(folder) / name)) is not None:
        _end(claimed, name)


async def crash_point_after_flush(name: str) -> None:
    """Kill this process as `crash_point` does, once the broker has all that was sent: nats-py buffers what it sends.

    Every connection that was given to `flush_before_crash` is flushed before the kill.
    """
    if (folder := _folder()) and (claimed := _reached(Path(folder) / name)) is not None:
        for flush in _flushes:
            try:
                await asyncio.wait_for(flush(), FLUSH_S)
            except Exception:  # noqa: BLE001, S112 - the process ends here, whether the flush worked or not
                continue
        _end(claimed, name)


def flush_before_crash(flush: Flush) -> None:
    """Have `crash_point_after_flush` call *flush* before it kills; nothing is kept where no point can be armed."""
    if _folder():
        _flushes.append(flush)


@functools.cache
def _folder() -> str:
    """The folder of this process; read at first use, because a forked process gets its environment after the import."""
    return os.environ.get(VARIABLE, "")


def _reached(armed: Path) -> Path | None:
    """Count a passing of the point; return the claimed file where it is the one that kills."""
    try:
        left = int(armed.read_text() or "1")
        claimed = armed.with_name(f".{armed.name}.{os.getpid()}")
        armed.rename(claimed)  # of several processes one gets it
    except (FileNotFoundError, ValueError):  # not armed, or just being written
        return None
    if left > 1:
        claimed.write_text(str(left - 1))
        claimed.rename(armed)
        return None
    return claimed


def _end(claimed: Path, name: str) -> None:
    with (claimed.parent / HITS).open("a") as hits:
        hits.write(f"{name} {os.getpid()}\n")
    claimed.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
