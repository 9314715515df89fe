"""`python -m towpath_embedded.backups`: the work of `towpath backup` and `towpath restore`; prints one JSON document.

Without a database's address it is about the platform on a data folder, which may run while it is backed up and may not
while it is restored: where it does not run, its database is started for the time of the copy.
"""

import asyncio
import contextlib
import getpass
import logging
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from towpath_fabric.garbage_collector import paused

with paused():
    from cyclopts import App, Parameter
    from nats.errors import Error
    from nats.js.errors import Error as JetStreamError
    from pydantic import ValidationError

    from towpath_contracts.problems.registry import Problem, ProblemError, problem
    from towpath_embedded.backups.database_copy import backup_name, dump, restore
    from towpath_embedded.chaos.command_line import HELD, print_document, print_problem
    from towpath_embedded.platform_state import (
        BROKER_FOLDER,
        DATABASE_FOLDER,
        lock_folder,
        make_folders,
        read_state,
        wait_for_predecessor,
    )
    from towpath_embedded.servers.postgres import Postgres
    from towpath_fabric.clock import wall
    from towpath_fabric.nats.broker_owner import connect
    from towpath_fabric.nats.login import LoginFileError, connect_options
    from towpath_fabric.settings import BrokerSettings

KEPT_APART = ("ticket.key", "seal.key", "checkpoints.txt", str(Path(BROKER_FOLDER) / "passwords.json"))
"""What a data folder has besides the database, and a backup has not: it must not lie in the same place."""

BROKER_ANSWERS_S = 3
BROKER_ATTEMPTS = 1
BROKER_PAUSE_S = 0.1
"""nats-py tries each node once more than this, also where it may not reconnect: sixty times by itself, for two minutes.

The database is back by then, and often the broker is down for it."""

STORE = Path(BROKER_FOLDER) / "store"

app = App(name="backups", help="Copy a platform's database into a file, and back.")


Address = Annotated[str | None, Parameter(env_var="TOWPATH_DATABASE_URL")]


@app.command
def make(*, to: Path, data: Path | None = None, database_url: Address = None) -> int:
    """Make a backup; `towpath backup --help` describes each option."""
    folder = _folder(data, database_url)
    file = (to / backup_name(wall()) if to.is_dir() else to).absolute()
    is_named = to.is_dir() or bool(to.suffix)
    there = folder is None or (folder / DATABASE_FOLDER).is_dir()
    kept = [] if folder is None else [str(folder / name) for name in KEPT_APART if (folder / name).exists()]

    async def work() -> dict[str, Any]:
        if not there:
            raise ProblemError(problem("file_missing", f"{folder} has no platform"))
        if not is_named:  # a file of this name would tell nobody when it was made
            making = f"install --directory --mode=0700 {shlex.quote(str(to))}"
            remedy = f"Make the folder first ({making}), or name a file, such as {to}.dump."
            raise ProblemError(problem("file_missing", f"there is no folder {to}", remedy=remedy))
        async with _database(folder, database_url) as dsn:
            done = await dump(dsn, file)
        said = {"file": str(file), "bytes": done.size, "made_at": done.made_at.isoformat()}
        return {**said, "unfinished_runs": done.unfinished, "keep_apart": kept}

    return _printed(work())


@app.command
def put_back(
    file: Path, *, data: Path | None = None, database_url: Address = None, lost_since: datetime | None = None
) -> int:
    """Restore a backup; `towpath restore --help` describes each option."""
    return _printed(_put_back(file.absolute(), _folder(data, database_url), database_url, lost_since))


def _folder(data: Path | None, database_url: str | None) -> Path | None:
    """Return the data folder that is meant; None where the database of another platform is."""
    return None if data is None and database_url else (data or Path(".towpath")).absolute()


def _printed(work: Coroutine[Any, Any, dict[str, Any]]) -> int:
    try:
        print_document(asyncio.run(work))
    except ProblemError as error:
        return print_problem(error)
    return HELD


async def _put_back(file: Path, data: Path | None, database_url: str | None, since: datetime | None) -> dict[str, Any]:
    if data is None:
        marks = await restore(database_url or "", file, since, getpass.getuser())
    else:
        with lock_folder(data):
            await wait_for_predecessor(data)
            make_folders(data)
            async with _stopped_database(data) as dsn:
                try:
                    marks = await restore(dsn, file, since, getpass.getuser(), lambda: _empty_broker(data))
                except ProblemError as error:
                    raise ProblemError(_in_folder(error.problem, data)) from error
    said = {"file": str(file), "lost_since": marks.lost_since.isoformat(), "marked_runs": marks.runs}
    emptied = data is not None or await is_broker_empty()
    return {**said, "open_calls": marks.calls, "projects": marks.projects, "broker_emptied": emptied}


def _empty_broker(data: Path) -> None:
    """Move the broker's store away, which has messages about what the database does not know, and remove it then."""
    store = data / STORE
    away = store.with_name(f"store.old-{wall():%Y%m%dT%H%M%S%f}")
    try:
        store.rename(away)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ProblemError(problem("broker_not_emptied", f"{store} can't be moved: {error.strerror}")) from error
    shutil.rmtree(away, ignore_errors=True)  # what is left of it is read by nobody


def _in_folder(found: Problem, data: Path) -> Problem:
    """Return the problem with a remedy that fits a data folder."""
    if found.code != "database_not_empty":
        return found
    place = shlex.quote(str(data / DATABASE_FOLDER))
    return found.model_copy(update={"remedy": f"Move the old database away: mv {place} {place}.old"})


@contextlib.asynccontextmanager
async def _database(data: Path | None, database_url: str | None) -> AsyncIterator[str]:
    """Address the database as its owner: the one that is named, or the platform's on *data*."""
    state = None if data is None else read_state(data)
    if data is None:
        yield database_url or ""
    elif state is not None:  # it runs
        yield str(state["database_url"])
    else:
        with lock_folder(data):
            await wait_for_predecessor(data)
            async with _stopped_database(data) as dsn:
                yield dsn


@contextlib.asynccontextmanager
async def _stopped_database(data: Path) -> AsyncIterator[str]:
    """Start the database of a platform that does not run, for as long as the block lasts."""
    server = Postgres(data / DATABASE_FOLDER, log=data / "logs" / "postgres.log")
    await server.start()
    try:
        await server.ensure_database()
        yield server.dsn()
    finally:
        await server.stop()


async def is_broker_empty() -> bool:
    """Return whether no stream of the broker ever had a message; False where none is named, or it does not say.

    It is asked as `deploy`, who declares its streams.
    """
    try:
        settings = BrokerSettings()
        if "nats_url" not in settings.model_fields_set:
            return False
        connection = await connect(
            settings.nats_servers,
            owner=settings.nats_owner,
            **connect_options(settings),
            inbox_prefix=b"_INBOX_deploy",
            connect_timeout=BROKER_ANSWERS_S,
            allow_reconnect=False,
            max_reconnect_attempts=BROKER_ATTEMPTS,
            reconnect_time_wait=BROKER_PAUSE_S,
            error_cb=_note_error,
        )
    except (ValidationError, LoginFileError, OSError, Error):
        return False
    try:
        # Messages that were taken out again are as bad: the broker goes on to drop new ones that have their ids.
        return all(stream.state.last_seq == 0 for stream in await connection.jetstream().streams_info())
    except (OSError, Error, JetStreamError):
        return False
    finally:
        await connection.close()


async def _note_error(error: Exception) -> None:
    """Log quietly: nats-py would print the stack, and whoever asks is told that the broker does not say."""
    logging.getLogger("towpath.backups").debug("the broker: %s", error)


if __name__ == "__main__":
    sys.exit(app(result_action="return_value"))
