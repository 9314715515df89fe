"""A sandbox holds against a corpus of attempts to get out of it; the same attempts without one reach what they want.

Where this machine has no sandbox to offer, a required one is refused, and nothing runs.
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.places import ROOT, TESTS

from towpath import Sandbox, ToolError, run_process
from towpath.tools import sandbox as sandboxes

ESCAPES = TESTS / "support" / "escapes"
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
LIMITS = Sandbox(max_processes=32, max_memory_bytes=256 << 20, max_file_bytes=8 << 20, max_open_files=64)
BEYOND = {"processes": 40, "memory": 512 << 20, "disk": 16 << 20, "files": 80}
ENDING_S = 1
VICTIM = """
import ctypes, sys
buffer = ctypes.create_string_buffer(b"private", 64)
print(ctypes.addressof(buffer), flush=True)
sys.stdin.read()
"""
ONLY_STOPPED_BY_A_SANDBOX = {
    *("data_folder", "data_folder_listed", "symbolic_link", "parent_folders", "watch_outside"),
    *("environment_of_the_parent", "environment_of_any_process", "commands_of_others", "signal_outside"),
    *("more_processes_than_allowed", "more_memory_than_allowed", "more_disk_than_allowed", "more_files_than_allowed"),
    *("abstract_socket", "unix_socket", "broker", "database", "any_address_of_this_machine", "datagrams_to_outside"),
    *("shared_memory", "message_queue", "setuid_programs", "survive_the_sandbox", "io_uring", "keys_of_the_user"),
}
"""What works without a sandbox wherever these tests run, root or not."""


@contextmanager
def outside(folder: Path) -> Iterator[dict[str, Any]]:
    """Make what the attempts look for, and tell where it is: a sandbox is not to hold because they guess wrong."""
    with ExitStack() as stack:
        data, keys = folder / ".towpath", folder / ".ssh"
        for place in (data, keys):
            place.mkdir()
        for file in (data / "ticket.key", keys / "id_ed25519"):
            file.write_text("secret")
        victim = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", VICTIM, "escape-outside"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"ESCAPE_CANARY": "secret"},
            )
        )
        stack.callback(victim.kill)
        assert victim.stdout is not None
        listening = [stack.enter_context(socket.socket(socket.AF_INET)) for _ in range(2)]
        for one in listening:
            one.bind(("127.0.0.1", 0))
            one.listen()
        abstract, path = f"escape-{os.getpid()}", str(folder / "socket")
        for address in ("\0" + abstract, path):
            local = stack.enter_context(socket.socket(socket.AF_UNIX))
            local.bind(address)
            local.listen()
        yield {
            **BEYOND,
            "data": str(data),
            "home": str(folder),
            "pid": victim.pid,
            "address": int(victim.stdout.readline()),
            "hostname": socket.gethostname(),
            "nats": listening[0].getsockname()[1],
            "postgres": listening[1].getsockname()[1],
            "abstract": abstract,
            "socket": path,
            "datagrams": stack.enter_context(echo()),
            "shm": stack.enter_context(shared()),
            "survivor": f"survivor-{os.getpid()}",
        }


@contextmanager
def echo() -> Iterator[int]:
    """Answer datagrams on a port of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def answer() -> None:
            while (asked := server.recvfrom(1))[0] != b"q":
                server.sendto(*asked)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"q", server.getsockname())
            thread.join()


@contextmanager
def shared() -> Iterator[int]:
    """Make shared memory and a message queue that every user of this machine may open, under one key."""
    libc, key = ctypes.CDLL(None), 0x5EC0_0000 + os.getpid() % 0x10000
    memory, queue = libc.shmget(key, 4096, 0o1666), libc.msgget(key, 0o1666)
    try:
        yield key
    finally:
        libc.shmctl(memory, 0, None)
        libc.msgctl(queue, 0, None)


async def left_behind(token: str) -> list[int]:
    """Return the processes that have *token* in their command once the kernel had time to end them, and end them."""
    until = time.monotonic() + ENDING_S
    while (found := having(token)) and time.monotonic() < until:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    for pid in found:
        os.killpg(pid, signal.SIGKILL)
    return found


def having(token: str) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and token.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


async def tried(facts: dict[str, Any], sandbox: Sandbox, python: str = PYTHON) -> dict[str, tuple[bool, str]]:
    """Return what every attempt came to: whether it reached something, and what."""
    words = (python, "-P", "-m", "tests.support.escapes", json.dumps(facts))
    done = await run_process(*words, env={"PYTHONPATH": str(ROOT)}, sandbox=sandbox, timeout_s=60)
    assert done.returncode == 0, done.stderr.decode()
    found = {name: (bool(reached), str(told)) for name, (reached, told) in json.loads(done.stdout).items()}
    survivors = await left_behind(facts["survivor"])
    return {**found, "survive_the_sandbox": (bool(survivors), f"{len(survivors)} left")}


async def test_nothing_of_the_corpus_gets_out_and_much_of_it_works_without_a_sandbox(tmp_path: Path) -> None:
    required = replace(LIMITS, files=(ESCAPES,))
    if sandboxes.refusal():
        with pytest.raises(ToolError) as refused:
            await run_process(PYTHON, "-c", "", sandbox=required)
        assert refused.value.code == "sandbox_unavailable"
        return
    with outside(tmp_path) as facts:
        inside = await tried(facts, required)
        control = await tried(facts, Sandbox(mode="none"))
        own = await tried(
            facts, required, sys.executable
        )  # perhaps of root alone: the sandbox keeps root's files apart
    unlimited = {"more_processes_than_allowed"} if os.geteuid() == 0 else set()  # as docs/tools.md says
    assert {name: told for name, (reached, told) in own.items() if reached and name not in unlimited} == {}
    table = [f"{name:40} {inside[name][0]!s:6} {control[name][0]!s:6} {inside[name][1]}" for name in inside]
    assert [line for name, line in zip(inside, table, strict=True) if inside[name][0]] == []
    assert len(inside) >= 80
    works = {name for name, (reached, _) in control.items() if reached}
    assert works >= ONLY_STOPPED_BY_A_SANDBOX, sorted(ONLY_STOPPED_BY_A_SANDBOX - works)
