"""Migrations are applied once, in order, by whoever comes first, and never changed afterwards."""

import asyncio
from collections.abc import AsyncIterator
from importlib.resources import files

import asyncpg
import pytest
from tests.conftest import DatabaseUrl

from towpath_contracts.problems.registry import ProblemError
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
        with pytest.raises(ProblemError, match="0001_gateway is not the file that was applied") as refused:
            await look(database())
        assert refused.value.problem.code == "migration_changed"
