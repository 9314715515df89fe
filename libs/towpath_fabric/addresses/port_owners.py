"""Who listens on a port of this machine: a process, or the platform whose data folder its lock leads to."""

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

from towpath_fabric.socket_owners import LISTENS, socket_tables

PLATFORM_FOLDER = ".towpath"
"""Where `towpath up` keeps its data, unless another folder is named."""

LOCK_FILE = "lock"
STATE_FILE = "state.json"
"""What a platform holds locked in its data folder as long as it lives, and what it says of itself there."""


class PortOwner(NamedTuple):
    """Who listens on a port, as `python (pid 4120)`; of a platform of this user with its data folder."""

    said: str
    data: Path | None = None

    def __str__(self) -> str:
        return self.said


def port_owner(port: int) -> PortOwner | None:
    """Name the process that listens on *port*; None where the system does not show it."""
    inodes = {inode for table in socket_tables() for inode in _listening_inodes(table, port)}
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and _holds(process, inodes):
            return _platform_of(process) or PortOwner(f"{_command_name(process)} (pid {process.name})")
    return PortOwner("a process of another user")


def _listening_inodes(table: str, port: int) -> list[str]:
    columns = (row.split() for row in table.splitlines()[1:])
    return [row[9] for row in columns if row[3] == LISTENS and int(row[1].rsplit(":", 1)[1], 16) == port]


def _holds(process: Path, inodes: set[str]) -> bool:
    return bool({f"socket:[{inode}]" for inode in inodes} & set(_opened_by(process)))


def _opened_by(process: Path) -> list[str]:
    """Return what *process* has open: nothing of one that ended meanwhile, or that belongs to another user."""
    opened = []
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                opened.append(str(descriptor.readlink()))
    return opened


def _platform_of(process: Path) -> PortOwner | None:
    """Return the platform that *process* is, or is a child of, by the lock of its data folder; None for others."""
    try:
        parent = process.with_name((process / "stat").read_text().rpartition(") ")[2].split()[1])
    except (OSError, IndexError):  # it ended meanwhile
        return None
    locks = (Path(name) for place in (process, parent) for name in _opened_by(place) if name.endswith(f"/{LOCK_FILE}"))
    for lock in locks:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # another program's
            state = json.loads((lock.parent / STATE_FILE).read_text("utf-8"))
            if int(process.name) in {state["pid"], *(one["pid"] for one in state["processes"].values())}:
                return PortOwner(f"the Towpath {_where(lock.parent)} (pid {state['pid']})", lock.parent)
    return None


def _where(data: Path) -> str:
    return f"of {data.parent}" if data.name == PLATFORM_FOLDER else f"on {data}"


def _command_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"
