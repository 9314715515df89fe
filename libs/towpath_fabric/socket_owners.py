"""Whose sockets they are, on this machine: by the kernel's tables of TCP sockets, `/proc/net/tcp` and `tcp6`.

Another OS user can listen at any port that is free. What is meant for a process of this user is therefore sent to none
before its owner was looked at. Of one connection the kernel is asked over netlink (sock_diag) first: reading a table
takes it some ten milliseconds, however few connections there are. Other systems than Linux have neither; callers
decide what they do there.
"""

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

NET_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
IPV4_BYTES = 4
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"
_LOOPBACK_LISTENERS = frozenset({"0100007F", "00000000", "0" * 32, f"{_MAPPED}0100007F", f"{_MAPPED}00000000"})
"""127.0.0.1 and every address, also as IPv6 writes them."""

_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBBI 4s16s16sI8s")
_ANSWER = struct.Struct("=BBBB 48x 12x II")
_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
"""NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST."""
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
ANSWER_S = 1.0  # the kernel answers at once
LOOKS = 3  # a row of a table can be missed while others come and go

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


def connection_user(end: Address, other: Address) -> int | None:
    """Return the user of the socket at *end* of the connection with *other*, as the kernel says; None if it says none.

    Takes tens of milliseconds where the kernel can't be asked.
    """
    with contextlib.suppress(OSError):
        found = answered_user(_ask(end, other))
        if found is not None or answered_user(_ask(other, end)) is not None:  # it knows the caller's own end: it can
            return found
    for _ in range(LOOKS):
        owners = [connection_owner(table, end, other) for table in socket_tables()]
        if any(owner is not None for owner in owners):
            return next(owner for owner in owners if owner is not None)
    return None


def _ask(end: Address, other: Address) -> bytes:
    """Ask for the socket at *end* of the connection with *other*; return the answer. Raises OSError."""
    ours, its = (ipaddress.ip_address(address[0].partition("%")[0]).packed for address in (end, other))
    family = socket.AF_INET if len(ours) == len(its) == IPV4_BYTES else socket.AF_INET6
    ports, looked_for = struct.pack("!HH", end[1], other[1]), (ours.ljust(16, b"\0"), its.ljust(16, b"\0"))
    body = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE, ports, *looked_for, 0, _NO_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAG) as kernel:
        kernel.settimeout(ANSWER_S)
        kernel.sendto(header + body, (0, 0))
        return kernel.recv(8192)


def answered_user(answer: bytes) -> int | None:
    """Return the user in an *answer* of sock_diag; None for a refusal, and for a socket that no process holds.

    Where there is no such connection, the kernel tells of who listens at that place.
    """
    if len(answer) < _HEADER.size + _ANSWER.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    _, state, _, _, user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return int(user) if state == int(_ESTABLISHED, 16) and inode else None


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
    return (text + port,) if len(host.packed) != IPV4_BYTES else (text + port, _MAPPED + text + port)
