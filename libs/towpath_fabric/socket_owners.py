"""Whose sockets they are, on this machine: by the kernel's tables of TCP sockets, `/proc/net/tcp` and `tcp6`.

Another OS user can listen at any port that is free. What is meant for a process of this user is therefore sent to none
before its owner was looked at. Other systems than Linux have no such tables; callers decide what they do there.
"""

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

NET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"
_LOOPBACK_LISTENERS = frozenset({"0100007F", "00000000", "0" * 32, f"{_MAPPED}0100007F", f"{_MAPPED}00000000"})
"""127.0.0.1 and every address, also as IPv6 writes them."""

Address = tuple[str, int]
"""The address and port of one end of a connection."""


def socket_tables(paths: Sequence[Path] = NET_TABLES) -> list[str]:
    """Return the text of those tables that this system has."""
    texts = []
    for path in paths:
        with contextlib.suppress(OSError):
            texts.append(path.read_text("ascii"))
    return texts


def listener_users(table: str, port: int) -> set[int]:
    """Return the users whose sockets may answer at *port* of 127.0.0.1 by a *table* like `/proc/net/tcp`."""
    rows = (row.split() for row in table.splitlines()[1:])
    listeners = ((*row[1].partition(":"), row[7]) for row in rows if row[3] == LISTENS)
    return {int(user) for address, _, at, user in listeners if address in _LOOPBACK_LISTENERS and int(at, 16) == port}


def connection_owner(table: str, end: Address, other: Address) -> int | None:
    """Return the user of the socket at *end* of the connection with *other*; None where *table* names none.

    A connection that no process has accepted yet, or that its process has closed, belongs to no file (inode 0), and is
    written down as root's.
    """
    ends = {f"{mine} {its}" for mine, its in zip(_as_written(end), _as_written(other), strict=True)}
    for line in table.splitlines()[1:]:
        row = line.split()
        if f"{row[1]} {row[2]}" in ends and row[3] == _ESTABLISHED and row[9] != "0":
            return int(row[7])
    return None


def _as_written(address: Address) -> tuple[str, ...]:
    """Return *address* as the tables have it: words of four bytes in the order of the machine, and the port.

    One of IPv4 is in the table of IPv6 where its process listens there for both.
    """
    host, port = ipaddress.ip_address(address[0].partition("%")[0]), f":{address[1]:04X}"
    words = struct.unpack(f"!{len(host.packed) // 4}I", host.packed)
    text = "".join(f"{socket.ntohl(word):08X}" for word in words)
    return (text + port,) if host.version != 4 else (text + port, _MAPPED + text + port)
