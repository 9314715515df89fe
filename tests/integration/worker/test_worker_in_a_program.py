"""`towpath.Worker`: a worker inside a program of one's own, for as long as a block runs or until a signal."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import eventually

from towpath import DeclarationError, DeniedError, Tool, Worker, tool
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.servers.nats import Nats

SCRIPT = '''
from towpath import Worker

def double(n: int) -> int:
    """Double."""
    return 2 * n

Worker([double], toolset="sums", concurrency=2).run()
print("ended")
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
        with pytest.raises(DeniedError, match=r"svc.tas.register_tools.default.sums.*TOWPATH_NATS_USER"):
            await serving(halve, url=server.url()).__aenter__()
        with pytest.raises(DeniedError, match="may not connect to the broker"):
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


def test_a_worker_without_tools_is_refused() -> None:
    with pytest.raises(DeclarationError, match="at least one tool"):
        Worker([])
