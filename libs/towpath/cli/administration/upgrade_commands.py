"""`towpath upgrade check`: whether this version may take over a database, asked before anything of it is started.

It is run with the new version, on the database of the one in service, and changes nothing.
"""

import asyncio
import json
import re
import sys
from collections import Counter
from datetime import datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.administration.server_checks import DoctorCheck, print_checks
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.times import parse_time
from towpath.extras import require_packages
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="upgrade",
    help="Look at what an upgrade would do.",
    help_epilogue=examples("towpath upgrade check", "towpath upgrade check --all"),
)

Address = Annotated[str | None, Parameter(env_var="TOWPATH_DATABASE_URL")]

REPLAY_SINCE = "1d"
"""Runs of a day show what a version does with today's logs; older ones are asked for."""

PASSING = frozenset({"identical", "parked", "incomplete"})
"""Verdicts that say nothing against this version (`towpath_contracts.runs.records`)."""

APART = 1
"""How many minor versions may be at work at the same time: one and the next."""

_COUNTS = """
SELECT status, count(*) AS runs FROM runs.run WHERE status IN ('queued', 'running', 'waiting', 'cancelling') GROUP BY 1
"""
_SESSIONS = """
SELECT DISTINCT application_name AS name FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^towpath_\\w+ '
"""
_NOT_SEEN = "Deciders, watchdogs and workers use no database, and are not seen here"
_SESSION = re.compile(r"^towpath_(\w+) (\S+)$")


@app.command(help_epilogue=examples("towpath upgrade check", "towpath upgrade check --since 30d -o json"))
async def check(
    *,
    since: str = REPLAY_SINCE,
    all_runs: Annotated[bool, Parameter(name="--all", negative="")] = False,
    database_url: Address = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> int:
    """Say whether this version may take over a database, and what it would change; the exit code is 1 where it may not.

    It looks at migrations, at the versions of services that are connected, and at runs that are under way, and replays
    stored runs with this version's engine.

    Args:
        since: Replay runs that were created since then: a time, or how long ago, as 1d.
        all_runs: Replay all runs.
        database_url: The database of the version in service, as a role that may read all tables.
    """
    if not database_url:
        remedy = "Give --database-url, or set TOWPATH_DATABASE_URL."
        raise ProblemError(problem("request_invalid", "no database is named", remedy=remedy))
    require_packages("towpath_orchestrator")
    began = None if all_runs else parse_time(since, "--since")
    with printed.out().progress("Looking at the database, and replaying runs"):
        found = [*await _database_checks(database_url), await _replayed(database_url, began)]
    return print_checks(printed.out(), found)


async def _database_checks(dsn: str) -> list[DoctorCheck]:
    import asyncpg

    from towpath_fabric.postgres.connection_refusals import refusal
    from towpath_fabric.postgres.database_hosts import DatabaseHosts

    try:
        connection = await DatabaseHosts(dsn).connect()
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
        if (refused := refusal(error)) is not None:
            raise ProblemError(refused) from error
        remedy = "Check the address, and that the server runs."
        raise ProblemError(problem("unavailable", f"Postgres: {error}", remedy=remedy)) from error
    try:
        names = [row["name"] for row in await connection.fetch(_SESSIONS)]
        migrations = await _migration_check(connection)
        if migrations.good is False:
            return [migrations, version_check(names)]
        return [migrations, version_check(names), _run_check(await connection.fetch(_COUNTS))]
    finally:
        await connection.close()


async def _migration_check(connection: Any) -> DoctorCheck:
    import asyncpg

    from towpath_fabric.postgres.migrations import applied_status, place_of, refuse_if_too_old

    try:
        found = await applied_status(connection)
        newer = [one for one in found if one.newer]
        refuse_if_too_old(newer)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        detail = f"the database has no tables of this version: {error}"
        return DoctorCheck("migrations", False, detail, "Run as the owner of the database: towpath db migrate.")
    except asyncpg.InsufficientPrivilegeError as error:
        detail = f"this login can't read which migrations are applied: {error}"
        return DoctorCheck("migrations", False, detail, "Give --database-url with the owner's login.")
    except ProblemError as error:
        refused = error.problem
        return DoctorCheck("migrations", False, f"{refused.code}: {refused.detail}", refused.remedy)
    missing = [one for one in found if not one.applied]
    if newer:
        named = ", ".join(map(place_of, newer))
        detail = f"the database is newer: {named}. This version works beside the one that applied them"
        return DoctorCheck("migrations", True, detail)
    if not missing:
        return DoctorCheck("migrations", True, "none to apply")
    refusing = [f"{place_of(one)} (from {one.oldest} on)" for one in missing if one.oldest is not None]
    detail = f"{len(missing)} to apply: {', '.join(map(place_of, missing))}"
    if refusing:
        detail += f". Services of earlier versions refuse to start after {', '.join(refusing)}"
    remedy = "Apply them before the first service of this version: towpath db migrate."
    return DoctorCheck("migrations", True, detail, remedy)


def version_check(sessions: list[str]) -> DoctorCheck:
    """Judge which versions are connected; *sessions* are names of connections, as `towpath_tas 0.1.0`."""
    from importlib.metadata import version

    from towpath_fabric.postgres.migrations import release_of

    own = version("towpath")
    seen = [match for name in sorted(sessions) if (match := _SESSION.match(name))]
    if not seen:
        return DoctorCheck("versions", None, f"no service is connected; this is {own}. {_NOT_SEEN}")
    counted: dict[str, list[str]] = {}
    for match in seen:
        counted.setdefault(match[2], []).append(match[1])
    told = "; ".join(f"{number}: {', '.join(roles)}" for number, roles in counted.items())
    detail = f"{told}; this is {own}. {_NOT_SEEN}"
    major, minor = (*release_of(own), 0, 0)[:2]
    far = [number for number in counted if not _is_near((*release_of(number), 0, 0)[:2], (major, minor))]
    if far:
        remedy = "Upgrade by one minor version at a time; only neighbours work side by side."
        return DoctorCheck("versions", False, detail, remedy)
    return DoctorCheck("versions", True, detail)


def _is_near(one: tuple[int, ...], other: tuple[int, int]) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= APART


def _run_check(rows: list[Any]) -> DoctorCheck:
    counts = Counter({row["status"]: row["runs"] for row in rows})
    if not counts:
        return DoctorCheck("runs", None, "none is under way")
    told = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    return DoctorCheck("runs", None, f"under way: {told}; they go on during the upgrade")


async def _replayed(dsn: str, since: datetime | None) -> DoctorCheck:
    """Replay stored runs with this version's engine, in a process of its own; it only reads."""
    import os

    from towpath.cli.shared.child_process import ending_with_us

    chosen = () if since is None else ("--since", since.isoformat())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "towpath_orchestrator", "replay", *chosen,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TOWPATH_DATABASE_URL": dsn},  # noqa: TID251 - handed on; an argument would show the password
        start_new_session=True,
    )  # fmt: skip
    async with ending_with_us(process):
        said, failed = await process.communicate()
    lines = said.decode().splitlines()
    if not lines or "engine_version" not in lines[-1]:
        detail = (failed.decode().strip().splitlines() or ["it said nothing"])[-1]
        return DoctorCheck("replay", False, detail, "Mend what it names, and check again.")
    totals = json.loads(lines[-1])
    engine = totals["engine_version"]
    detail = f"{totals['identical']} of {totals['runs']} runs give the same events with engine {engine}"
    if process.returncode:
        first: dict[str, Any] = next((one for one in map(json.loads, lines[:-1]) if one["verdict"] not in PASSING), {})
        remedy = (
            "Don't upgrade; export it (towpath runs export) and report it. All: python -m towpath_orchestrator replay."
        )
        return DoctorCheck("replay", False, f"{detail}; run {first.get('run_id')}: {first.get('why')}", remedy)
    return DoctorCheck("replay", True, detail)
