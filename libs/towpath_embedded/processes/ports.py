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

from towpath_contracts.problems.input_faults import option_fault
from towpath_contracts.problems.registry import ProblemError, problem
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
    used = {option: f"Port {port} is used{_by(port)}." for option, port in ports.items() if not is_free(port)}
    for option, port in ports.items():
        if option not in used and list(ports.values()).count(port) > 1:
            used[option] = f"Port {port} is chosen by {' and '.join(name for name in ports if ports[name] == port)}."
    if not used:
        return
    others = " ".join(f"{option} auto" for option in used)
    owner, another = ("its owner", "another") if len(used) == 1 else ("their owners", "others")
    raise ProblemError(
        problem(
            "port_busy",
            " ".join(dict.fromkeys(used.values())),
            remedy=f"Stop {owner}, or choose {another}: towpath up {others}",
            errors=tuple(option_fault(option, detail) for option, detail in used.items()),
        )
    )


def _by(port: int) -> str:
    owner = port_owner(port)
    return f" by {owner}" if owner else ""


def listen(port: int) -> socket.socket:
    """Listen on the loopback *port*; raise `port_busy` when it is taken. Connections wait until somebody takes them."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as error:
        raise ProblemError(problem("port_busy", f"Port {port} can't be listened on: {error}")) from error


def port_owner(port: int) -> str | None:
    """Name the process that listens on *port*, as `python (pid 4120)`; None where the system does not show it."""
    inodes = {inode for table in socket_tables() for inode in _listening_inodes(table, port)}
    if not inodes:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and _holds(process, inodes):
            folder = _project_of(process)
            what = _command_name(process) if folder is None else f"the Towpath of {folder}"
            return f"{what} (pid {process.name})"
    return "a process of another user"


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
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        return any(str(descriptor.readlink()) in wanted for descriptor in (process / "fd").iterdir())
    except OSError:  # it ended meanwhile, or belongs to another user
        return False


def _project_of(process: Path) -> Path | None:
    """Return the folder of the `towpath up` that *process* is, or is a child of; None for other programs."""
    with contextlib.suppress(OSError, IndexError):  # it ended meanwhile
        parent = process.with_name((process / "stat").read_text().rpartition(") ")[2].split()[1])
        for place in (process, parent):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # another program
                folder = (place / "cwd").readlink()
                state = json.loads((folder / DATA_FOLDER / "state.json").read_text("utf-8"))
                if int(process.name) in {state["pid"], *(one["pid"] for one in state["processes"].values())}:
                    return folder
    return None


def _command_name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"
