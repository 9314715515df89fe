"""A worker that can never serve its tools ends at once, with why and what to do; for what may come it waits."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.worker.worker_process import worker_process

from towpath_contracts.authority import USERS, client_rights, worker_rights
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.nats import Nats

TOOL = '''
from towpath import tool

@tool(toolset="crm", effect_class="pure")
def look(n: int) -> int:
    """Look."""
    return n
'''

DENIED, USAGE = 4, 2
NOBODY = "nats://127.0.0.1:1"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    """A broker with the platform's users, and one worker's credential for another toolset."""
    users = {**USERS, "anonymous": client_rights("anonymous"), "billing": worker_rights("billing", "default", ("b",))}
    server = Nats(tmp_path_factory.mktemp("guarded"), users=users, no_auth_user="anonymous")
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def tools(folder: Path) -> Path:
    return file_of(folder, TOOL)


def file_of(folder: Path, source: str) -> Path:
    (folder / "crm.py").write_text(source)
    return folder / "crm.py"


def login(server: Nats, user: str, password: str | None = None) -> dict[str, str]:
    return {"TOWPATH_NATS_USER": user, "TOWPATH_NATS_PASSWORD": password or server.password(user)}


async def test_a_worker_without_a_credential_is_told_so_at_once(guarded: Nats, folder: Path, tools: Path) -> None:
    with worker_process(folder, guarded.url(), str(tools)) as worker:
        assert await worker.ended() == DENIED
    said = worker.log.read_text()
    assert "broker_denied: this worker has no user and password, so the broker does not let it register the " in said
    assert "toolset crm of the project default. With towpath up on this machine: unset TOWPATH_NATS_URL" in said
    assert (
        "On a deployment: towpath workers credential add crm --project default --toolset crm, start the broker" in said
    )
    assert "Traceback" not in said


async def test_a_worker_of_another_toolset_is_told_which_right_is_missing(
    guarded: Nats, folder: Path, tools: Path
) -> None:
    with worker_process(folder, guarded.url(), str(tools), environment=login(guarded, "billing")) as worker:
        assert await worker.ended() == DENIED
    said = worker.log.read_text()
    assert "the broker does not let the user billing register the toolset crm of the project default" in said
    assert "Give billing this toolset beside those that towpath workers credential list shows" in said
    assert "credential add billing --project default --toolset crm and the others" in said


async def test_a_worker_with_a_wrong_password_is_told_so_at_once(guarded: Nats, folder: Path, tools: Path) -> None:
    with worker_process(folder, guarded.url(), str(tools), environment=login(guarded, "billing", "wrong")) as worker:
        assert await worker.ended() == DENIED
    said = worker.log.read_text()
    assert "broker_denied: the broker knows no user billing with this password: one of the two is wrong, or" in said
    assert "unset TOWPATH_NATS_URL, TOWPATH_NATS_USER and TOWPATH_NATS_PASSWORD" in said
    assert "credential add" not in said
    assert "Traceback" not in said


async def test_a_worker_waits_for_a_broker_and_a_service_that_are_not_there_yet(folder: Path, tools: Path) -> None:
    server = Nats(folder / "late", port=free_port())
    with worker_process(folder, server.url(), str(tools)) as worker:
        await asyncio.sleep(1)
        assert worker.process.poll() is None, worker.log.read_text()
        await server.start()
        try:
            await asyncio.sleep(1)
            async with TasPeer(server.url()) as tas:
                await worker.wait_ready()
                assert {one.toolset for one in tas.registered} == {"crm"}
        finally:
            await server.stop()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_package\n", "1: there is no module no_such_package; check the name, then install"),
        ("def f(:\n", "1: not Python: invalid syntax"),
        ("\n1 / 0\n", "2: ZeroDivisionError: division by zero; this was raised while"),
    ],
)
async def test_a_file_that_cannot_be_imported_is_named_with_its_line(source: str, said: str, folder: Path) -> None:
    tools = file_of(folder, source)
    with worker_process(folder, NOBODY, str(tools)) as worker:
        assert await worker.ended() == USAGE
    log = worker.log.read_text()
    assert f"towpath worker: {tools}:{said}" in log
    assert "Traceback" not in log


async def test_a_login_that_cannot_be_used_is_named(folder: Path, tools: Path) -> None:
    environment = {"TOWPATH_NATS_NKEY_FILE": str(tools)}
    with worker_process(folder, NOBODY, str(tools), environment=environment) as worker:
        assert await worker.ended() == USAGE
    assert f"towpath worker: {tools} holds no seed of an nkey" in worker.log.read_text()
