"""Loopback ports: choosing free ones, and refusing those that another process holds.

A chosen port lies below the range the kernel hands to outgoing connections. Otherwise a client that reconnects to
a server that is just down can be given the server's own port, connect to itself and keep the server from coming back.
"""

import itertools
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from towpath_contracts.problems.input_faults import option_fault
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.start_hints import is_free
from towpath_fabric.addresses.port_owners import port_owner

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 15_000
HIGHEST_PORT = 32_000
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


def _highest_port() -> int:
    try:
        lowest_ephemeral = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return HIGHEST_PORT
    return min(HIGHEST_PORT, lowest_ephemeral) if lowest_ephemeral > LOWEST_PORT + 1_000 else HIGHEST_PORT
