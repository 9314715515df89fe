"""The lock of a data folder, and the file with the platform's addresses for other programs.

The lock is reliable, because the kernel drops it when its owner ends. The file may be left over from a platform that
was killed, so it counts only while the lock is held.
"""

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.servers.nats import write_private
from towpath_fabric.clock import wall

LOCK_FILE = "lock"
STATE_FILE = "state.json"
PREDECESSOR_TIMEOUT_S = 15.0  # a role drains for ten seconds at most


@contextlib.contextmanager
def lock_folder(data: Path) -> Iterator[None]:
    """Hold the data folder for this process; raise `already_up`, naming its holder and since when."""
    if not data.exists():
        data.mkdir(parents=True)
        data.chmod(0o711)  # the database's user passes through; what lies in it is closed by itself
    with (data / LOCK_FILE).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProblemError(_already_up(data, (data / LOCK_FILE).read_text())) from None
        lock.seek(0)
        lock.truncate()
        lock.write(json.dumps({"pid": os.getpid(), "started_at": wall().isoformat()}))
        lock.flush()
        yield


def write_state(data: Path, state: dict[str, Any]) -> None:
    """Write down for other programs of this user where the platform answers."""
    write_private(data / STATE_FILE, json.dumps(state, indent=2) + "\n")


def read_state(data: Path) -> dict[str, Any] | None:
    """Return the state of the platform on *data*; None when none runs there."""
    try:
        with (data / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            state: dict[str, Any] = json.loads((data / STATE_FILE).read_text())
            return state
    except OSError:
        return None
    return None


async def wait_for_predecessor(data: Path) -> None:
    """Wait until the processes of a platform that was killed on *data* have ended, as they do by themselves.

    Called with the lock held, so a state file that is still there was left by a killed platform. Its processes hold
    ports and data for a moment. The wait is bounded, because their pids may meanwhile belong to others.
    """
    try:
        left: dict[str, Any] = json.loads((data / STATE_FILE).read_text())
        pids = [int(entry["pid"]) for entry in left["processes"].values() if entry["pid"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PREDECESSOR_TIMEOUT_S):
            while any(_runs(pid) for pid in pids):  # noqa: ASYNC110 - not our children, so their end is not reported
                await asyncio.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def remove_state(data: Path) -> None:
    """Remove the file at the end of a platform."""
    (data / STATE_FILE).unlink(missing_ok=True)


def _already_up(data: Path, text: str) -> Any:
    try:
        holder = json.loads(text)
        since = datetime.fromisoformat(holder["started_at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        owner = f"pid {holder['pid']} since {since}"
    except (ValueError, KeyError, TypeError):
        owner = "a platform that is just starting"
    return problem("already_up", f"{data} is in use by {owner}.")
