"""Named places where a test may end this process, as a power cut would (reliability.md §5, test 1).

Law: without the test-only variable a crash point costs one call and does nothing. With it, it names a folder: a file
there that bears the name of a point kills the next process that passes it, once. The file is gone when the point was
hit, so whoever armed it knows; a number in the file says at which passing.
"""

import os
import signal
from pathlib import Path
from typing import Final

VARIABLE: Final = "TOWPATH_CRASH_POINTS"

_folder: Final = os.environ.get(VARIABLE, "")


def crash_point(name: str) -> None:
    """Kill this process where *name* is armed: `<role>.<place>`, always a literal, so that it can be listed."""
    if _folder:
        _pass(Path(_folder) / name)


def _pass(armed: Path) -> None:
    try:
        left = int(armed.read_text() or "1")
        claimed = armed.with_name(f".{armed.name}.{os.getpid()}")
        armed.rename(claimed)  # of several processes one gets it
    except (FileNotFoundError, ValueError):  # not armed, or just being written
        return
    if left > 1:
        claimed.write_text(str(left - 1))
        claimed.rename(armed)
        return
    claimed.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
