"""The platform's servers under one roof: what is killed comes back at the same address with the same data."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import asyncpg
import nats
import nats.errors
import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.chaos.servers.broker_store import DAMAGES
from tests.support.waiting import all_sent

from towpath_contracts import subjects
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.streams import CONSUMERS, STREAMS
from towpath_embedded.platform import Platform
from towpath_embedded.platform_state import lock_folder, read_state
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.postgres.migrations import plan


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Platform]:
    """Start a platform with NATS and Postgres only."""
    platform = Platform(folder, durable=False)
    try:
        await platform.start_servers()
        yield platform
    finally:
        await platform.stop()


@pytest.fixture
async def servers(folder: Path) -> AsyncIterator[Platform]:
    """A platform with NATS and Postgres only."""
    async with started(folder) as platform:
        yield platform


UNHARMED = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def unharmed() -> AsyncIterator[Platform]:
    """The same, shared by the tests that only look at it."""
    with temporary_folder() as folder:
        async with started(folder) as platform:
            yield platform


async def connected(platform: Platform, user: str = "deploy") -> Client:
    """Connect as *user*; the server may be starting just now."""
    prefix = f"_INBOX_{user}".encode()
    return await nats.connect(platform.nats_url_of(user), inbox_prefix=prefix, reconnect_time_wait=0.1)


async def streams(platform: Platform) -> set[str | None]:
    connection = await connected(platform)
    try:
        return {info.config.name for info in await connection.jetstream().streams_info()}
    finally:
        await connection.close()


async def count(dsn: str, query: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval(query))
    finally:
        await connection.close()


@UNHARMED
async def test_the_servers_are_migrated_and_have_every_stream(unharmed: Platform) -> None:
    assert await count(unharmed.dsn(), "SELECT count(*) FROM public.towpath_migration") > 0
    assert await streams(unharmed) == {spec.name for spec in STREAMS}


@UNHARMED
async def test_every_service_is_itself_in_the_database(unharmed: Platform) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await count(unharmed.dsn("gateway"), "SELECT count(*) FROM tas.audit_entry")


async def test_killed_servers_come_back_where_they_were(servers: Platform) -> None:
    addresses = servers.dsn(), servers.nats_url_of("deploy")
    servers.kill("postgres")
    servers.kill("nats")
    await servers.wait_ready()
    assert (servers.dsn(), servers.nats_url_of("deploy")) == addresses
    assert await streams(servers) == {spec.name for spec in STREAMS}
    assert await count(servers.dsn(), "SELECT count(*) FROM public.towpath_migration") > 0
    assert {name: state.restarts for name, state in servers.processes.items()} == {"postgres": 1, "nats": 1}
    found = read_state(servers.data)
    assert found is not None
    assert found["processes"]["nats"]["pid"] == servers.processes["nats"].pid


async def test_postgres_comes_back_after_kill_upon_kill(servers: Platform) -> None:
    for restarts in range(1, 4):
        servers.kill("postgres")
        await servers.wait_ready()
        assert servers.processes["postgres"].restarts >= restarts
    assert await count(servers.dsn(), "SELECT 1") == 1


async def test_a_held_server_keeps_its_address_when_it_is_released(servers: Platform) -> None:
    address = servers.dsn()
    await servers.hold("postgres", gracefully=True)
    with pytest.raises(OSError, match=r"No such file|refused"):
        await count(address, "SELECT 1")
    servers.release("postgres")
    await servers.wait_ready()
    assert await count(address, "SELECT 1") == 1


async def served(platform: Platform) -> None:
    """Wait until every stream is there and every consumer answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                if await streams(platform) == {spec.name for spec in STREAMS} and await consumers_answer(platform):
                    return
            except (OSError, nats.errors.Error):
                pass
            await asyncio.sleep(0.1)


async def consumers_answer(platform: Platform) -> bool:
    connection = await connected(platform)
    try:
        for spec in CONSUMERS:
            await connection.jetstream().consumer_info(spec.stream, spec.durable)
        return True
    finally:
        await connection.close()


async def test_a_broker_that_lost_its_data_has_every_stream_again(servers: Platform) -> None:
    await servers.hold("nats")
    lost = servers.nats.store.rename(servers.data / "lost")
    servers.release("nats")
    await served(servers)
    assert lost.is_dir()


async def fill(platform: Platform) -> None:
    """Leave some messages in the store, and records of some that are gone."""
    connection = await connected(platform)
    orchestrator = await connected(platform, "orchestrator")
    try:
        for number in range(20):
            await orchestrator.publish(subjects.run_inbox("gateway", UUID(int=number)), b"x" * 100, headers={"n": "1"})
        await all_sent(orchestrator)
        while not (state := (await connection.jetstream().stream_info("INBOX")).state).messages:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for sequence in range(state.first_seq, state.first_seq + state.messages // 2):
            gone = json.dumps({"seq": sequence, "no_erase": True}).encode()
            await connection.request("$JS.API.STREAM.MSG.DELETE.INBOX", gone)
    finally:
        await orchestrator.close()
        await connection.close()


async def test_a_damaged_store_is_mended_or_set_aside(servers: Platform, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    aside = servers.nats.folder / "store.damaged"
    for name in (
        "no-folder",
        "zero-consumers",
        "long-headers",
        "cut-tails",
    ):  # the others: tests/e2e/faults/test_servers.py and towpath chaos
        damage = DAMAGES[name]
        caplog.clear()
        await fill(servers)
        await servers.hold("nats")
        damage.do(servers.nats.store)
        servers.release("nats")
        await served(servers)
        async with asyncio.timeout(60):
            while damage.server_refuses and not aside.exists():  # noqa: ASYNC110 - it may end only once it reads
                await asyncio.sleep(0.05)
        await served(servers)
        assert aside.exists() == damage.server_refuses, name
        assert ("goes on with an empty one" in caplog.text) == damage.server_refuses, name
        if aside.is_dir():
            shutil.rmtree(aside)
        aside.unlink(missing_ok=True)


async def test_a_broker_whose_files_are_deleted_under_it_is_started_again(
    servers: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await fill(servers)
    before = servers.processes["nats"].pid
    shutil.rmtree(servers.nats.store)
    async with asyncio.timeout(60):
        while servers.processes["nats"].pid in {before, None}:  # noqa: ASYNC110 - a child tells nobody
            await asyncio.sleep(0.1)
    await served(servers)
    assert "were deleted while it ran" in caplog.text
    shutil.rmtree(servers.nats.folder / "store.damaged", ignore_errors=True)  # what it wrote on its way out


@UNHARMED
async def test_a_second_platform_on_the_same_data_is_refused_and_harms_nothing(unharmed: Platform) -> None:
    with pytest.raises(ProblemError) as refused:
        await Platform(unharmed.data).start()
    assert refused.value.problem.code == "already_up"
    assert await count(unharmed.dsn(), "SELECT 1") == 1
    assert read_state(unharmed.data) is not None


def test_the_lock_can_be_held_by_its_owner_only(folder: Path) -> None:
    """Who can read a file can lock it, and who holds this lock counts as a platform that is alive."""
    data = folder / "data"
    for _ in range(2):
        with lock_folder(data):
            assert (data / "lock").stat().st_mode & 0o777 == 0o600
        (data / "lock").chmod(0o644)  # as earlier versions made it


@UNHARMED
async def test_the_state_file_tells_no_password(unharmed: Platform) -> None:
    passwords = json.loads((unharmed.data / "nats" / "passwords.json").read_text())
    found = (unharmed.data / "state.json").read_text()
    assert not any(password in found for password in passwords.values())


async def test_a_cancelled_start_leaves_nothing_running(folder: Path) -> None:
    platform = Platform(folder, durable=False)
    starting = asyncio.create_task(platform.start())
    async with asyncio.timeout(60):
        while not any(state.pid for state in platform.processes.values()):  # noqa: ASYNC110 - a process sets no event
            await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert platform.processes == {}
    assert read_state(folder) is None


async def is_migrated(platform: Platform) -> bool:
    try:
        return not (await plan(platform.dsn())).missing
    except (RuntimeError, OSError, asyncpg.PostgresError, ProblemError):  # it has not begun, or is just starting
        return False


def tools_that_wait_for(file: Path) -> str:
    return (
        "import time\nfrom pathlib import Path\nfrom towpath import tool\n\n"
        f"while not Path({str(file)!r}).exists():\n    time.sleep(0.02)\n\n\n"
        '@tool\ndef find() -> str:\n    """Find."""\n    return ""\n'
    )


async def test_the_database_is_made_while_a_worker_is_asked_for_its_tools(folder: Path) -> None:
    tools, go, told = folder / "tools.py", folder / "go", list[str]()
    tools.write_text(tools_that_wait_for(go))
    platform = Platform(folder / "data", durable=False, notice=told.append)
    worker = WorkerLaunch(modules=(str(tools),), directory=folder)
    starting = asyncio.create_task(platform.start_servers([worker]))
    try:
        async with asyncio.timeout(60):
            while not await is_migrated(platform):  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(0.05)
        assert told == [], "nothing is told as ready before it is known that the tools can be served"
        go.touch()
        await starting
        assert {line.split()[0] for line in told} == {"postgres", "nats"}
    finally:
        go.touch()
        await asyncio.gather(starting, return_exceptions=True)
        await platform.stop()


async def test_a_database_that_can_not_be_made_is_told_without_waiting_for_tools(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_postgres: Postgres) -> Path:
        raise ProblemError(problem("service_failed", "postgres could not make its data"))

    monkeypatch.setattr(Postgres, "prepare", refuse)
    tools, told = folder / "tools.py", list[str]()
    tools.write_text(tools_that_wait_for(folder / "never"))
    worker = WorkerLaunch(modules=(str(tools),), directory=folder)
    platform = Platform(folder / "data", durable=False, notice=told.append, workers=[worker])
    with pytest.raises(ProblemError, match="could not make its data"):
        await asyncio.wait_for(platform.start(), 30)
    assert platform.processes == {} and told == []


async def test_refused_tools_leave_no_server_behind(folder: Path) -> None:
    tools, told = folder / "tools.py", list[str]()
    tools.write_text("from towpath import tool\n\n\n@tool(effect_class='wriet')\ndef find() -> str: ...\n")
    platform = Platform(
        folder / "data",
        durable=False,
        notice=told.append,
        workers=[WorkerLaunch(modules=(str(tools),), directory=folder)],
    )
    with pytest.raises(ProblemError):
        await platform.start()
    assert platform.processes == {} and told == []
    process = platform.postgres.process
    assert process is None or process.poll() is not None
