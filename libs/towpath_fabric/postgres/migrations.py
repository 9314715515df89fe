"""Applies plain SQL migrations: `<package>/migrations/NNNN_name.sql`, in dbmate's form (`-- migrate:up`).

An applied file never changes (its checksum is stored); files run in order of (owner's place, number), each in one
transaction, under one advisory lock, so that two processes may start at the same time.
"""

import importlib.util
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.outages.outage import reason_of
from towpath_fabric.postgres.database_hosts import DatabaseHosts
from towpath_fabric.postgres.pool import DATABASE_DOWN, open_pool

OWNERS: tuple[str, ...] = (
    "towpath_fabric",
    "towpath_gateway",
    "towpath_orchestrator",
    "towpath_tas",
    "towpath_log_writer",
)
"""Packages with migrations, in the order in which their schemas depend on each other."""

LOCK_KEY = 7_026_113
"""Advisory lock of migration runs; any constant will do, as long as it never changes."""

_UP = re.compile(r"^--\s*migrate:up.*$", re.MULTILINE)
_DOWN = re.compile(r"^--\s*migrate:down.*$", re.MULTILINE)

_TABLE = """
CREATE TABLE IF NOT EXISTS public.towpath_migration (
  owner text NOT NULL, version text NOT NULL, name text NOT NULL, checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (owner, version))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. `applied` is whether the database has it; `newer` whether only a newer version knows it."""

    owner: str
    version: str
    name: str
    sql: str
    checksum: str
    applied: bool = False
    newer: bool = False


def _files(owner: str) -> list[Path]:
    spec = importlib.util.find_spec(owner)
    if spec is None or spec.origin is None:
        return []
    return sorted((Path(spec.origin).parent / "migrations").glob("[0-9]*_*.sql"))


def discover() -> list[Migration]:
    """Return every migration of the installed packages, in order; raises ValueError for a file without `migrate:up`."""
    found: list[Migration] = []
    for owner in OWNERS:
        for path in _files(owner):
            text = path.read_text("utf-8")
            after = _UP.split(text, maxsplit=1)
            if len(after) != 2:
                msg = f"{path} has no line '-- migrate:up'"
                raise ValueError(msg)
            version, _, name = path.stem.partition("_")
            up = _DOWN.split(after[1], maxsplit=1)[0]
            found.append(Migration(owner=owner, version=version, name=name, sql=up, checksum=digest_text(text)))
    return found


async def status(dsn: str) -> list[Migration]:
    """Return every migration with whether it is applied, at the end those that only a newer version knows.

    Raises ProblemError `migration_changed` for one that was edited.
    """
    connection = await DatabaseHosts(dsn).connect()
    try:
        await connection.execute(_TABLE)
        return await _status(connection)
    finally:
        await connection.close()


async def _status(connection: Any) -> list[Migration]:
    rows = await connection.fetch("SELECT owner, version, name, checksum FROM public.towpath_migration")
    applied = {(row["owner"], row["version"]): row["checksum"] for row in rows}
    result = []
    for migration in discover():
        checksum = applied.pop((migration.owner, migration.version), None)
        if checksum is not None and checksum != migration.checksum:
            detail = f"{_place(migration)} is not the file that was applied"
            raise ProblemError(problem("migration_changed", detail))
        result.append(replace(migration, applied=checksum is not None))
    newer = [
        Migration(
            owner=row["owner"],
            version=row["version"],
            name=row["name"],
            sql="",
            checksum=row["checksum"],
            applied=True,
            newer=True,
        )
        for row in rows
        if (row["owner"], row["version"]) in applied
    ]
    return result + sorted(newer, key=lambda migration: (migration.owner, migration.version))


async def check_applied(connection: Any) -> list[str]:
    """Compare what the database of *connection* has with what this version knows; for a service at its start.

    Returns what only a newer version knows: this one works beside it. Raises ProblemError `database_not_migrated` where
    anything is missing, and `migration_changed`.
    """
    try:
        found = await _status(connection)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
        raise ProblemError(problem("database_not_migrated", "the database has no tables of Towpath")) from error
    except asyncpg.InsufficientPrivilegeError as error:
        detail = f"this login can't read which migrations are applied: {error}"
        raise ProblemError(problem("database_not_migrated", detail)) from error
    missing = [_place(migration) for migration in found if not migration.applied]
    if missing:
        detail = f"{len(missing)} of {len(found)} migrations are missing, the first is {missing[0]}"
        raise ProblemError(problem("database_not_migrated", detail))
    return [_place(migration) for migration in found if migration.newer]


async def check_database(dsn: str) -> list[str]:
    """Return the migrations that only a newer version knows; raises ProblemError with what a service would end with.

    Or with `unavailable`, where a service would wait.
    """
    try:
        async with await open_pool(dsn, 1, "towpath_doctor") as pool:
            return await check_applied(pool)
    except DATABASE_DOWN as error:
        remedy = "Start Postgres, or correct the address: TOWPATH_DATABASE_URL."
        raise ProblemError(problem("unavailable", f"Postgres: {reason_of(error)}", remedy=remedy)) from error


def _place(migration: Migration) -> str:
    return f"{migration.owner}/{migration.version}_{migration.name}"


async def migrate(dsn: str) -> list[Migration]:
    """Apply what is missing, as the owner of the database; returns what was applied."""
    connection = await DatabaseHosts(dsn).connect()
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        await connection.execute(_TABLE)
        missing = [migration for migration in await _status(connection) if not migration.applied]
        for migration in missing:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO public.towpath_migration (owner, version, name, checksum) VALUES ($1, $2, $3, $4)",
                    migration.owner,
                    migration.version,
                    migration.name,
                    migration.checksum,
                )
        return missing
    finally:
        await connection.close()
