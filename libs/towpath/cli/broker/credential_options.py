"""What the commands `credential` of workers, agents and clients have in common: keep, remove and show entries.

An entry that can't be is refused before anything is written; a password is written, and never printed.
"""

import sys
from pathlib import Path
from typing import Any, Literal

from towpath.cli.broker.broker_user_list import (
    FILE,
    BrokerUserList,
    forget_password,
    load,
    read,
    require_whole_secrets,
    store,
    write_password,
)
from towpath.cli.shared.options import OutputOptions
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem

Kind = Literal["workers", "agents"]

DEPLOY = Path("deploy")


def load_list(deploy: Path) -> BrokerUserList:
    """Return who may connect to the broker of *deploy*; raises ProblemError where that is no folder.

    Whoever has none is with `towpath up`, whose broker never reads such a list.
    """
    if not deploy.is_dir():
        detail = f"the folder {deploy}, which has the credentials of a deployment, is not there"
        remedy = (
            "Name that of your deployment: --deploy FOLDER. towpath up has no credentials: programs leave caller= and "
            "the password out, and workers and agents are started in its folder."
        )
        raise ProblemError(problem("file_missing", detail, remedy=remedy))
    return load(deploy / FILE)


def save_credential(
    kind: Kind, name: str, entry: dict[str, Any], owner: str, deploy: Path, printed: OutputOptions
) -> None:
    """Make or change the entry *name* and its password; *owner* describes who connects with it.

    Raises ProblemError `request_invalid` for an entry that can't be.
    """
    made = load_list(deploy).model_dump()
    require_whole_secrets(deploy / "secrets")
    made[kind][name] = entry
    save_user(name, made, f"{owner}: TOWPATH_NATS_USER={name}, TOWPATH_PROJECT={entry['project']}", deploy, printed)


def save_user(name: str, made: dict[str, Any], told: str, deploy: Path, printed: OutputOptions) -> None:
    """Write the list *made*, in which *name* is new or changed, and its password; *told* describes how it connects.

    Raises ProblemError `request_invalid` for a list that can't be.
    """
    store(deploy, read(made, "this credential can't be"), name)
    out = printed.out()
    if write_password(deploy / "secrets", name):
        out.write(f"{told}, secrets/{name}.env")
        out.write("The broker knows it once it is started again: docker compose up --detach nats")
    else:
        missing = f"{deploy / 'secrets'} is not made yet, so {name} has no password; make it: {deploy / 'make-secrets'}"
        print(missing, file=sys.stderr)


def remove_credential(kind: Kind | Literal["clients"], name: str, deploy: Path) -> None:
    """Remove the entry *name* with its password and nkey; raises ProblemError `not_found`."""
    known = load_list(deploy)
    if name not in getattr(known, kind):
        raise ProblemError(problem("not_found", f"{deploy / FILE} has no {kind.removesuffix('s')} {name}"))
    store(deploy, known.without(name), name)
    forget_password(deploy / "secrets", name)


def show_credentials(
    kind: Kind | Literal["clients"], columns: tuple[Column, ...], deploy: Path, printed: OutputOptions
) -> None:
    """Print the entries of *kind*."""
    known = load_list(deploy)
    if kind == "clients":
        rows = [{"name": name, "operates": name in known.operators} for name in known.clients]
    else:
        rows = [{"name": name, **one.model_dump(mode="json")} for name, one in getattr(known, kind).items()]
    hint = f"There are none in {deploy / FILE}. Add one: towpath {kind} credential add NAME."
    printed.out().rows("credentials", rows, columns, empty=hint)
