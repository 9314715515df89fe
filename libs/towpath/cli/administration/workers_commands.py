"""`towpath workers`: which are there, draining one; and whom a deployed broker lets work, and on which toolsets.

A credential is for named toolsets of one project; one password, made here, is written where the broker and the
worker read it and is never printed.
"""

import sys
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.broker.broker_user_list import Deploy
from towpath.cli.broker.credential_options import DEPLOY, remove_credential, save_credential, show_credentials
from towpath.cli.shared.options import CONNECTION_OPTIONS, OUTPUT_OPTIONS, ConnectionOptions, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="workers",
    help="See which workers there are, drain one, and manage what they connect with.",
    help_epilogue=examples("towpath workers list", "towpath workers drain 4f1c09aa --reason 'a new version'"),
)
credential = App(
    name="credential",
    help="Add, list and remove workers' credentials.",
    help_epilogue=examples(
        "towpath workers credential add billing --project shop --toolset billing", "towpath workers credential list"
    ),
)
app.command(credential)

RESTART = "It takes calls again once it is started anew; another worker of the toolset takes its calls meanwhile."

_PROCESSES = (
    Column("worker", lambda row: row["worker_id"][:12]),
    Column("state", "state"),
    Column("name", "name"),
    Column("toolsets", lambda row: " ".join(row["toolsets"])),
    Column("calls", lambda row: f"{row['calls']} of {row['slots']}"),
    Column("version", "version"),
    Column("started", lambda row: str(row["started_at"])[:19].replace("T", " ")),
    Column("heard of", lambda row: str(row["heard_at"])[:19].replace("T", " ")),
)
_DRAINED = (
    *_PROCESSES,
    Column("changed", lambda row: "yes" if row["changed"] else "no, it was so already"),
    Column("next", "next"),
)


@app.command(
    name="list", help_epilogue=examples("towpath workers list", "towpath workers list --toolset billing -o json")
)
async def list_workers(*, toolset: str | None = None, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the worker processes of the project, by what they said last; those that are gone come last.

    Args:
        toolset: Only those that serve this one.
    """
    async with common.connect() as client:
        found = await client.workers.list()
    listed = [one for one in found.workers if toolset is None or toolset in one.toolsets]
    rows = [one.model_dump(mode="json") for one in sorted(listed, key=lambda one: one.state == "gone")]
    common.out().rows(
        "workers", rows, _PROCESSES, empty="No worker says that it is there; start one: towpath worker MODULE"
    )
    if found.left_out:
        sys.stderr.write(f"{found.left_out} more toolsets of workers are not listed\n")


@app.command(
    help_epilogue=examples("towpath workers drain 4f1c09aa", "towpath workers drain 4f1c09aa --reason 'a new version'")
)
async def drain(worker: str, /, *, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Let a worker take no new calls; those that it has go on. It stays so until it is started again.

    Args:
        worker: Its id, or the beginning of that, or its whole name.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        found = (await client.workers.list()).workers
        meant = [one for one in found if one.name == worker or one.worker_id.startswith(worker.strip().lower())]
        there = [one for one in meant if one.state != "gone"]
        fits = [one for one in there if one.state == "taking"] or there  # a former one of the name may end its calls
        if len(fits) != 1:
            detail = f"{len(fits) or 'no'} workers that are there are meant by {worker!r}"
            if meant and not fits:
                last = f"{max(one.heard_at for one in meant):%Y-%m-%d %H:%M:%S} UTC"
                detail = f"the worker {worker!r} is gone, last heard of at {last}: it takes no calls"
            raise ProblemError(problem("not_found", detail, remedy="List them: towpath workers list"))
        done = await client.workers.drain(fits[0].worker_id, reason=reason)
    row: dict[str, Any] = {**done.worker.model_dump(mode="json"), "changed": done.changed, "next": RESTART}
    common.out().record(row, _DRAINED)


_COLUMNS = (
    Column("credential", "name"),
    Column("project", "project"),
    Column("toolsets", lambda row: " ".join(row["toolsets"])),
)


@credential.command(
    help_epilogue=examples(
        "towpath workers credential add billing --project shop --toolset billing",
        "towpath workers credential add all --project shop --toolset billing --toolset mail",
    )
)
def add(
    name: str,
    /,
    *,
    toolset: Annotated[tuple[str, ...], Parameter(negative="")],
    project: str = "default",
    deploy: Deploy = DEPLOY,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Make a credential, or change what an existing one serves.

    Args:
        name: The user of the broker; more copies of a worker share it.
        toolset: What it serves; may be given more than once.
        project: Whose calls it takes.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    save_credential("workers", name, {"project": project, "toolsets": toolset}, f"Worker {name}", deploy, printed)
    show_credentials("workers", _COLUMNS, deploy, printed)


@credential.command(
    name="list", help_epilogue=examples("towpath workers credential list", "towpath workers credential list -o json")
)
def list_(*, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the credentials of workers.

    Args:
        deploy: The folder with credentials.yaml.
    """
    show_credentials("workers", _COLUMNS, deploy, printed)


@credential.command(
    help_epilogue=examples(
        "towpath workers credential remove billing", "towpath workers credential remove billing -o json"
    )
)
def remove(name: str, /, *, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    remove_credential("workers", name, deploy)
    show_credentials("workers", _COLUMNS, deploy, printed)
