"""`towpath backup` and `towpath restore`: a database goes into a file and comes back whole, and says that it did."""

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest

from towpath.cli import main
from towpath_contracts import subjects
from towpath_contracts.authority import USERS
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.backups import database_copy
from towpath_embedded.backups.__main__ import _empty_broker, is_broker_empty
from towpath_embedded.backups.database_copy import dump, restore, server_parts
from towpath_embedded.backups.postgres_programs import run_program, run_script
from towpath_embedded.platform_state import lock_folder
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.stream_declaration import declare_streams
from towpath_fabric.postgres.migrations import migrate
from towpath_fabric.postgres.pool import open_pool

RUN = """
INSERT INTO runs.run (run_id, project, status, kind, network, version, snapshot_digest, seq, caller, created_at,
                      updated_at)
VALUES ($1, 'default', $2, 'network', 'support', 1, 'sha256:snapshot', 1, 'ann', now(), now())
"""
RIGHTS = """
SELECT (SELECT count(*) FROM information_schema.role_table_grants WHERE grantee LIKE 'towpath%') AS grants,
       (SELECT array_agg(r.rolname || array_to_string(s.setconfig, ' ') ORDER BY r.rolname) FROM pg_db_role_setting s
        JOIN pg_roles r ON r.oid = s.setrole JOIN pg_database d ON d.oid = s.setdatabase
        WHERE d.datname = current_database()) AS settings,
       has_database_privilege('towpath_tas', current_database(), 'TEMPORARY') AS temporary
"""


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder without a platform."""
    monkeypatch.delenv("TOWPATH_DATABASE_URL", raising=False)
    with temporary_folder() as folder:
        data = folder / "d"
        data.mkdir(mode=0o711)
        yield data


def command(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    """Run a command and return its exit code and what it printed: a document, or a problem."""
    capsys.readouterr()
    code = main([*map(str, words), "-o", "json"]) or 0
    out, said = capsys.readouterr()
    return code, json.loads(out if code == 0 else said)


async def in_database(data: Path, work: Any) -> Any:
    """Do *work* with the database of *data*, whose platform does not run."""
    server = Postgres(data / "postgres")
    await server.start()
    try:
        await server.ensure_database()
        return await work(server.dsn())
    finally:
        await server.stop()


async def fill(dsn: str) -> None:
    await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    for status in ("completed", "running", "waiting"):
        await connection.execute(RUN, uuid.uuid4(), status)
    await connection.close()


async def look(dsn: str) -> dict[str, Any]:
    connection = await asyncpg.connect(dsn)
    found = dict(await connection.fetchrow(RIGHTS))
    runs = await connection.fetch("SELECT run_id, status FROM runs.run ORDER BY 1")
    marked = await connection.fetchval("SELECT array_agg(lost_since) FROM tas.restored_run")
    await connection.close()
    return {**found, "runs": [tuple(run) for run in runs], "marked": marked}


@pytest.mark.prints("backup", "restore")
def test_a_folder_is_backed_up_and_restored_whole_without_its_keys(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(in_database(data, fill))
    before = asyncio.run(in_database(data, look))
    (data / "seal.key").write_text("signs-what-the-audit-proves")
    code, made = command(capsys, "backup", "--to", data.parent, "--data", data)
    file = Path(made["file"])
    assert (code, made["unfinished_runs"], made["bytes"]) == (0, 2, file.stat().st_size)
    assert made["keep_apart"] == [str(data / "seal.key")]
    assert file.stat().st_mode & 0o077 == 0
    assert b"signs-what-the-audit-proves" not in file.read_bytes()
    assert not list(data.parent.glob("*.part"))
    code, refused = command(capsys, "backup", "--to", file, "--data", data)
    assert (code, refused["code"], "is there already" in refused["detail"]) == (2, "request_invalid", True)
    code, refused = command(capsys, "restore", file, "--data", data)
    assert (code, refused["code"]) == (1, "database_not_empty")
    assert f"mv {data / 'postgres'}" in refused["remedy"]

    (data / "postgres").rename(data / "postgres.old")
    (data / "nats" / "store").mkdir(parents=True)
    code, done = command(capsys, "restore", file, "--data", data)
    assert (code, done["marked_runs"], done["broker_emptied"]) == (0, 2, True)
    assert not (data / "nats" / "store").exists()
    since = datetime.fromisoformat(done["lost_since"])
    assert abs(since - datetime.fromisoformat(made["made_at"])) < timedelta(seconds=30), "its name says it, in UTC"
    after = asyncio.run(in_database(data, look))
    assert after == {**before, "marked": [since, since]}
    assert (before["temporary"], before["marked"], len(before["settings"])) == (False, None, 4)


def test_another_time_can_be_said_and_what_is_no_backup_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, file = data.parent / "other", data.parent / "b.dump"
    asyncio.run(in_database(data, fill))
    assert command(capsys, "backup", "--to", file, "--data", data)[0] == 0
    code, refused = command(capsys, "restore", data.parent / "none", "--data", other)
    assert (code, refused["code"]) == (2, "file_missing")
    (data.parent / "no.dump").write_text("no dump")
    code, refused = command(capsys, "restore", data.parent / "no.dump", "--data", other)
    assert (code, refused["code"]) == (2, "backup_unreadable")
    code, refused = command(capsys, "restore", file, "--data", other, "--lost-since", "2h")
    assert (code, refused["code"]) == (2, "request_invalid")
    code, refused = command(capsys, "backup", "--to", data.parent / "backups", "--data", data)
    assert (code, refused["code"]) == (2, "file_missing")
    assert f"there is no folder {data.parent / 'backups'}" in refused["detail"]
    code, refused = command(capsys, "backup", "--to", data.parent / "c.dump", "--data", data.parent / "nowhere")
    assert (code, refused["code"]) == (2, "file_missing")
    code, refused = command(capsys, "restore", file, "--data", other)
    assert (code, refused["code"], "--lost-since" in refused["remedy"]) == (2, "request_invalid", True)
    file = file.rename(data.parent / "towpath-20261127T070000Z.dump")
    with lock_folder(data):
        code, refused = command(capsys, "restore", file, "--data", data)
    assert (code, refused["code"]) == (1, "already_up")
    code, done = command(capsys, "restore", file, "--data", other, "--lost-since", "2026-11-27T08:00")
    assert (code, done["lost_since"]) == (0, datetime(2026, 11, 27, 8, tzinfo=UTC).isoformat())


async def test_a_database_is_refused_while_services_work_on_it_and_comes_back_with_all_rights(data: Path) -> None:
    file = data.parent / "b.dump"

    async def copy(dsn: str) -> None:
        await fill(dsn)
        assert (await dump(dsn, file)).unfinished == 2
        connection = await asyncpg.connect(dsn)
        await connection.execute("CREATE DATABASE empty")
        await connection.close()
        target = dsn.replace("/towpath?", "/empty?")
        pool = await open_pool(target, 1, "towpath_tas")
        with pytest.raises(ProblemError) as refused:
            await restore(target, file, datetime.now(UTC), "ann")
        assert (refused.value.problem.code, refused.value.problem.detail) == (
            *("services_running", "connected are towpath_tas"),
        )
        await pool.close()
        several = target.replace("host=", "host=/nowhere,")
        assert several != target
        assert (await restore(several, file, datetime.now(UTC), "ann")).runs == 2
        found, copied = await look(dsn), await look(target)
        assert {**copied, "marked": None} == found
        with pytest.raises(ProblemError) as refused:
            await dump(f"{dsn}9", data.parent / "c.dump")
        assert refused.value.problem.code == "unavailable"

    await in_database(data, copy)


async def test_a_broker_that_is_down_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_NATS_URL", "nats://127.0.0.1:1,nats://127.0.0.1:2")
    async with asyncio.timeout(30):  # it takes a second; the machine may be busy
        assert not await is_broker_empty()


async def test_a_restore_says_whether_the_broker_that_is_named_is_empty(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = data.parent / "b.dump"
    broker = Nats(data.parent / "broker", users=USERS)

    async def restored(dsn: str, name: str) -> bool:
        connection = await asyncpg.connect(dsn)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        place = ("--lost-since", "2026-11-27T08:00", "--database-url", dsn.replace("/towpath?", f"/{name}?"))
        words = [sys.executable, "-m", "towpath.cli", "restore", file, "-o", "json", *place]
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)
        emptied = bool(json.loads(done.stdout)["broker_emptied"])
        assert ("The broker is empty" in done.stderr, "empty the broker" in done.stderr) == (emptied, not emptied)
        return emptied

    async def copy(dsn: str) -> None:
        await fill(dsn)
        await dump(dsn, file)
        assert not await restored(dsn, "unnamed")
        monkeypatch.setenv("TOWPATH_NATS_URL", f"nats://127.0.0.1:1,{broker.url('deploy')}")
        assert not await restored(dsn, "away")
        await broker.start()
        assert await restored(dsn, "empty")
        deploy = await nats.connect(broker.url("deploy"), inbox_prefix="_INBOX_deploy")
        await declare_streams(deploy)
        assert await restored(dsn, "declared")
        orchestrator = await nats.connect(broker.url("orchestrator"), inbox_prefix="_INBOX_orchestrator")
        await orchestrator.jetstream().publish(subjects.run_event(uuid.uuid4()), b"{}")
        assert not await restored(dsn, "filled")
        await deploy.close()
        await orchestrator.close()

    try:
        await in_database(data, copy)
    finally:
        await broker.stop()


async def refuse(work: Any) -> tuple[str, str]:
    with pytest.raises(ProblemError) as refused:
        await work
    return refused.value.problem.code, refused.value.problem.detail


async def test_whatever_fails_the_database_is_empty_still_or_marked(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tables(dsn: str) -> int:
        connection = await asyncpg.connect(dsn)
        found = await connection.fetchval(database_copy._RELATIONS)
        await connection.close()
        return int(found)

    async def work(dsn: str) -> None:
        await fill(dsn)
        connection = await asyncpg.connect(dsn)
        await connection.execute("CREATE DATABASE empty")
        target, soon = dsn.replace("/towpath?", "/empty?"), datetime.now(UTC) + timedelta(hours=1)
        files = {name: data.parent / f"{name}.dump" for name in ("good", "changed", "newer", "foreign")}
        await dump(dsn, files["good"])
        await connection.execute("INSERT INTO towpath_migration VALUES ('towpath_tas', '9', 'n', 'c', now(), '99.0')")
        await run_program("pg_dump", dsn, "-Fc", "-f", str(files["newer"]))
        await connection.execute("UPDATE towpath_migration SET checksum = 'sha256:other'")
        await run_program("pg_dump", dsn, "-Fc", "-f", str(files["changed"]))
        await run_program("pg_dump", dsn, "-Fc", "--schema=runs", "-f", str(files["foreign"]))
        now = datetime.now(UTC)
        code, detail = await refuse(restore(target, files["good"], soon, "ann"))
        assert (code, "still to come" in detail) == ("request_invalid", True)
        assert (await refuse(restore(target, files["newer"], now, "ann")))[0] == "version_too_old"
        assert (await refuse(restore(target, files["changed"], now, "ann")))[0] == "migration_changed"
        assert (await refuse(restore(target, files["foreign"], now, "ann")))[0] == "backup_unreadable"
        monkeypatch.setattr(database_copy, "_MARK", "SELECT 1 / 0;")
        code, detail = await refuse(restore(target, files["good"], now, "ann"))
        assert (code, "division by zero" in detail) == ("backup_failed", True)
        monkeypatch.undo()
        reader = ("pg_restore", "--file=-", "--table=run", "--schema=no", str(data))
        assert (await refuse(run_script(target, reader, "CREATE TABLE public.half ();")))[0] == "backup_failed"
        assert await tables(target) == 0, "what is not marked is not there"

        await connection.execute("DELETE FROM towpath_migration WHERE version = '9'")

        async def lost(dsn: str) -> None:
            raise ConnectionResetError("the server closed the connection")

        monkeypatch.setattr(database_copy, "migrate", lost)
        code, detail = await refuse(restore(target, files["good"], now, "d'Arc"))
        assert (code, detail.partition(";")[0]) == ("restored_not_migrated", "2 runs are marked")
        assert detail.endswith("the server closed the connection")
        assert (await look(target))["marked"] == [now, now]
        await connection.close()
        connection = await asyncpg.connect(target)
        assert await connection.fetchval("SELECT restored_by FROM tas.restore") == "d'Arc"
        await connection.close()

    await in_database(data, work)


@pytest.mark.parametrize("name", ["nightly.dump", "towpath-20261399T080000Z.dump", "towpath-20261127T080000Z.dump.1"])
def test_of_a_file_that_another_named_the_time_has_to_be_said(name: str) -> None:
    with pytest.raises(ProblemError) as refused:
        database_copy._made_at(Path(name))
    assert refused.value.problem.code == "request_invalid"


def test_the_name_of_a_backup_says_in_utc_when_it_was_begun() -> None:
    east = datetime.fromisoformat("2026-11-27T10:00:00+02:00")
    name = database_copy.backup_name(east)
    assert (name, database_copy._made_at(Path(name))) == ("towpath-20261127T080000Z.dump", east)


def test_a_store_of_the_broker_that_can_not_be_moved_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = data / "nats" / "store"
    _empty_broker(data)  # there is none
    (store / "messages").mkdir(parents=True)
    _empty_broker(data)
    assert list((data / "nats").iterdir()) == []
    store.mkdir()

    def busy(self: Path, target: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(ProblemError) as refused:
        _empty_broker(data)
    assert (refused.value.problem.code, store.is_dir()) == ("broker_not_emptied", True)


def test_what_no_dump_has_is_said_by_the_first_migration() -> None:
    roles, temporary, settings = server_parts()
    assert "CREATE ROLE" in roles
    assert "REVOKE TEMPORARY" in temporary
    assert "ALTER ROLE" in settings


async def test_of_what_a_program_says_the_end_is_shown() -> None:
    with pytest.raises(ProblemError) as refused:
        await run_program("pg_restore", None, "--list", "/long" * 600)
    said = refused.value.problem.detail.removeprefix("pg_restore ended with 1: ")
    assert (refused.value.problem.code, len(said)) == ("backup_failed", 1_000)
    assert said.endswith(("File name too long", "No such file or directory"))
