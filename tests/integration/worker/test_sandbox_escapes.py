"""A sandbox holds against a corpus of attempts to get out of it; the same attempts without one reach what they want.

Where this machine has no sandbox to offer, a required one is refused, and nothing runs.
"""

import asyncio
import ctypes
import json
import os
import select
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
from tests.support.running_programs import programs_with
from tests.support.worker.egress_servers import egress_servers, name_places, platform_at

from towpath import Sandbox, ToolError, run_process
from towpath.tools import sandbox as sandboxes
from towpath.tools.egress_rules import EgressLimits

ESCAPES = TESTS / "support" / "escapes"
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
LIMITS = Sandbox(max_processes=32, max_memory_bytes=256 << 20, max_file_bytes=8 << 20, max_open_files=64)
EGRESS = EgressLimits(max_connections=8, max_bytes=16 << 20, start_s=1, idle_s=1, max_s=20)
BEYOND = {
    "processes": 40,
    "memory": 512 << 20,
    "disk": 16 << 20,
    "files": 80,
    "connections": 12,
    "bytes": 16 << 20,
    "slow_s": 2,
    "slow_bytes": 20,
}
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
    *("another_port_of_the_granted_host", "another_host_at_the_granted_port", "broker_that_was_granted"),
    *("gateway_that_was_granted", "database_by_a_name_of_the_loopback", "database_by_a_number"),
    *("database_inside_an_ipv6_address", "host_header_of_another_place", "two_host_headers", "unix_sockets_of_others"),
    *("second_request_behind_the_first", "more_connections_than_allowed", "more_bytes_than_allowed"),
    *("reading_slower_than_allowed", "asking_slower_than_allowed", "holding_a_silent_tunnel"),
    *("shared_memory", "message_queue", "setuid_programs", "survive_the_sandbox", "io_uring", "keys_of_the_user"),
}
"""What works without a sandbox wherever these tests run, root or not."""

OF_A_GRANTED_FOLDER = {
    *("descriptor_over_a_socket_in_a_granted_folder", "descriptor_over_an_abstract_socket"),
    *("descriptor_over_a_pair_of_datagrams", "set_user_id_by_chmod", "set_user_id_by_fchmod"),
    *("set_user_id_of_a_new_file", "set_user_id_of_a_node", "set_group_id_of_a_folder"),
}
"""What works without a sandbox too, and is worth trying only where a folder may be changed."""

REFUSED_BY_THE_PROXY = {
    **dict.fromkeys(
        (
            *("another_port_of_the_granted_host", "another_host_at_the_granted_port", "broker_that_was_granted"),
            *("gateway_that_was_granted", "database_by_a_name_of_the_loopback", "database_by_a_number"),
            *("database_inside_an_ipv6_address", "metadata_by_name", "metadata_by_address", "metadata_by_a_number"),
            *("metadata_inside_an_ipv6_address", "proxy_to_itself"),
        ),
        "HTTP/1.1 403 Forbidden",
    ),
    **dict.fromkeys(
        ("user_name_before_another_host", "user_name_before_the_granted_host", "host_header_of_a_tunnel"),
        "HTTP/1.1 400 Bad Request",
    ),
    "name_that_moves_after_the_check": "b'granted'",
    "line_break_in_the_place": "the second one is data for the first",
}
"""What the proxy says to attempts that get as far as to it; others it cuts off."""


def egress(facts: dict[str, Any]) -> Sandbox:
    """Return a sandbox that is granted one server, and by mistake far more than its operator would let out."""
    at_postgres = ("localhost", "[::ffff:127.0.0.1]", "2130706433")
    return replace(
        LIMITS,
        files=(ESCAPES,),
        egress=(
            *(f"127.0.0.1:{facts[name]}" for name in ("granted", "nats", "gateway")),
            *(f"{host}:{facts['postgres']}" for host in at_postgres),
            *("*:80", f"rebound.test:{facts['rebound']}"),
        ),
        egress_limits=EGRESS,
    )


@contextmanager
def outside(folder: Path) -> Iterator[dict[str, Any]]:
    """Make what the attempts look for, and tell where it is: a sandbox is not to hold because they guess wrong."""
    with ExitStack() as stack:
        data, keys = folder / ".towpath", folder / ".ssh"
        for place in (data, keys, folder / "shared"):
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
            "shared": str(folder / "shared"),
            "gives": stack.enter_context(giver(folder)),
            "socket": path,
            "datagrams": stack.enter_context(echo()),
            "shm": stack.enter_context(shared()),
            "survivor": f"survivor-{os.getpid()}",
        }


@contextmanager
def giver(folder: Path) -> Iterator[str]:
    """Hand *folder* to whoever asks, over sockets in a folder that may be granted and one with a name of no folder."""
    name, ends = f"gives-{os.getpid()}", threading.Event()
    with ExitStack() as stack:
        opened = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, opened)
        streams = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for server, address in zip(streams, (str(folder / "shared" / "gives"), "\0" + name), strict=True):
            server.bind(address)
            server.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(folder / "shared" / "gives-datagrams"))

        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, opened.to_bytes(4, sys.byteorder))]

        def give() -> None:
            while not ends.is_set():
                for ready in select.select([*streams, datagrams], [], [], 0.05)[0]:
                    if ready is datagrams:
                        datagrams.sendmsg([b"x"], rights, 0, datagrams.recvfrom(1)[1])
                        continue
                    with ready.accept()[0] as client:
                        client.recv(1)
                        client.sendmsg([b"x"], rights)

        thread = threading.Thread(target=give)
        thread.start()
        try:
            yield name
        finally:
            ends.set()
            thread.join()


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
    while (found := programs_with(token)) and time.monotonic() < until:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    for pid in found:
        os.killpg(pid, signal.SIGKILL)
    return found


async def tried(facts: dict[str, Any], sandbox: Sandbox, python: str = PYTHON) -> dict[str, tuple[bool, str]]:
    """Return what every attempt came to: whether it reached something, and what."""
    words = (python, "-P", "-m", "tests.support.escapes", json.dumps(facts))
    done = await run_process(*words, env={"PYTHONPATH": str(ROOT)}, sandbox=sandbox, timeout_s=60)
    assert done.returncode == 0, done.stderr.decode()
    found = {name: (bool(reached), str(told)) for name, (reached, told) in json.loads(done.stdout).items()}
    survivors = await left_behind(facts["survivor"])
    return {**found, "survive_the_sandbox": (bool(survivors), f"{len(survivors)} left")}


async def test_nothing_of_the_corpus_gets_out_and_much_of_it_works_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required = replace(LIMITS, files=(ESCAPES,))
    if sandboxes.refusal():
        with pytest.raises(ToolError) as refused:
            await run_process(PYTHON, "-c", "", sandbox=required)
        assert refused.value.code == "sandbox_unavailable"
        return
    async with egress_servers() as servers:
        with outside(tmp_path) as found:
            facts = {**found, **servers}
            inside = await tried(facts, required)
            may_write = replace(required, writable=(facts["shared"],))
            granted = await tried(facts, may_write)
            networked = await tried(facts, replace(may_write, network=True))
            control = await tried(facts, Sandbox(mode="none"))
            own = await tried(
                facts, required, sys.executable
            )  # perhaps of root alone: the sandbox keeps root's files apart
            platform_at(tmp_path, monkeypatch, broker=facts["nats"], gateway=facts["gateway"])
            private = (f"127.0.0.1:{facts[name]}" for name in ("granted", "nats", "gateway"))
            monkeypatch.setenv("TOWPATH_HTTP_ALLOW_PRIVATE", " ".join((*private, "rebound.test")))
            name_places(monkeypatch)
            let_out = await tried(facts, egress(facts))
    unlimited = {"more_processes_than_allowed"} if os.geteuid() == 0 else set()  # as docs/tools.md says
    for one in (own, granted):
        assert {name: told for name, (reached, told) in one.items() if reached and name not in unlimited} == {}
    assert {name: told for name, told in networked.items() if told[0] and name in OF_A_GRANTED_FOLDER} == {}
    for one in (inside, let_out):
        table = [f"{name:40} {one[name][0]!s:6} {control[name][0]!s:6} {one[name][1]}" for name in one]
        assert [line for name, line in zip(one, table, strict=True) if one[name][0]] == []
    assert {name: let_out[name][1] for name, said in REFUSED_BY_THE_PROXY.items() if said not in let_out[name][1]} == {}
    assert len(inside) >= 123
    works = {name for name, (reached, _) in control.items() if reached}
    expected = ONLY_STOPPED_BY_A_SANDBOX | OF_A_GRANTED_FOLDER
    assert works >= expected, sorted(expected - works)
