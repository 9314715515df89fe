"""What a program in a sandbox reaches where it was granted addresses, and what is told of it.

What it does not reach is in the corpus of escapes beside this. Where this machine has no sandbox to offer, a required
one is refused, and nothing runs.
"""

import asyncio
import json
import logging
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway.web import Web, response, web
from tests.support.running_programs import programs_with
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import all_sent, eventually
from tests.support.worker.egress_servers import egress_servers, name_places
from tests.support.worker.running_worker import serving

from towpath import EgressLimits, Sandbox, ToolContext, ToolError, run_process, tool
from towpath.tools import sandbox as sandboxes
from towpath.tools import sandbox_port
from towpath.tools.egress_proxy import LOOKUPS, EgressProxy
from towpath.tools.egress_rules import EgressRules
from towpath.tools.sandbox import refusal
from towpath_embedded.servers.nats import Nats

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
BODY = 100_000
FETCH = f"""
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, data=b"x" * {BODY}, timeout=10).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().partition(":")[0])
    except OSError as error:
        print(error)
"""
CHUNKS = """
import http.client, os, urllib.parse
place = urllib.parse.urlsplit(os.environ["http_proxy"])
client = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
client.request("PUT", URL, body=iter([b"a" * 70_000, b"b" * 70_000]), encode_chunked=True)
print(client.getresponse().read().decode())
client = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
client.set_tunnel("127.0.0.1", PORT)
client.request("POST", "/tunnel", body=b"z" * 100_000)
print(client.getresponse().read().decode())
"""
DYING_WORKER = """
import asyncio, sys
from towpath import Sandbox, run_process
from towpath.tools import sandbox_port
sandbox_port._JOIN = "import time; time.sleep(1)\\n" + sandbox_port._JOIN
ran, word = sys.argv[1:]
sandbox = Sandbox(egress=("127.0.0.1:1",), writable=(ran.rpartition("/")[0],))
asyncio.run(run_process("sh", "-c", f"touch {ran}; sleep 60; :", word, sandbox=sandbox))
"""
Line = tuple[str, str, dict[str, Any]]


class Lines(list[Line]):
    """Takes what is logged."""

    def write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        self.append((level, message, fields))


@pytest.fixture(autouse=True)
def _private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_HTTP_ALLOW_PRIVATE", "127.0.0.1 rebound.test")


@asynccontextmanager
async def site() -> AsyncIterator[Web]:
    async with web(lambda asked: response(200, f"{asked.path} {len(asked.body)}".encode())) as served:
        yield served


def granted(*places: object, **more: Any) -> Sandbox:
    return Sandbox(egress=tuple(f"127.0.0.1:{place}" for place in places), **more)


async def test_a_program_reaches_what_it_was_granted_and_every_connection_is_logged_without_its_path() -> None:
    lines = Lines()
    async with site() as served:
        urls = (
            served.url("/a?key=secret", "127.0.0.1"),
            "http://127.0.0.1:9/",
            "https://localhost:9/",
            "ftp://a.test/",
        )
        words = (PYTHON, "-c", FETCH, *urls)
        if refusal():
            with pytest.raises(ToolError, match="sandbox_unavailable"):
                await run_process(*words, sandbox=granted(served.port))
            return
        done = await run_process(*words, sandbox=granted(served.port), write_log=lines.write)
    told = done.text.splitlines()
    assert told[:2] == [f"/a?key=secret {BODY}", "403 http_host_not_allowed"]
    assert "403" in told[2]
    code = {"code": "http_host_not_allowed"}
    assert lines == [
        ("info", "egress allowed", {"host": "127.0.0.1", "port": served.port}),
        ("warning", "egress refused", {"host": "127.0.0.1", "port": 9, **code}),
        ("warning", "egress refused", {"host": "localhost", "port": 9, **code}),
    ]


async def test_bodies_in_chunks_and_tunnels_arrive_whole() -> None:
    async with site() as served:
        code = f"URL, PORT = {served.url('/chunks', '127.0.0.1')!r}, {served.port}\n{CHUNKS}"
        sandbox = granted(served.port, mode="preferred")
        if refusal():
            return
        done = await run_process(PYTHON, "-c", code, sandbox=sandbox, check=True)
    assert done.text.splitlines() == ["/chunks 140000", "/tunnel 100000"]


TINY = """
import socket
way_out = socket.create_connection(("127.0.0.1", 3128))
way_out.settimeout(20)
head = f"POST {URL} HTTP/1.1\\r\\nHost: 127.0.0.1:{PORT}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
way_out.sendall(head.encode())
try:
    while True:
        way_out.sendall(b"1\\r\\na\\r\\n" * 1_000)
except OSError as error:
    print("cut off", type(error).__name__)
"""


async def test_a_body_in_chunks_of_a_byte_is_cut_off_before_it_takes_the_worker_s_time() -> None:
    async with site() as served:
        code = f"URL, PORT = {served.url('/tiny', '127.0.0.1')!r}, {served.port}\n{TINY}"
        sandbox = granted(served.port, mode="preferred")
        if refusal():
            return
        began = time.thread_time()
        done = await run_process(PYTHON, "-c", code, sandbox=sandbox, check=True)
        assert time.thread_time() - began < 5
    assert done.text.startswith("cut off")


async def test_the_environment_of_a_program_names_the_proxy_only_where_something_is_granted() -> None:
    words = ("sh", "-c", "env")
    for sandbox, named in ((granted(1, mode="preferred"), not refusal()), (Sandbox(mode="preferred"), False)):
        done = await run_process(*words, env={"PATH": os.defpath, "no_proxy": "*"}, sandbox=sandbox)
        found = dict(line.partition("=")[::2] for line in done.text.splitlines())
        assert ("HTTPS_PROXY" in found) == ("http_proxy" in found) == named
        assert found["no_proxy"] == ("" if named else "*")


async def test_a_name_is_resolved_once_and_no_second_answer_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = name_places(monkeypatch)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    async with egress_servers() as servers:
        places = (f"rebound.test:{servers['rebound']}",)
        proxy = EgressProxy(
            listener, EgressRules(allowed=places, allowed_private=places), EgressLimits(), Lines().write
        )
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(f"CONNECT {places[0]} HTTP/1.1\r\nHost: {places[0]}\r\n\r\n".encode())
        assert (await reader.read()).endswith(b"\r\n\r\ngranted")
        writer.close()
        proxy.close()
    assert asked.count("rebound.test") == 1


async def test_slow_lookups_take_no_more_threads_after_their_time_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    running = most = 0
    real, counting = socket.getaddrinfo, threading.Lock()

    def resolve(host: Any, *others: Any, **options: Any) -> Any:
        nonlocal running, most
        if host != "slow.test":
            return real(host, *others, **options)
        with counting:
            running += 1
            most = max(most, running)
        answered.wait(30)
        with counting:
            running -= 1
        return real("127.0.0.1", *others, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    rules = EgressRules(allowed=("slow.test",), allowed_private=("slow.test",))
    proxy = EgressProxy(listener, rules, EgressLimits(start_s=0.3), Lines().write)

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"CONNECT slow.test:1 HTTP/1.1\r\nHost: slow.test:1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer

    try:
        for _ in range(3):  # each round outlives its time
            assert all(b" 504 " in one for one in await asyncio.gather(*(ask() for _ in range(LOOKUPS))))
        assert (running, most) == (LOOKUPS, LOOKUPS)
        answered.set()
        await eventually(lambda: running == 0)
        assert b" 502 " in await ask(), "the places are free again, and nobody listens there"
    finally:
        answered.set()
        proxy.close()


async def test_a_way_out_that_can_not_be_had_starts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_port, "_JOIN", "import sys; sys.exit('the kernel says no')")
    if refusal():
        return
    with pytest.raises(ToolError, match="the kernel says no") as refused:
        await run_process("sh", "-c", f"touch {folder}/ran", sandbox=granted(1, writable=(folder,)))
    assert refused.value.code == "sandbox_unavailable"
    assert not (folder / "ran").exists()


async def test_a_sandbox_that_fails_by_itself_says_so_as_it_does_without_an_egress(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = folder / "bwrap"
    broken.write_text("#!/bin/sh\necho the mount fails >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandboxes, "find_bubblewrap", lambda: sandboxes.Bubblewrap(str(broken), ""))
    done = await run_process("true", sandbox=granted(1))
    assert (done.returncode, done.stderr) == (7, b"the mount fails\n")


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_nothing_is_left_open_or_running_when_programs_end_or_are_cut_off() -> None:
    word = f"cut-off-{os.getpid()}"
    async with site() as served:
        before = open_files()
        await run_process("true", sandbox=granted(served.port, mode="preferred"))
        for number in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(number / 200):
                    sandbox = granted(served.port, mode="preferred")
                    await run_process("sh", "-c", "sleep 60; :", word, sandbox=sandbox, grace_s=0.1)
        await eventually(lambda: open_files() <= before and not programs_with(word), within_s=40)


async def test_a_worker_that_is_killed_while_a_sandbox_waits_leaves_nothing_that_runs(folder: Path) -> None:
    word, ran = f"orphan-{os.getpid()}", folder / "ran"
    if refusal():
        return
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING_WORKER, str(ran), word)
    await eventually(lambda: len(programs_with(word)) > 1, within_s=60)
    worker.kill()
    await worker.wait()
    await eventually(lambda: not programs_with(word), within_s=40)
    assert not ran.exists()


async def test_a_bubblewrap_that_is_killed_with_its_worker_before_it_told_leaves_nothing(folder: Path) -> None:
    word, started = f"untold-{os.getpid()}", folder / "started"
    broken = folder / "bwrap"
    # the first process of a sandbox whose bubblewrap is gone: it has the pipes, and waits
    broken.write_text(f"#!/bin/sh\nsh -c 'touch {started}; sleep 60; :' {word} &\nkill -KILL $$\n")
    broken.chmod(0o755)
    found = f"sandboxes.find_bubblewrap = lambda: sandboxes.Bubblewrap({str(broken)!r}, '')\n"
    dying = DYING_WORKER.replace("ran, word", f"from towpath.tools import sandbox as sandboxes\n{found}ran, word", 1)
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", dying, str(folder / "ran"), "a-worker")
    await eventually(started.exists, within_s=60)
    worker.kill()
    await worker.wait()
    await eventually(lambda: not programs_with(word), within_s=40)


async def test_a_program_without_a_call_is_logged_by_its_worker(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    if refusal():
        return
    await run_process(PYTHON, "-c", FETCH, "http://127.0.0.1:9/", sandbox=granted(8))
    assert "egress refused host=127.0.0.1 port=9 code=http_host_not_allowed" in caplog.text


@tool(name="fetch.program", toolset="default", effect_class="irreversible")
async def fetch_program(url: str, port: int, ctx: ToolContext) -> str:
    """Fetch an address with a program of its own."""
    return (await ctx.run(PYTHON, "-c", FETCH, url, sandbox=granted(port, mode="preferred"))).text


async def test_the_tool_log_of_a_call_has_what_its_program_reached(nats_server: Nats) -> None:
    async with (
        site() as served,
        TasPeer(nats_server.url()) as tas,
        serving(nats_server.url(), tools=[fetch_program]),
    ):
        found = await tas.nc.subscribe("log.tool.default.default")
        await all_sent(tas.nc)
        args = {"url": served.url("/x", "127.0.0.1"), "port": served.port}
        outcome = await tas.call("fetch.program", args, effect_class="irreversible")
        assert outcome.result == f"/x {BODY}\n"
        if refusal():
            return
        line = json.loads((await found.next_msg(timeout=60)).data)
        assert (line["level"], line["message"], line["tool"]) == ("info", "egress allowed", "fetch.program")
        assert line["fields"] == {"host": "127.0.0.1", "port": served.port}
        assert line["execution_id"] == str(outcome.execution_id)
