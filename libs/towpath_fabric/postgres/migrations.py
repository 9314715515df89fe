"""Applies plain SQL migrations: `<package>/migrations/NNNN_name.sql`, in dbmate's form (`-- migrate:up`).

An applied file never changes (its checksum is stored); files run in order of (owner's place, number), each in one
transaction, under one advisory lock, so that two processes may start at the same time. A file that services of some
earlier version can't work with says so, `-- oldest: 0.3` is the oldest one that can: earlier ones refuse to start then.
One that writes tables anew names them, `-- rewrites: runs.run, runs.event`: nobody reads or writes them meanwhile.
"""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as installed_version
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

MIN_POSTGRES = 16
"""The oldest major version of Postgres that takes the files: `STORAGE` stands where a table is made since 16."""

_UP = re.compile(r"^--\s*migrate:up.*$", re.MULTILINE)
_DOWN = re.compile(r"^--\s*migrate:down.*$", re.MULTILINE)
_OLDEST = re.compile(r"^--\s*oldest:\s*(\d+(?:\.\d+)*)\s*$", re.MULTILINE)
_REWRITES = re.compile(r"^--\s*rewrites:\s*(\S.*)$", re.MULTILINE)
_RELEASE = re.compile(r"\d+(?:\.\d+)*")

_TABLE = """
CREATE TABLE IF NOT EXISTS public.towpath_migration (
  owner text NOT NULL, version text NOT NULL, name text NOT NULL, checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(), oldest text, PRIMARY KEY (owner, version));
ALTER TABLE public.towpath_migration ADD COLUMN IF NOT EXISTS oldest text;
"""

_APPLIED = """
SELECT owner, version, name, checksum, to_jsonb(towpath_migration) ->> 'oldest' AS oldest FROM public.towpath_migration
"""
_SIZES = """
SELECT name, pg_total_relation_size(to_regclass(name)) AS bytes FROM unnest($1::text[]) AS name
WHERE to_regclass(name) IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. `applied` is whether the database has it; `newer` whether only a newer version knows it.

    `oldest` is the oldest version whose services can work with it; None where all can. `rewrites` are the tables, with
    their schemas, that were there before and are written anew.
    """

    owner: str
    version: str
    name: str
    sql: str
    checksum: str
    applied: bool = False
    newer: bool = False
    oldest: str | None = None
    rewrites: tuple[str, ...] = ()


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
            oldest, rewrites = _OLDEST.search(after[0]), _REWRITES.search(after[0])
            found.append(
                Migration(
                    owner=owner,
                    version=version,
                    name=name,
                    sql=up,
                    checksum=digest_text(text),
                    oldest=oldest[1] if oldest else None,
                    rewrites=tuple(name.strip() for name in rewrites[1].split(",")) if rewrites else (),
                )
            )
    return found


async def status(dsn: str) -> list[Migration]:
    """Return every migration with whether it is applied, at the end those that only a newer version knows.

    Raises ProblemError `migration_changed` for one that was edited, and `database_too_old`.
    """
    connection = await _connect(dsn)
    try:
        await connection.execute(_TABLE)
        return await applied_status(connection)
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What `migrate` would do: `missing` in order, the `sizes` in bytes of tables that it writes anew, and `newer`."""

    missing: list[Migration]
    sizes: Mapping[str, int]
    newer: list[Migration]


async def plan(dsn: str) -> MigrationPlan:
    """Return what `migrate` would do, and change nothing; raises ProblemError as it does."""
    connection = await _connect(dsn)
    try:
        async with connection.transaction(readonly=True):
            is_there = await connection.fetchval("SELECT to_regclass('public.towpath_migration') IS NOT NULL")
            found = compare_applied(await connection.fetch(_APPLIED) if is_there else [])
            missing = [migration for migration in found if not migration.applied]
            names = sorted({name for migration in missing for name in migration.rewrites})
            sizes = {row["name"]: row["bytes"] for row in await connection.fetch(_SIZES, names)}
        return MigrationPlan(missing=missing, sizes=sizes, newer=[migration for migration in found if migration.newer])
    finally:
        await connection.close()


async def applied_status(connection: Any) -> list[Migration]:
    """Return what `status` does, over a *connection* that may only read."""
    rows = await connection.fetch("SELECT owner, version, name, checksum, oldest FROM public.towpath_migration")
    return compare_applied(rows)


def compare_applied(rows: Sequence[Mapping[str, Any]]) -> list[Migration]:
    """Compare the *rows* of the table of migrations with what is installed, as `status` does."""
    applied = {(row["owner"], row["version"]): row["checksum"] for row in rows}
    result = []
    for migration in discover():
        checksum = applied.pop((migration.owner, migration.version), None)
        if checksum is not None and checksum != migration.checksum:
            detail = f"{place_of(migration)} is not the one that this database has"
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
            oldest=row["oldest"],
        )
        for row in rows
        if (row["owner"], row["version"]) in applied
    ]
    return result + sorted(newer, key=lambda migration: (migration.owner, migration.version))


async def check_applied(connection: Any) -> list[str]:
    """Compare what the database of *connection* has with what this version knows; for a service at its start.

    Returns what only a newer version knows: this one works beside it. Raises ProblemError `database_not_migrated` where
    anything is missing, `migration_changed`, and `version_too_old` for a database that this version can't work with.
    """
    try:
        found = await applied_status(connection)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError) as error:
        raise ProblemError(problem("database_not_migrated", "the database has no tables of Towpath")) from error
    except asyncpg.InsufficientPrivilegeError as error:
        detail = f"this login can't read which migrations are applied: {error}"
        raise ProblemError(problem("database_not_migrated", detail)) from error
    missing = [place_of(migration) for migration in found if not migration.applied]
    if missing:
        detail = f"{len(missing)} of {len(found)} migrations are missing, the first is {missing[0]}"
        raise ProblemError(problem("database_not_migrated", detail))
    newer = [migration for migration in found if migration.newer]
    refuse_if_too_old(newer)
    return [place_of(migration) for migration in newer]


def refuse_if_too_old(newer: list[Migration]) -> None:
    """Raise ProblemError `version_too_old` where *newer* has what this version's services can't work with."""
    own = installed_version("towpath") if newer else ""
    needed = [one for one in newer if one.oldest is not None and release_of(one.oldest) > release_of(own)]
    if needed:
        last = max(needed, key=lambda one: release_of(one.oldest or ""))
        detail = f"{place_of(last)} is applied, with which services work from {last.oldest} on; this is {own}"
        raise ProblemError(problem("version_too_old", detail))


def release_of(version: str) -> tuple[int, ...]:
    """Return the numbers that *version* begins with, as `0.3.0rc1` does with (0, 3, 0)."""
    found = _RELEASE.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()


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


def place_of(migration: Migration) -> str:
    """Return how a migration is named to people."""
    return f"{migration.owner}/{migration.version}_{migration.name}"


async def migrate(dsn: str) -> list[Migration]:
    """Apply what is missing, as the owner of the database; returns what was applied.

    Raises ProblemError `migration_changed`, and `database_too_old` for a server that does not take the files.
    """
    connection = await _connect(dsn)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        await connection.execute(_TABLE)
        missing = [migration for migration in await applied_status(connection) if not migration.applied]
        for migration in missing:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO public.towpath_migration (owner, version, name, checksum, oldest)"
                    " VALUES ($1, $2, $3, $4, $5)",
                    migration.owner,
                    migration.version,
                    migration.name,
                    migration.checksum,
                    migration.oldest,
                )
        return missing
    finally:
        await connection.close()


async def _connect(dsn: str) -> Any:
    connection = await DatabaseHosts(dsn).connect()
    version = connection.get_server_version().major
    if version >= MIN_POSTGRES:
        return connection
    await connection.close()
    detail = f"Towpath needs PostgreSQL {MIN_POSTGRES} or newer; this server is {version}"
    raise ProblemError(problem("database_too_old", detail))
