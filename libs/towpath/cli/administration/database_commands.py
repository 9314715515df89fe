"""`towpath db`: the database's migrations, and what is to be said after a restore, as its owner."""

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column, Row, print_notice
from towpath.cli.shared.times import parse_moment
from towpath.extras import require_packages
from towpath_contracts.problems.registry import ProblemError, problem

_NEEDS = "towpath_orchestrator"
"""Whose packages reach the database."""

app = App(
    name="db",
    help="Bring the database up to date, and say that it was restored.",
    help_epilogue=examples("towpath db plan", "towpath db migrate"),
)

BYTES_OF_MIB = 1024 * 1024

Address = Annotated[str | None, Parameter(env_var="TOWPATH_DATABASE_URL")]
_COLUMNS = (
    Column("owner", "owner"),
    Column("version", "version"),
    Column("name", "name"),
    Column("applied", "applied"),
    Column("newer", "newer"),
)
_RESTORED = (
    Column("lost since", "lost_since"),
    Column("runs marked", "runs"),
    Column("calls open", "calls"),
    Column("projects", "projects"),
    Column("marked before", "already"),
)


@app.command(
    help_epilogue=examples("towpath db migrate", "towpath db migrate --database-url postgresql://owner@host/db")
)
async def migrate(*, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Apply what is missing; two at once are harmless.

    Args:
        database_url: The database, as its owner.
    """
    require_packages(_NEEDS)
    from towpath_fabric.postgres.migrations import migrate as apply

    with printed.out().progress("Migrating the database"):
        done = await _reached(apply, database_url)
    rows = [{**_row(migration), "applied": True} for migration in done]
    printed.out().rows("migrations", rows, _COLUMNS, empty="The database is up to date.")


@app.command(
    help_epilogue=examples("towpath db plan", "towpath db plan --database-url postgresql://owner@host/db -o json")
)
async def plan(*, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Say what `towpath db migrate` would apply, and change nothing.

    It says which tables would be written anew, with their sizes: nobody reads or writes them meanwhile. And whether
    services of earlier versions start afterwards.

    Args:
        database_url: The database, as its owner.
    """
    require_packages(_NEEDS)
    from towpath_fabric.postgres.migrations import plan as look

    with printed.out().progress("Looking at the database"):
        found = await _reached(look, database_url)
    rows = [_planned_row(migration, found.sizes) for migration in found.missing]
    hint = "Nothing would be applied: the database is up to date. Every migration it has: towpath db status."
    printed.out().rows("migrations", rows, _PLANNED, empty=hint)
    if found.newer:
        print_notice(f"The database is newer than this version, which does not know the last {len(found.newer)}.")


def _planned_row(migration: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    said = {name: getattr(migration, name) for name in ("owner", "version", "name", "oldest", "checksum")}
    rewritten = [{"table": name, "bytes": sizes.get(name, 0)} for name in migration.rewrites]
    return {**said, "rewrites": rewritten, "old_versions_go_on": migration.oldest is None}


def _rewritten(row: Row) -> str:
    """Return which tables are written anew, each with its size."""
    return ", ".join(f"{one['table']} ({one['bytes'] / BYTES_OF_MIB:,.1f} MiB)" for one in row["rewrites"]) or "nothing"


_PLANNED = (
    Column("owner", "owner"),
    Column("version", "version"),
    Column("name", "name"),
    Column("writes anew", _rewritten, is_whole=True),
    Column("earlier services", lambda row: "go on" if row["old_versions_go_on"] else f"end, before {row['oldest']}"),
)


@app.command(help_epilogue=examples("towpath db status", "towpath db status -o json"))
async def status(*, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> int:
    """Show every migration; the exit code is 1 while one is missing.

    What a newer version has applied is listed too: this version works beside it.

    Args:
        database_url: The database, as its owner.
    """
    require_packages(_NEEDS)
    from towpath_fabric.postgres.migrations import status as look

    with printed.out().progress("Looking at the database"):
        found = await _reached(look, database_url)
    newer = [migration for migration in found if migration.newer]
    printed.out().rows("migrations", [_row(migration) for migration in found], _COLUMNS, empty="There are none.")
    if newer:
        print_notice(f"The database is newer than this version, which does not know the last {len(newer)}.")
    return 0 if all(migration.applied for migration in found) else 1


@app.command(
    help_epilogue=examples(
        "towpath db restored --lost-since 2026-11-27T08:00",
        "towpath db restored --lost-since 2026-11-27T08:00+01:00 --database-url postgresql://owner@host/db",
    )
)
async def restored(*, lost_since: str, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Say that the database was restored from a backup, after the restore and before any service starts.

    What the platform did after the backup was made is not in it, and would be done again. So every run that has not
    ended in it asks a person before each of its calls that is not pure. Saying it twice is harmless.

    Args:
        lost_since: When the backup was made, or up to when the log was recovered: 2026-11-27T08:00 is in UTC.
        database_url: The database, as its owner.
    """
    require_packages(_NEEDS)
    from towpath_fabric.postgres.restores import mark_restored

    since = parse_moment(lost_since, "--lost-since")
    with printed.out().progress("Marking the runs that have not ended"):
        marks = await _reached(lambda dsn: mark_restored(dsn, since, getpass.getuser()), database_url)
    said = {"lost_since": marks.lost_since.isoformat(), "runs": marks.runs, "calls": marks.calls}
    printed.out().record({**said, "projects": marks.projects, "already": marks.already}, _RESTORED)


def _row(migration: Any) -> dict[str, Any]:
    return {name: getattr(migration, name) for name in ("owner", "version", "name", "applied", "newer", "checksum")}


async def _reached(ask: Any, database_url: str | None) -> Any:
    import asyncpg

    from towpath_fabric.postgres.connection_refusals import refusal
    from towpath_fabric.postgres.pool import DATABASE_STARTING

    if not database_url:
        raise ProblemError(
            problem(
                "request_invalid", "no database is named", remedy="Give --database-url, or set TOWPATH_DATABASE_URL."
            )
        )
    try:
        found = await ask(database_url)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
        if (refused := refusal(error)) is not None:
            raise ProblemError(refused) from error
        if not isinstance(error, DATABASE_STARTING):
            raise
        detail = f"Postgres: {type(error).__name__}: {error}"
        raise ProblemError(
            problem("unavailable", detail, remedy="Check the address, and that the server runs.")
        ) from error
    return found
