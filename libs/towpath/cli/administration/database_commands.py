"""`towpath db`: the database's migrations, applied as its owner."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column, print_notice
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="db",
    help="Bring the database up to date.",
    help_epilogue=examples("towpath db status", "towpath db migrate"),
)

Address = Annotated[str | None, Parameter(env_var="TOWPATH_DATABASE_URL")]
_COLUMNS = (
    Column("owner", "owner"),
    Column("version", "version"),
    Column("name", "name"),
    Column("applied", "applied"),
    Column("newer", "newer"),
)


@app.command(
    help_epilogue=examples("towpath db migrate", "towpath db migrate --database-url postgresql://owner@host/db")
)
async def migrate(*, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Apply what is missing; two at once are harmless.

    Args:
        database_url: The database, as its owner.
    """
    from towpath_fabric.postgres.migrations import migrate as apply

    with printed.out().progress("Migrating the database"):
        done = await _reached(apply, database_url)
    rows = [{**_row(migration), "applied": True} for migration in done]
    printed.out().rows("migrations", rows, _COLUMNS, empty="The database is up to date.")


@app.command(help_epilogue=examples("towpath db status", "towpath db status -o json"))
async def status(*, database_url: Address = None, printed: OutputOptions = OUTPUT_OPTIONS) -> int:
    """Show every migration; the exit code is 1 while one is missing.

    What a newer version has applied is listed too: this version works beside it.

    Args:
        database_url: The database, as its owner.
    """
    from towpath_fabric.postgres.migrations import status as look

    with printed.out().progress("Looking at the database"):
        found = await _reached(look, database_url)
    newer = [migration for migration in found if migration.newer]
    printed.out().rows("migrations", [_row(migration) for migration in found], _COLUMNS, empty="There are none.")
    if newer:
        print_notice(f"The database is newer than this version, which does not know the last {len(newer)}.")
    return 0 if all(migration.applied for migration in found) else 1


def _row(migration: Any) -> dict[str, Any]:
    return {name: getattr(migration, name) for name in ("owner", "version", "name", "applied", "newer", "checksum")}


async def _reached(ask: Any, database_url: str | None) -> list[Any]:
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
        found: list[Any] = await ask(database_url)
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
