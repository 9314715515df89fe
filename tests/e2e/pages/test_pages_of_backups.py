"""The blocks of the page about backups, run as they stand: a file, an archive of the log, and what people are asked."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.docs_site.page_player import COMMAND_S, PagePlayer
from tests.e2e.pages.conftest import Play, World
from tests.support.deploy.archived_postgres import ArchivedPostgres
from tests.support.platform.pages_platform import PagesPlatform
from tests.support.waiting import until

from towpath_embedded.servers.postgres_identity import postgres_home, temporary_folder

MARK = "SELECT tas.mark_restored(now() - interval '1 minute', 'ann')"


def test_backups(
    play: Play, world: World, served: PagesPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = play("docs/backup-and-restore.md")
    monkeypatch.setenv("PATH", f"{postgres_home() / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with monkeypatch.context() as patch:
        patch.setenv("TOWPATH_DATABASE_URL", served.database_url)
        places = {"/backups": str(tmp_path / "backups"), "/backups/": f"{tmp_path}/backups/"}
        page.shell({**places, "postgresql://owner@db/towpath": served.database_url})
    made = sorted(Path("backups").glob("*.dump"))
    assert len(made) == 2
    with temporary_folder() as folder:
        restored(page, folder, made[0], monkeypatch)
    lost = [world.waiting() for _ in range(4)]
    asyncio.run(fetched(served.database_url, MARK))
    gates = [asked_about(world, *one) for one in lost]
    page.shell({"GATE": gates[:2]})
    (_, done) = page.shell(read={"NAME": lambda out: str(json.loads(out)["listed"])})
    assert all(gate in done.out for gate in gates[2:])
    assert {world.ask("runs", "watch", run_id)["status"] for run_id, _ in lost} == {"completed"}


def asked_about(world: World, run_id: str, approval: str) -> str:
    """Approve the call of a run that was restored, and return the gate that asks whether it had happened."""
    world.ask("gates", "approve", approval, "--reason", "looked at")
    until = time.monotonic() + COMMAND_S
    while True:
        gates = world.ask("gates", "list", "--run", run_id)["gates"]
        if [gate["gate_type"] for gate in gates] == ["unknown_effect"]:
            return str(gates[0]["gate_id"])
        assert time.monotonic() < until, gates
        time.sleep(0.05)


def restored(page: PagePlayer, folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose what was written after a moment, and bring a database back from a file and from a base backup."""
    archive, base = folder / "archive", folder / "base"
    archive.mkdir()
    first = ArchivedPostgres(folder / "one", in_folder(page.take("ini").text, archive))
    first.own(archive)
    with running(first):
        execute(first, "CREATE TABLE work (done text)")
        page.shell({"postgresql://owner@db/postgres": first.dsn(database="postgres"), "/backups/base": str(base)})
        execute(first, "INSERT INTO work VALUES ('kept')")
        (moment,) = execute(first, "SELECT clock_timestamp()::text")
        execute(first, "INSERT INTO work VALUES ('lost')")
        for name in ("towpath", "other"):
            execute(first, f"CREATE DATABASE {name}")
        monkeypatch.setenv("TOWPATH_DATABASE_URL", first.dsn())
        dump = "/backups/towpath-20261127T080000Z.dump"
        page.shell({dump: str(file), "postgresql://owner@db/towpath": first.dsn(database="other")})
        recovery = page.take("ini").text
        page.shell()
    again = ArchivedPostgres(
        folder / "two", in_folder(recovery, archive).replace("2026-11-27 08:00:00+00", moment), base
    )
    with running(again):
        recovering = "SELECT pg_is_in_recovery()"  # it answers already while it replays, and until it is promoted
        asyncio.run(until(lambda: fetched(again.dsn(database="postgres"), recovering), lambda found: found == [False]))
        assert execute(again, "SELECT done FROM work") == ["kept"]
    assert "recovery stopping before commit of transaction" in again.log.read_text("utf-8")


def in_folder(settings: str, archive: Path) -> str:
    """Return *settings* with *archive* for the folder that the page names."""
    assert "/archive/%f" in settings
    return settings.replace("/archive/", f"{archive}/")


@contextlib.contextmanager
def running(server: ArchivedPostgres) -> Iterator[None]:
    """Have *server* run until the block ends."""
    asyncio.run(server.start())
    try:
        yield
    finally:
        asyncio.run(server.stop())


def execute(server: ArchivedPostgres, statement: str) -> list[Any]:
    """Return the first column of what *statement* finds in the database `postgres`."""
    return asyncio.run(fetched(server.dsn(database="postgres"), statement))


async def fetched(dsn: str, statement: str) -> list[Any]:
    """Return the first column of what *statement* finds."""
    connection = await asyncpg.connect(dsn)
    try:
        return [row[0] for row in await connection.fetch(statement)]
    finally:
        await connection.close()
