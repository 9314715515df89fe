"""`python -P server.py DESCRIPTOR MODULE…`: imports modules, and forks whenever a process asks for it."""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from typing import Any

FILES = 3


def main(descriptor: int, modules: list[str]) -> None:
    """Serve until standard input is closed; a fork runs its module."""
    listener = socket.socket(fileno=descriptor)
    for module in modules:
        importlib.import_module(f"{module}.__main__")
        del sys.modules[f"{module}.__main__"]  # it runs as `__main__` in a fork: what it imports was wanted
        del vars(sys.modules[module])["__main__"]
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in (readable := select.select([listener, 0], [], [])[0]) and 0 not in readable:
        asking, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(asking)
            return
        asking.close()


def _keep(asking: socket.socket) -> None:
    """Fork what is asked for and tell how it ends; it ends with whoever asks. Returns in the fork, at its end."""
    _, files, _, _ = socket.recv_fds(asking, 1, FILES)
    lines = asking.makefile("rb")
    order = json.loads(lines.readline())
    forked = os.fork()
    if forked == 0:
        lines.close()
        asking.close()
        _run(order, files)
        return
    for file in files:
        os.close(file)
    asking.sendall(f"{forked}\n".encode())
    end = os.pidfd_open(forked)
    if end not in select.select([end, asking], [], [])[0]:
        os.kill(forked, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])
    try:
        asking.sendall(f"{status}\n".encode())
    finally:
        os._exit(0)


def _run(order: dict[str, Any], files: list[int]) -> None:
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    option, *words = order["words"]
    if option == "-P":
        option, *words = words
    else:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does it
    assert option == "-m", order["words"]
    importlib.invalidate_caches()
    sys.argv[1:] = words[1:]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
