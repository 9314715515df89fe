"""`towpath workers credential`: whom a deployed broker lets work, and on which toolsets.

Law: a credential is for named toolsets of one project; one password, made here, is written where the broker and the
worker read it and is never printed.
"""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.credentials import (
    FILE,
    Deploy,
    forget_password,
    load,
    read,
    require_whole_secrets,
    store,
    write_password,
)
from towpath.cli.options import PRINTED, Printed, examples
from towpath.cli.output import Column
from towpath_contracts.problems import ProblemError, problem

app = App(name="workers", help="Manage the credentials that workers connect with.")
credential = App(name="credential", help="Add, list and remove workers' credentials.")
app.command(credential)

_DEPLOY = Path("deploy")
_COLUMNS = (
    Column("credential", "name"),
    Column("project", "project"),
    Column("toolsets", lambda row: " ".join(row["toolsets"])),
)


@credential.command(help_epilogue=examples("towpath workers credential add billing --project shop --toolset billing"))
def add(
    name: str,
    /,
    *,
    toolset: Annotated[tuple[str, ...], Parameter(negative="")],
    project: str = "default",
    deploy: Deploy = _DEPLOY,
    printed: Printed = PRINTED,
) -> None:
    """Make a credential, or change what an existing one serves.

    Args:
        name: The user of the broker; more copies of a worker share it.
        toolset: What it serves; may be given more than once.
        project: Whose calls it takes.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    require_whole_secrets(deploy / "secrets")
    made = load(deploy / FILE).model_dump()
    made["workers"][name] = {"project": project, "toolsets": toolset}
    store(deploy, read(made, "this credential can't be"), name)
    out = printed.out()
    if write_password(deploy / "secrets", name):
        out.say(f"Worker {name}: TOWPATH_NATS_USER={name}, TOWPATH_PROJECT={project}, secrets/{name}.env")
        out.say("The broker knows it once it is started again: docker compose up --detach nats")
    else:
        missing = f"{deploy / 'secrets'} is not made yet, so {name} has no password; make it: {deploy / 'make-secrets'}"
        print(missing, file=sys.stderr)
    _show(deploy, printed)


@credential.command(name="list", help_epilogue=examples("towpath workers credential list"))
def list_(*, deploy: Deploy = _DEPLOY, printed: Printed = PRINTED) -> None:
    """List the credentials of workers.

    Args:
        deploy: The folder with credentials.yaml.
    """
    _show(deploy, printed)


@credential.command(help_epilogue=examples("towpath workers credential remove billing"))
def remove(name: str, /, *, deploy: Deploy = _DEPLOY, printed: Printed = PRINTED) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    known = load(deploy / FILE)
    if name not in known.workers:
        raise ProblemError(problem("not_found", f"{deploy / FILE} has no worker {name}"))
    left = {other: one for other, one in known.workers.items() if other != name}
    store(deploy, known.model_copy(update={"workers": left, "nkeys": known.nkeys_without(name)}), name)
    forget_password(deploy / "secrets", name)
    _show(deploy, printed)


def _show(deploy: Path, printed: Printed) -> None:
    rows = [{"name": name, **one.model_dump(mode="json")} for name, one in load(deploy / FILE).workers.items()]
    printed.out().rows("credentials", rows, _COLUMNS, empty="There are none.")
