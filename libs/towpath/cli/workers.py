"""`towpath workers credential`: whom a deployed broker lets work, and on which toolsets.

Law: a credential is for named toolsets of one project; one password, made here, is written where the broker and the
worker read it and is never printed.
"""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.credentials import FILE, Credentials, load, password_variable, read, save
from towpath.cli.options import PRINTED, Printed, examples
from towpath.cli.output import Column
from towpath_contracts.problems import ProblemError, problem

app = App(name="workers", help="Manage the credentials that workers connect with.")
credential = App(name="credential", help="Add, list and remove workers' credentials.")
app.command(credential)

Deploy = Annotated[Path, Parameter(name="--deploy")]
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
    _whole_secrets(deploy / "secrets")
    made = load(deploy / FILE).model_dump()
    made["workers"][name] = {"project": project, "toolsets": toolset}
    _store(deploy, read(made, "this credential can't be"), name)
    out = printed.out()
    if _write_password(deploy / "secrets", name):
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
    _store(deploy, known.model_copy(update={"workers": left}), name)
    _forget_password(deploy / "secrets", name)
    _show(deploy, printed)


def _store(deploy: Path, credentials: Credentials, name: str) -> None:
    variables = [password_variable(user) for user in credentials.users()]
    if len(set(variables)) < len(variables):
        raise ProblemError(problem("request_invalid", f"{name} differs from another user only in case or punctuation"))
    save(deploy / FILE, credentials)


def _whole_secrets(folder: Path) -> None:
    """Refuse, before anything is written, a folder of secrets that the broker's own are missing from."""
    if folder.exists() and not (folder / "nats.env").exists():
        detail = f"{folder / 'nats.env'} is not there, so the broker would never learn this password"
        remedy = (
            f"Restore it; or remove {folder} and the volumes that were made with it, and make it again: make-secrets."
        )
        raise ProblemError(problem("file_missing", detail).model_copy(update={"remedy": remedy}))


def _write_password(folder: Path, name: str) -> bool:
    """Give *name* a password where it has none yet; False without secrets, which are made for all at once."""
    broker = folder / "nats.env"
    variable = password_variable(name)
    if not broker.exists():
        return False
    if any(_sets(line, variable) for line in broker.read_text("utf-8").splitlines()):
        return True
    password = f"p{secrets.token_hex(24)}"  # a letter first: the broker reads what looks like a number as one
    with broker.open("a", encoding="utf-8") as file:
        file.write(f"{variable}={password}\n")
    with os.fdopen(os.open(folder / f"{name}.env", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"TOWPATH_NATS_PASSWORD={password}\n")
    return True


def _forget_password(folder: Path, name: str) -> None:
    broker = folder / "nats.env"
    if broker.exists():
        variable = password_variable(name)
        kept = [line for line in broker.read_text("utf-8").splitlines() if not _sets(line, variable)]
        broker.write_text("\n".join([*kept, ""]), "utf-8")
    (folder / f"{name}.env").unlink(missing_ok=True)


def _sets(line: str, variable: str) -> bool:
    """Say whether *line* sets just this variable: a name may begin with another, or end with it."""
    return line.startswith(f"{variable}=")


def _show(deploy: Path, printed: Printed) -> None:
    rows = [{"name": name, **one.model_dump(mode="json")} for name, one in load(deploy / FILE).workers.items()]
    printed.out().rows("credentials", rows, _COLUMNS, empty="There are none.")
