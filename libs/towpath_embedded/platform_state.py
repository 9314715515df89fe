"""The lock of a data folder, and the file with the platform's addresses for other programs.

The lock is reliable, because the kernel drops it when its owner ends. The file may be left over from a platform that
was killed, so it counts only while the lock is held.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pwd
import shlex
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.local_access import SESSION_FILE, SIGN_IN_FILE, TOKEN_FILE
from towpath_embedded.start_hints import is_free, is_port
from towpath_fabric.addresses.port_owners import LOCK_FILE, STATE_FILE
from towpath_fabric.clock import wall
from towpath_fabric.file_owners import fault_above, fault_of_status, write_private

PORTS_FILE = "ports.json"
BROKER_FOLDER = "nats"
DATABASE_FOLDER = "postgres"
CLOSED_FILES = frozenset({TOKEN_FILE, SIGN_IN_FILE, SESSION_FILE, "ticket.key", "seal.key"})
_MOST_FAULTS = 10
"""As many are listed: a database has a thousand files."""

PREDECESSOR_TIMEOUT_S = 15.0  # a role drains for ten seconds at most


@contextlib.contextmanager
def lock_folder(data: Path) -> Iterator[None]:
    """Hold the data folder for this process; raise `already_up`, naming its holder and since when.

    Raises `data_folder_shared` where another user made it, or may write it or a folder above it.
    """
    _refuse_shared_way(data, os.geteuid())
    if not data.exists() and not data.is_symlink():
        data.mkdir(parents=True)
        data.chmod(0o711)  # the database's user passes through; what lies in it is closed by itself
    refuse_shared_folder(data, os.geteuid())
    with _opened(data / LOCK_FILE) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProblemError(_already_up(data, (data / LOCK_FILE).read_text())) from None
        lock.seek(0)
        lock.truncate()
        lock.write(json.dumps({"pid": os.getpid(), "started_at": wall().isoformat()}))
        lock.flush()
        yield


def refuse_shared_folder(data: Path, user: int) -> None:
    """Raise `data_folder_shared` unless *data*, what lies in it and the way to it is *user*'s alone.

    Who planted the folder, or a token, a key or a link in it, would know what is kept there, and choose where it goes.
    """
    _refuse_shared_way(data, user)
    inside = _entries(data)
    own = [path for path in inside if path.name != DATABASE_FOLDER or user != 0]  # the database does not run as root
    foreign = [path for path in (data, *own) if _owner(path) not in {user, None}]
    if not foreign and data.exists() and data.stat().st_uid != user:  # one's own link to somebody else's folder
        foreign = [data]
    closed = (data, *(path for path in inside if path.name in CLOSED_FILES))
    faults = [f"{path} belongs to another user" for path in foreign]
    faults += [f"{path} can be written by other users" for path in closed if _others_may_write(path)]
    for name, trusted in ((BROKER_FOLDER, {user}), (DATABASE_FOLDER, _database_users(user))):
        faults += [f"{path} {fault}" for path, fault in _faults_below(data / name, trusted) if path not in foreign]
    if faults:
        faults[_MOST_FAULTS:] = [f"{len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
        closing = f"chown, chmod go-w {shlex.quote(str(data))}"
        remedy = f"Look who made it; remove it, name another (--data FOLDER), or make it yours: {closing}."
        raise ProblemError(problem("data_folder_shared", "; ".join(faults), remedy=remedy))


def _refuse_shared_way(data: Path, user: int) -> None:
    """Raise `data_folder_shared` where others may rename a folder above *data*, and put another in its place."""
    fault = fault_above(data, {user})
    if fault is not None:
        detail = f"{fault}, so they can put another folder in the place of {data}"
        remedy = "Name a folder below your home folder (--data ~/.towpath; TMPDIR with --ephemeral), or close that one."
        raise ProblemError(problem("data_folder_shared", detail, remedy=remedy))


def _database_users(user: int) -> set[int]:
    with contextlib.suppress(KeyError):
        return {user, pwd.getpwnam("nobody").pw_uid} if user == 0 else {user}
    return {user}


def _faults_below(folder: Path, trusted: Collection[int]) -> Iterator[tuple[Path, str]]:
    """Yield *folder* and what lies in it, at any depth, that others than *trusted* own or may write; follows no link.

    What disappears meanwhile is passed over: a platform may run there.
    """
    with contextlib.suppress(FileNotFoundError, PermissionError):
        fault = fault_of_status(folder.lstat(), trusted)
        if fault is not None:
            yield folder, fault
            return
        if not folder.is_symlink():
            with os.scandir(folder) as entries:
                inside = list(entries)
            for entry in inside:
                if entry.is_dir(follow_symlinks=False):
                    yield from _faults_below(Path(entry.path), trusted)
                else:
                    yield from _fault_of_entry(entry, trusted)


def _fault_of_entry(entry: "os.DirEntry[str]", trusted: Collection[int]) -> Iterator[tuple[Path, str]]:
    with contextlib.suppress(FileNotFoundError):
        fault = fault_of_status(entry.stat(follow_symlinks=False), trusted)
        if fault is not None:
            yield Path(entry.path), fault


def make_folders(data: Path) -> None:
    """Make the folders below *data* that a platform writes into, closed to others, and close those that are there.

    As root the user of the database passes through its folder, where its own ones are closed.
    """
    for name, mode in (("logs", 0o700), (BROKER_FOLDER, 0o700), (DATABASE_FOLDER, 0o711)):
        (data / name).mkdir(mode=mode, exist_ok=True)
        (data / name).chmod(mode)


def _owner(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, PermissionError):  # a platform that runs there has just replaced it
        return path.lstat().st_uid
    return None


def _entries(folder: Path) -> list[Path]:
    with contextlib.suppress(
        FileNotFoundError, NotADirectoryError, PermissionError
    ):  # one that is closed to us is named
        return sorted(folder.iterdir())
    return []


def _others_may_write(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        return bool(path.stat().st_mode & 0o022)
    return False


def _opened(lock: Path) -> TextIO:
    """Open the lock for this user alone: whoever else can open it, to read it only, can hold it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "r+")


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


def keep_ports(data: Path, ports: Mapping[str, int]) -> None:
    """Keep which *ports* were chosen for a platform on *data*, so that links to it are right after its next start."""
    write_private(data / PORTS_FILE, json.dumps({**_kept_ports(data), **ports}) + "\n")


def last_ports(data: Path, *, but: Collection[int | None] = ()) -> dict[str, int]:
    """Return which ports were chosen for the last platform on *data*: those that are free now, and none of *but*."""
    return {name: port for name, port in _kept_ports(data).items() if port not in but and is_free(port)}


def _kept_ports(data: Path) -> dict[str, int]:
    try:
        kept = json.loads((data / PORTS_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    named = kept.items() if isinstance(kept, dict) else ()
    return {name: port for name, port in named if type(port) is int and port > 0 and is_port(str(port))}


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


def data_option(data: Path) -> str:
    """Return how a command is told the folder *data*; nothing for the one that it takes by itself."""
    return "" if data.absolute() == Path(".towpath").absolute() else f" --data {shlex.quote(str(data))}"


def _already_up(data: Path, text: str) -> Any:
    try:
        holder = json.loads(text)
        since = datetime.fromisoformat(holder["started_at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        owner = f"pid {holder['pid']} since {since}"
    except (ValueError, KeyError, TypeError):
        owner = "a platform that is just starting"
    where = data_option(data)
    remedy = (
        f"Use it, see what happens there: towpath up --attach{where}, "
        f"or stop it first: towpath down{where}, or Ctrl-C in its terminal."
    )
    return problem("already_up", f"{data} is in use by {owner}.", remedy=remedy)
