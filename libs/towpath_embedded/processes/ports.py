"""Loopback ports: choosing free ones, and naming the process that holds a busy one.

A chosen port lies below the range the kernel hands to outgoing connections. Otherwise a client that reconnects to
a server that is just down can be given the server's own port, connect to itself and keep the server from coming back.
"""

import contextlib
import itertools
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from towpath_contracts.problems.input_faults import option_fault
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.platform_state import LOCK_FILE, STATE_FILE
from towpath_embedded.start_hints import is_free
from towpath_fabric.socket_owners import LISTENS, socket_tables

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 15_000
HIGHEST_PORT = 32_000
DATA_FOLDER = ".towpath"  # where `towpath up` keeps its data, unless another folder is named
BACKLOG = 2_048  # as uvicorn has it
ATTEMPTS = 200  # a machine with this many misses in a row has no free port worth looking for

_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_STRIDE = 10_507


def first_choice(process: int) -> int:
    """Return where the process of this id begins to count its choices.

    Platforms that start side by side must not choose the same ports: between a choice and the child that listens there
    lie seconds. The stride is the golden section of the range, so that the places of processes with near ids lie far
    apart, and none comes to where another is though it chooses hundreds.
    """
    return process * _STRIDE % (HIGHEST_PORT - LOWEST_PORT)


_choices = itertools.count(first_choice(os.getpid()))


def free_port() -> int:
    """Choose a free loopback port; raise `port_busy` when none is found."""
    highest = _highest_port()
    for _ in range(ATTEMPTS):
        port = LOWEST_PORT + next(_choices) % (highest - LOWEST_PORT)
        if is_free(port):
            return port
    raise ProblemError(problem("port_busy", f"No free port was found between {LOWEST_PORT} and {highest}."))


def require_free(ports: Mapping[str, int]) -> None:
    """Raise `port_busy` naming each of *ports* that is taken, with its owner; keys are the options that choose others.

    Two options that name the same port are refused too: whichever server came second would find it taken.
    """
    owners = {option: port_owner(port) for option, port in ports.items() if not is_free(port)}
    used = {
        option: f"Port {ports[option]} is used{f' by {owner}' if owner else ''}." for option, owner in owners.items()
    }
    for option, port in ports.items():
        if option not in used and list(ports.values()).count(port) > 1:
            used[option] = f"Port {port} is chosen by {' and '.join(name for name in ports if ports[name] == port)}."
    if not used:
        return
    others = " ".join(f"{option} auto" for option in used)
    downs = dict.fromkeys(f"towpath down --data {quote(str(one.data))}" for one in owners.values() if one and one.data)
    stop = f"it: {', '.join(downs)}" if downs and all(one and one.data for one in owners.values()) else "its owner"
    stop = "their owners" if stop == "its owner" and len(used) > 1 else stop
    raise ProblemError(
        problem(
            "port_busy",
            " ".join(dict.fromkeys(used.values())),
            remedy=f"Stop {stop}, or start this one with {others}.",
            errors=tuple(option_fault(option, detail) for option, detail in used.items()),
        )
    )


def listen(port: int) -> socket.socket:
    """Listen on the loopback *port*; raise `port_busy` when it is taken. Connections wait until somebody takes them."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as error:
        raise ProblemError(problem("port_busy", f"Port {port} can't be listened on: {error}")) from error


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


def _highest_port() -> int:
    try:
        lowest_ephemeral = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return HIGHEST_PORT
    return min(HIGHEST_PORT, lowest_ephemeral) if lowest_ephemeral > LOWEST_PORT + 1_000 else HIGHEST_PORT


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
    return f"of {data.parent}" if data.name == DATA_FOLDER else f"on {data}"


def _command_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"
