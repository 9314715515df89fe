"""Migrations are applied once, in order, by whoever comes first, and never changed afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.docs_site.taken_blocks import taken
from tests.support.cli.printed_documents import printing

from towpath.cli.administration import database_commands
from towpath.cli.shared.options import OutputOptions
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.postgres import migrations
from towpath_fabric.postgres.migrations import OWNERS, discover, migrate, status


@pytest.fixture
async def empty(database: DatabaseUrl) -> AsyncIterator[str]:
    """The address of a database whose migrations are all undone by their own `migrate:down` sections."""
    connection = await asyncpg.connect(database())
    try:
        for migration in reversed(discover()):
            file = files(migration.owner) / "migrations" / f"{migration.version}_{migration.name}.sql"
            text = file.read_text("utf-8")
            await connection.execute(text.partition("-- migrate:down")[2])
        await connection.execute("DROP TABLE public.towpath_migration")
        yield database()
    finally:
        await connection.close()


async def relations(dsn: str) -> set[str]:
    """Return every table, index, view, sequence and type of Towpath's schemas."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'public')"
        )
        return {row["name"] for row in rows}
    finally:
        await connection.close()


async def test_two_starts_at_once_apply_every_migration_once_and_in_order(empty: str) -> None:
    first, second = await asyncio.gather(migrate(empty), migrate(empty))
    applied = [(migration.owner, migration.version) for migration in [*first, *second]]
    assert applied == [(migration.owner, migration.version) for migration in discover()]
    assert applied == sorted(applied, key=lambda place: (OWNERS.index(place[0]), place[1]))
    assert await migrate(empty) == []
    assert all(migration.applied for migration in await status(empty))


@pytest.mark.parametrize("act", [migrate, status, migrations.plan])
async def test_a_server_that_is_too_old_is_told_before_anything_is_changed(
    act: Callable[[str], Awaitable[object]], empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MIN_POSTGRES", 99)
    with pytest.raises(
        ProblemError, match=r"^database_too_old: Towpath needs PostgreSQL 99 or newer; this server is 1\d"
    ):
        await act(empty)
    connection = await asyncpg.connect(empty)
    try:
        assert await connection.fetchval("SELECT to_regclass('public.towpath_migration')") is None
    finally:
        await connection.close()


async def test_what_is_undone_leaves_nothing_and_comes_back(empty: str) -> None:
    assert await relations(empty) == set()
    await migrate(empty)
    found = await relations(empty)
    assert {"runs.run", "tas.tool_call", "tas.audit_record", "gateway.api_key", "history.llm_call"} < found


async def test_a_migration_that_was_edited_after_it_was_applied_is_refused(database: DatabaseUrl) -> None:
    connection = await asyncpg.connect(database())
    try:
        await connection.execute(
            "UPDATE public.towpath_migration SET checksum = 'sha256:other' WHERE owner = 'towpath_gateway'"
        )
    finally:
        await connection.close()
    for look in (status, migrate):
        with pytest.raises(ProblemError, match="0001_gateway is not the one that this database has") as refused:
            await look(database())
        assert refused.value.problem.code == "migration_changed"


HEAD = (
    taken("docs/guides/upgrading.md: -- oldest")
    .text.replace(": 0.4\n", ": 9.1\n")
    .replace("runs.event", "gateway.gone")
)
NEXT = f"""{HEAD}ALTER TABLE runs.run ALTER COLUMN version TYPE bigint;
-- migrate:down
"""
TABLES = """
SELECT c.oid::regclass::text AS name, c.relfilenode FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relname <> 'towpath_migration'
"""


@pytest.mark.prints("db plan", "db migrate")
async def test_a_plan_says_what_would_be_applied_and_changes_nothing(
    empty: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = await relations(empty)
    assert [one["name"] for one in await planned(empty, capsys)] == [one.name for one in discover()]
    assert await relations(empty) == before, "not even the table of migrations"
    with printing("db migrate"):
        await database_commands.migrate(database_url=empty, printed=OutputOptions(output="json"))
    done = json.loads(capsys.readouterr().out)["migrations"]
    assert [(one["name"], one["applied"]) for one in done] == [(one.name, True) for one in discover()]
    assert await planned(empty, capsys) == []
    file = tmp_path / "9001_next.sql"
    file.write_text(NEXT, "utf-8")
    plain, added = migrations._files, {"towpath_tas": [file]}
    monkeypatch.setattr(migrations, "_files", lambda owner: [*plain(owner), *added.get(owner, ())])
    (row,) = await planned(empty, capsys)
    assert {name: row[name] for name in ("owner", "version", "name", "oldest", "old_versions_go_on")} == {
        "owner": "towpath_tas",
        "version": "9001",
        "name": "next",
        "oldest": "9.1",
        "old_versions_go_on": False,
    }
    size, gone = row["rewrites"]
    assert (size["table"], size["bytes"] > 0, gone) == ("runs.run", True, {"table": "gateway.gone", "bytes": 0})
    await database_commands.plan(database_url=empty, printed=OutputOptions(output="table"))
    shown = capsys.readouterr().out
    assert "runs.run (0." in shown and " MiB), gateway.gone (0.0 MiB)" in shown and "end, before 9.1" in shown
    assert [one.applied for one in await status(empty) if one.name == "next"] == [False]
    await migrate(empty)
    monkeypatch.undo()
    await database_commands.plan(database_url=empty, printed=OutputOptions(output="json"))
    said = capsys.readouterr()
    assert json.loads(said.out) == {"migrations": []}
    assert "newer than this version, which does not know the last 1" in said.err


async def planned(dsn: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    with printing("db plan"):
        await database_commands.plan(database_url=dsn, printed=OutputOptions(output="json"))
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["migrations"]
    return found


@pytest.mark.parametrize("added", ["", NEXT.replace(", gateway.gone", "")])
async def test_every_migration_names_the_tables_that_it_writes_anew_and_no_other(
    empty: str, added: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if added:
        (tmp_path / "9001_next.sql").write_text(added, "utf-8")
        plain, more = migrations._files, {"towpath_tas": [tmp_path / "9001_next.sql"]}
        monkeypatch.setattr(migrations, "_files", lambda owner: [*plain(owner), *more.get(owner, ())])
    connection = await asyncpg.connect(empty)
    try:
        await connection.execute(migrations._TABLE)
        for migration in discover():
            before = {row["name"]: row["relfilenode"] for row in await connection.fetch(TABLES)}
            async with connection.transaction():
                await connection.execute(migration.sql)
            after = {row["name"]: row["relfilenode"] for row in await connection.fetch(TABLES)}
            written = {name for name in before if name in after and before[name] != after[name]}
            assert written == {*migration.rewrites}, f"{migration.owner}/{migration.version}_{migration.name}"
    finally:
        await connection.close()
