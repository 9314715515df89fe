"""Copies a database into a file with pg_dump, and back with pg_restore.

The file has the database and nothing else: neither the keys of tool access, by which whoever has a copy could sign
what the audit is to prove, nor the roles, which belong to the server and have passwords. A restore fills an empty
database and marks its unfinished runs in one transaction, so no service ever sees them without the mark.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.backups.postgres_programs import run_program, run_script
from towpath_fabric.outages.outage import reason_of
from towpath_fabric.postgres.connection_refusals import refusal
from towpath_fabric.postgres.database_hosts import DatabaseHosts
from towpath_fabric.postgres.migrations import check_applied, compare_applied, discover, migrate, refuse_if_too_old
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.restores import RestoreMarks, refuse_future, refuse_running

_OWN_NAME = re.compile(r"towpath-(\d{8}T\d{6}Z)\.dump")
_SERVER_PARTS = re.compile(r"^DO \$\$.*?\$\$;$", re.MULTILINE | re.DOTALL)
_UNFINISHED = """
SELECT count(*) FROM runs.run
WHERE status NOT IN ('completed', 'failed', 'escalated', 'abandoned', 'cancelled', 'timed_out')
"""
_RELATIONS = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_COPIED = re.compile(r"^COPY public\.towpath_migration \(([^)]*)\) FROM stdin;\n(.*?)^\\\.$", re.MULTILINE | re.DOTALL)
_MARK = """
RESET ALL;
SELECT row_to_json(m) FROM tas.mark_restored(:'towpath_lost_since', :'towpath_said_by') m;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A file with a database as it was at `made_at`, by the database's clock; `unfinished` runs are under way in it."""

    file: Path
    size: int
    made_at: datetime
    unfinished: int


async def dump(dsn: str, file: Path) -> Backup:
    """Copy the database into *file*, which must not be there; the services may go on working meanwhile."""
    connection = await _connect(dsn)
    try:
        await check_applied(connection)
        made_at = await connection.fetchval("SELECT clock_timestamp()")
        unfinished = await connection.fetchval(_UNFINISHED)
    finally:
        await connection.close()
    part = _new_file(file)
    try:
        await run_program("pg_dump", dsn, "--format=custom", "--no-owner", "--file", str(part))
        part.rename(file)  # whole or not at all
    finally:
        part.unlink(missing_ok=True)
    return Backup(file=file, size=_size(file), made_at=made_at, unfinished=unfinished)


def _new_file(file: Path) -> Path:
    """Make the file beside *file* that becomes it, closed to others: it has what people wrote."""
    if file.exists():
        raise ProblemError(problem("request_invalid", f"{file} is there already", remedy="Name another file."))
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise ProblemError(problem("backup_failed", f"{file} can't be written: {error.strerror}")) from error
    return part


async def restore(
    dsn: str, file: Path, lost_since: datetime | None, by: str, ready: Callable[[], None] = lambda: None
) -> RestoreMarks:
    """Fill the empty database with what *file* has, bring it up to date, and mark the runs that have not ended.

    *ready* is called once nothing is refused any more, and before anything is written.

    *lost_since* is when *file* was made, without it the time in its name. Whatever fails, the database is empty
    still, or it is restored and marked; ProblemError `restored_not_migrated` says that only the last step is missing.
    """
    await _refuse_unusable(file)
    since = lost_since or _made_at(file)
    connection = await _connect(dsn)
    try:
        await refuse_running(connection)
        await refuse_future(connection, since)
        found = await connection.fetchval(_RELATIONS)
        if found:
            raise ProblemError(problem("database_not_empty", f"it has {found} tables and views"))
        for statement in server_parts():
            await connection.execute(statement)
    finally:
        await connection.close()
    ready()
    values = {"towpath_lost_since": since.isoformat(), "towpath_said_by": by}
    said = json.loads(await run_script(dsn, ("pg_restore", "--file=-", "--no-owner", str(file)), _MARK, **values))
    try:
        await migrate(dsn)
    except Exception as error:
        detail = error.problem.detail if isinstance(error, ProblemError) else reason_of(error)
        raise ProblemError(problem("restored_not_migrated", f"{said['runs']} runs are marked; {detail}")) from error
    return RestoreMarks(
        lost_since=since, runs=said["runs"], calls=said["calls"], projects=said["projects"], already=False
    )


async def _refuse_unusable(file: Path) -> None:
    """Raise ProblemError for a backup that this version can't bring up to date, or that has no tables of Towpath."""
    words = ("--data-only", "--schema=public", "--table=towpath_migration", "--file=-", str(file))
    found = _COPIED.search(await _read_archive(file, *words))
    if found is None:
        raise ProblemError(problem("backup_unreadable", f"{file} does not say which migrations are applied"))
    names = found[1].split(", ")
    rows = [dict(zip(names, line.split("\t"), strict=True)) for line in found[2].splitlines()]
    known = compare_applied([{**row, "oldest": _value(row.get("oldest"))} for row in rows])
    refuse_if_too_old([migration for migration in known if migration.newer])


def _value(copied: str | None) -> str | None:
    return None if copied == "\\N" else copied


def server_parts() -> list[str]:
    """Return the statements of the migrations that change what no dump has: roles, and their rights and settings."""
    [roles] = [migration.sql for migration in discover() if migration.name == "roles"]
    return _SERVER_PARTS.findall(roles)


def _size(file: Path) -> int:
    if not file.is_file():
        raise ProblemError(problem("file_missing", f"there is no file {file}"))
    return file.stat().st_size


def backup_name(made_at: datetime) -> str:
    """Return the name of a backup that is begun at *made_at*: it says so in UTC."""
    return f"towpath-{made_at.astimezone(UTC):%Y%m%dT%H%M%SZ}.dump"


def _made_at(file: Path) -> datetime:
    """Read the time in the name of *file*: an archive tells the local time of a machine, and not its zone."""
    found = _OWN_NAME.fullmatch(file.name)
    if found is None:
        remedy = "Give --lost-since, in UTC: the moment at which the backup was begun."
        raise ProblemError(
            problem("request_invalid", f"the name {file.name} does not say when it was made", remedy=remedy)
        )
    try:
        return datetime.fromisoformat(found[1])
    except ValueError as error:
        raise ProblemError(problem("request_invalid", f"{file.name}: {error}")) from error


async def _read_archive(file: Path, *words: str) -> str:
    try:
        _size(file)
        return await run_program("pg_restore", None, *words)
    except ProblemError as error:
        if error.problem.code != "backup_failed":
            raise
        raise ProblemError(problem("backup_unreadable", error.problem.detail)) from error


async def _connect(dsn: str) -> Any:
    try:
        return await DatabaseHosts(dsn).connect()
    except (*DATABASE_DOWN, ValueError) as error:
        if (refused := refusal(error)) is not None:
            raise ProblemError(refused) from error
        remedy = "Check the address, and that the server runs."
        raise ProblemError(problem("unavailable", f"Postgres: {reason_of(error)}", remedy=remedy)) from error
