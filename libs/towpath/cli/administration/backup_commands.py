"""`towpath backup` and `towpath restore`: a platform's database in a file, and back.

The work is done by `python -m towpath_embedded.backups`; this file passes options on and shows the answer.
"""

from pathlib import Path

from towpath.cli.shared.child_process import run_module
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column, print_notice
from towpath.cli.shared.times import parse_moment

_MODULE = "towpath_embedded.backups"

_MADE = (
    Column("file", "file"),
    Column("bytes", "bytes"),
    Column("made at", "made_at"),
    Column("unfinished runs", "unfinished_runs"),
)
_RESTORED = (
    Column("file", "file"),
    Column("lost since", "lost_since"),
    Column("runs marked", "marked_runs"),
    Column("calls open", "open_calls"),
    Column("projects", "projects"),
)


async def backup(
    *,
    to: Path = Path(),
    data: Path | None = None,
    database_url: str | None = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Copy the database of a platform into a file; it may go on working meanwhile.

    The file has everything that the platform has recorded, and no keys: keep those apart from it.

    Args:
        to: The file to write, or the folder to write it into.
        data: The data folder of `towpath up`; without it and an address of a database the one here.
        database_url: The database of another platform, as its owner; else TOWPATH_DATABASE_URL.
    """
    with printed.out().progress("Copying the database"):
        _, found = await run_module(_MODULE, "make", "--to", str(to), *_place(data), **_address(database_url))
    printed.out().record(found, _MADE)
    if found["keep_apart"]:
        print_notice(f"Not in it, to be kept elsewhere: {', '.join(found['keep_apart'])}")


async def restore(
    file: Path,
    *,
    lost_since: str | None = None,
    data: Path | None = None,
    database_url: str | None = None,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Fill an empty database from a backup, and say in it that it was restored, as `towpath db restored` does.

    Every run that has not ended in the backup asks a person before each of its calls that is not pure: what it did
    since is not known. No service may run on the database. The broker of a data folder begins with an empty store; the
    one of TOWPATH_NATS_URL is asked whether it is empty.

    Args:
        file: What `towpath backup` wrote.
        lost_since: When the file was begun, in UTC; the name that `towpath backup` gives a file says it by itself.
        data: The data folder of `towpath up`; without it and an address of a database the one here.
        database_url: The empty database of another platform, as its owner; else TOWPATH_DATABASE_URL.
    """
    since = () if lost_since is None else ("--lost-since", parse_moment(lost_since, "--lost-since").isoformat())
    with printed.out().progress("Restoring the database"):
        _, found = await run_module(_MODULE, "put-back", str(file), *since, *_place(data), **_address(database_url))
    printed.out().record(found, _RESTORED)
    if found["broker_emptied"]:
        print_notice("The broker is empty: the services may start.")
    else:
        print_notice("Before the services start, empty the broker: it may know more than the database does.")


def _place(data: Path | None) -> tuple[str, ...]:
    return () if data is None else ("--data", str(data))


def _address(database_url: str | None) -> dict[str, str]:
    """Name the database where other users do not see its password, as they would in an argument."""
    return {} if database_url is None else {"TOWPATH_DATABASE_URL": database_url}
