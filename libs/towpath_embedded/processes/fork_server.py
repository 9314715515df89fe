"""`python -P -m towpath_embedded.processes.fork_server FD MODULE…`: imports modules once, forks them for a start.

The server has no thread, no event loop and no connection, because a fork would break them. It learns no secret: a
process reads its environment itself, from a socket of its own, so no secret of one role is ever in the memory of
another. Used by `towpath_embedded.processes.fork_client` alone.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from towpath_fabric.process_protection import protect_process

if TYPE_CHECKING:
    from pydantic import BaseModel

MOST_DESCRIPTORS: Final = 4
"""What comes with a request: the socket with the order, the log, the directory, and perhaps a socket that listens."""

LISTENER: Final = "TOWPATH_LISTENER_DESCRIPTOR"
"""The variable that names the socket which a process is to answer at, where it was given one."""

READY: Final = b"r"
START: Final = b"s"
GO: Final = b"g"
PATH_VARIABLE: Final = "PYTHONPATH"

_ADOPTION_POLL_S = 0.000_2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_NOT_STARTED = 125
_exit_statuses: list[int] = []
"""How the module of a forked process ended, once it has."""

_SMALLEST_BLOCK = 32  # of the allocator of CPython: a float; nothing smaller is common
_LARGEST_BLOCK = 512
_BLOCK_STEP = 16
_POOL_BYTES = 16 * 1024
_POOL_HEADER_BLOCKS = 4
_MOST_POOLS = 500  # enough for any preloaded heap, and an end on an interpreter that allocates in another way
_BYTES_OVERHEAD = sys.getsizeof(b"")
_occupied: list[list[object]] = []

# Services import these only where they are needed, which is nearly always.
_ALSO = (
    *(
        "towpath_fabric.postgres.pool",
        "towpath.tools.builtin",
        "uvloop",
        "uvicorn.lifespan.on",
        "uvicorn.protocols.http.h11_impl",
    ),
    *(
        "anyio._backends._asyncio",
        "encodings.idna",
        "uvicorn.loops.uvloop",
        "jsonschema_rs",
    ),
)


def path_entries(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of PYTHONPATH. A forked process may have more of them than the server, after the server's."""
    return [entry for entry in environment.get(PATH_VARIABLE, "").split(os.pathsep) if entry]


def with_absolute_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Return *environment* without the entries of PYTHONPATH that mean the working folder: "", "." and the like.

    Whoever can write into that folder would be imported by a service.
    """
    entries = [entry for entry in path_entries(environment) if entry.startswith(os.sep)]
    others = {name: value for name, value in environment.items() if name != PATH_VARIABLE}
    return {**others, PATH_VARIABLE: os.pathsep.join(entries)} if entries else others


def main(words: list[str]) -> None:
    """Import, report readiness, and fork until the other end closes; a forked process runs the module of its order."""
    protect_process()  # and so every process that is forked from this one
    atexit.register(_end_without_finalising)  # before any other, and so called after all others
    requests = socket.socket(fileno=int(words[0]))
    parent = os.getppid()
    _preload(words[1:])
    try:
        requests.sendall(READY)
        mine = _fork_until_closed(requests)
    except ConnectionError:  # the platform has ended, perhaps before it read that this is ready, and wants nothing more
        return
    if mine is not None:
        _run_module(parent, *mine)


def _preload(modules: list[str]) -> None:
    # Not at the head: who starts the server imports this module too, and the server is to begin before anything else.
    from towpath_contracts.base import ClientMessage, ClientMessagePart, Message, MessagePart
    from towpath_contracts.events.log import event_adapter
    from towpath_contracts.facts import fact_adapter
    from towpath_contracts.problems.cel_library import cel_library

    for module in modules:
        importlib.import_module(f"{module}.__main__")
        # It runs as `__main__` in the forked process; here only what it imports was wanted.
        del sys.modules[f"{module}.__main__"]
        del vars(sys.modules[module])["__main__"]
    for module in _ALSO:
        importlib.import_module(module)
    cel_library()
    for base in (MessagePart, ClientMessagePart, Message, ClientMessage):  # values first: messages hold them
        _build(base)
    for adapter in (event_adapter, fact_adapter):
        adapter.rebuild()
    importlib.invalidate_caches()  # forked processes do so, and would free them on pages that are shared
    gc.collect()
    occupy_free_blocks()
    gc.freeze()  # collections in forked processes leave these pages alone, so they stay shared


def occupy_free_blocks() -> None:
    """Occupy the free blocks beside living objects: what a forked process makes goes to new pages, and copies none.

    A pool, of 16 KiB, has blocks of one size. When a whole pool was filled in order, the older ones had no free block.
    """
    for size in range(_SMALLEST_BLOCK, _LARGEST_BLOCK + 1, _BLOCK_STEP):
        count = _POOL_BYTES // size
        for _ in range(_MOST_POOLS):
            blocks = [_block(size, number) for number in range(2 * count)]
            _occupied.append(blocks)
            places = [id(block) for block in blocks]
            if _longest_run(places, size) >= count - _POOL_HEADER_BLOCKS:
                break


def _block(size: int, number: int) -> object:
    """Return an object for which Python allocates *size* bytes."""
    return number + 0.5 if size == _SMALLEST_BLOCK else bytes(size - _BYTES_OVERHEAD)


def _longest_run(places: list[int], step: int) -> int:
    longest = run = 0
    for before, place in itertools.pairwise(places):
        run = run + 1 if place - before == step else 0
        longest = max(longest, run)
    return longest


def _build(message: "type[BaseModel]") -> None:
    """Build *message* and all derived from it, which every forked process would build for itself otherwise."""
    message.model_rebuild()
    for derived in message.__subclasses__():
        _build(derived)


def _fork_until_closed(requests: socket.socket) -> list[int] | None:
    """Serve; return None at the end, and in a forked process its descriptors.

    A process is forked twice: the one between ends at once, so the kernel gives the new process to the platform, which
    has asked for that. It is the platform's own child: its pid, its exit status and its end need no messenger.
    """
    while True:
        request, passed, _, _ = socket.recv_fds(requests, len(START), MOST_DESCRIPTORS)
        if not request:
            return None
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            requests.close()
            _await_adoption(between)
            return passed
        for descriptor in passed:
            os.close(descriptor)
        os.waitpid(between, 0)


def _await_adoption(between: int) -> None:
    while os.getppid() == between:
        time.sleep(_ADOPTION_POLL_S)


def _run_module(parent: int, order: int, log: int, directory: int, listener: int | None = None) -> None:
    """Give this forked process the session, log, directory and environment of its order, and run the module."""
    os.setsid()
    wanted = _receive_order(order, parent)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.fchdir(directory)
    os.umask(wanted["umask"])
    for descriptor in (log, directory):
        os.close(descriptor)
    known = path_entries(os.environ)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    if listener is not None:
        os.environ[LISTENER] = str(listener)
    sys.path[len(known) : len(known)] = path_entries(os.environ)[len(known) :]
    if not wanted["safe_path"]:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` without -P does it
    time.tzset()
    importlib.invalidate_caches()  # the directory may hold what was written after the server's start
    sys.argv[1:] = wanted["words"]
    try:
        runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):  # a text is printed by the interpreter
            _exit_statuses.append(end.code or 0)
        raise
    _exit_statuses.append(0)


def _end_without_finalising() -> None:
    """End a forked process here: to take its modules apart, it would copy every page that it shares with the server.

    Its threads have ended, and its own callbacks were called. Does nothing in the server, and after an exception.
    """
    if _exit_statuses:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it any more
                stream.flush()
        os._exit(_exit_statuses[0])


def _receive_order(order: int, parent: int) -> dict[str, Any]:
    """Read the order and answer with the pid; go on only when the platform has received it."""
    with socket.socket(fileno=order) as platform:
        with platform.makefile("rb") as lines:
            line = lines.readline()
        if not line.endswith(b"\n"):
            _give_up()
        wanted: dict[str, Any] = json.loads(line)
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, wanted["death_signal"])
        libc.prctl(_PR_SET_NAME, wanted["module"].encode()[:15])
        if os.getppid() != parent:  # it ended before the signal was asked for
            _give_up()
        platform.sendall(f"{os.getpid()}\n".encode())
        if platform.recv(len(GO)) != GO:
            _give_up()
    return wanted


def _give_up() -> NoReturn:
    os._exit(_NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
