"""What attempts to get out of a sandbox share: their list, what there is outside, and system calls by number."""

import contextlib
import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
libc = ctypes.CDLL(None, use_errno=True)
ATTEMPTS: dict[str, Callable[[], str]] = {}


def attempt(function: Callable[[], str]) -> Callable[[], str]:
    ATTEMPTS[function.__name__] = function
    return function


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(number_x86: int, number_arm: int, *arguments: Any) -> int:
    number = number_arm if os.uname().machine == "aarch64" else number_x86
    return checked(libc.syscall(number, *arguments))


def connected(family: int, address: Any) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(address)
    return f"connected to {address!r}"


def some(found: object) -> str:
    if not found:
        raise PermissionError("nothing is found")
    return str(found)


def read(path: str) -> str:
    return f"{len(Path(path).read_bytes())} bytes"


def written(path: str) -> str:
    """Change nothing: opening for writing is enough."""
    os.close(os.open(path, os.O_WRONLY))
    return f"{path} can be written"


def outside_is_seen() -> bool:
    with contextlib.suppress(OSError):
        return b"escape-outside" in Path(f"/proc/{FACTS['pid']}/cmdline").read_bytes()
    return False
