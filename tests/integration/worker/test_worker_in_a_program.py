"""`towpath.Worker`: a worker inside a program of one's own, for as long as a block runs or until a signal."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import eventually

from towpath import DeclarationError, DeniedError, RefusedError, Tool, Worker, tool
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.servers.nats import Nats
from towpath_worker.app.worker import ToolWorker

SCRIPT = '''
from towpath import Worker

def double(n: int) -> int:
    """Double."""
    return 2 * n

Worker([double], toolset="sums", concurrency=2).run()
print("ended")
'''

STUCK = '''
import time
from towpath import Worker, tool

@tool(effect_class="pure", toolset="sums", timeout="0.5s")
def stuck() -> int:
    """Sleep on."""
    time.sleep(600)
    return 1

Worker([stuck]).run()
'''


@tool(effect_class="pure", toolset="sums")
def halve(n: int) -> float:
    """Halve."""
    return n / 2


def plain(n: int) -> int:
    """Add one."""
    return n + 1


def serving(*tools: Tool | object, url: str, **options: object) -> Worker:
    return Worker(tools, url=url, **options)  # type: ignore[arg-type]


async def test_tools_are_served_while_the_block_runs(nats_server: Nats) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        async with serving(halve, plain, url=url, toolset="more", project="default", concurrency=3):
            assert {one.toolset for one in tas.registered} == {"sums", "more"}
            assert (await tas.call("halve", {"n": 3}, toolset="sums", effect_class="pure")).result == 1.5
            outcome = await tas.call("plain", {"n": 1}, toolset="more", effect_class="irreversible")
            assert outcome.result == 2
        waiting = await tas.dispatch(tas.invocation("halve", {"n": 3}, toolset="sums", effect_class="pure"))
        assert tas.outcomes_of(waiting) == []


async def test_a_worker_that_lacks_a_right_raises_what_is_to_be_done(folder: Path) -> None:
    users = {**USERS, "anonymous": client_rights("anonymous")}
    server = Nats(folder / "nats", users=users, no_auth_user="anonymous")
    await server.start()
    try:
        with pytest.raises(DeniedError, match=r"let it register the toolset sums .*TOWPATH_NATS_USER=sums"):
            await serving(halve, url=server.url()).__aenter__()
        with pytest.raises(DeniedError, match="knows no user worker with this password"):
            await serving(halve, url=server.url(), user="worker", password="wrong").__aenter__()
    finally:
        await server.stop()


async def test_a_program_that_runs_a_worker_ends_in_order_by_a_signal(nats_server: Nats, folder: Path) -> None:
    url = nats_server.url()
    environment = {"TOWPATH_NATS_URL": url, "PATH": ""}
    async with TasPeer(url) as tas:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SCRIPT, env=environment, cwd=folder, stdout=asyncio.subprocess.PIPE
        )
        try:
            await eventually(lambda: bool(tas.registered))
            assert (await tas.call("double", {"n": 4}, toolset="sums")).result == 8
            program.send_signal(signal.SIGINT)
            said, _ = await asyncio.wait_for(program.communicate(), 60)
        finally:
            if program.returncode is None:
                program.kill()
    assert (program.returncode, said) == (0, b"ended\n")


async def test_a_tool_that_ignores_its_timeout_does_not_keep_the_process(nats_server: Nats, folder: Path) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STUCK, env={"TOWPATH_NATS_URL": url, "PATH": ""}, cwd=folder
        )
        try:
            await eventually(lambda: bool(tas.registered))
            failure = (await tas.call("stuck", toolset="sums")).failure
            assert failure is not None and failure.code == "tool_timeout"
            program.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(program.wait(), 60) == 0
        finally:
            if program.returncode is None:
                program.kill()


async def test_a_block_that_is_cancelled_while_calls_end_closes_what_it_opened(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drain(_self: ToolWorker, _grace_s: float) -> None:
        draining.set()
        await asyncio.sleep(60)

    before, draining = asyncio.all_tasks(), asyncio.Event()
    worker = serving(halve, url=nats_server.url())
    async with TasPeer(nats_server.url()):
        await worker.__aenter__()
        monkeypatch.setattr(ToolWorker, "drain", drain)
        leaving = asyncio.create_task(worker.__aexit__(None, None, None))
        await draining.wait()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert asyncio.all_tasks() == before


async def test_files_of_a_login_that_can_not_be_used_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ca.pem").write_text("no certificate")
    monkeypatch.setenv("TOWPATH_NATS_TLS_CA", str(folder / "ca.pem"))
    worker = serving(halve, url="tls://127.0.0.1:1")
    with pytest.raises(RefusedError, match=r"the TLS files .*ca\.pem can't be used"):
        worker.run()
    before = asyncio.all_tasks()
    with pytest.raises(RefusedError, match="can't be used"):
        await worker.__aenter__()
    assert asyncio.all_tasks() == before


def test_a_worker_without_tools_is_refused() -> None:
    with pytest.raises(DeclarationError, match="at least one tool"):
        Worker([])
