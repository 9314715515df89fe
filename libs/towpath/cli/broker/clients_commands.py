"""`towpath clients`: the credentials of programs that submit over NATS, and hear what becomes of their runs.

A client's name is the caller of its runs; the project that they belong to is that of the caller's API key. One
password, made here, is written where the broker and the program read it and is never printed.
"""

from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.broker.broker_user_list import (
    FILE,
    Deploy,
    forget_password,
    load,
    require_whole_secrets,
    store,
)
from towpath.cli.broker.credential_options import DEPLOY, save_user
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem

app = App(
    name="clients",
    help="Manage the credentials of programs that submit over NATS.",
    help_epilogue=examples("towpath clients credential add web", "towpath clients credential list"),
)
credential = App(
    name="credential",
    help="Add, list and remove credentials of programs that submit over NATS.",
    help_epilogue=examples("towpath clients credential add web", "towpath clients credential list"),
)
app.command(credential)

_COLUMNS = (Column("credential", "name"), Column("operates", "operates"))


@credential.command(
    help_epilogue=examples("towpath clients credential add web", "towpath clients credential add desk --operates")
)
def add(
    name: str,
    /,
    *,
    operates: Annotated[bool, Parameter(negative="")] = False,
    deploy: Deploy = DEPLOY,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Make a credential, or change what an existing one may do; the broker knows it once it is started again.

    Args:
        name: The user of the broker and the caller of its runs, as in `towpath keys create --caller NAME`.
        operates: It may also pause and resume runs of its project.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    require_whole_secrets(deploy / "secrets")
    made = load(deploy / FILE).model_dump()
    made["clients"] = [*(other for other in made["clients"] if other != name), name]
    operators = [other for other in made["operators"] if other != name]
    made["operators"] = [*operators, name] if operates else operators
    save_user(name, made, f"Client {name}: TOWPATH_NATS_USER={name}", deploy, printed)
    _show(deploy, printed)


@credential.command(
    name="list", help_epilogue=examples("towpath clients credential list", "towpath clients credential list -o json")
)
def list_(*, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the credentials of programs that submit over NATS.

    Args:
        deploy: The folder with credentials.yaml.
    """
    _show(deploy, printed)


@credential.command(
    help_epilogue=examples("towpath clients credential remove web", "towpath clients credential remove web -o json")
)
def remove(name: str, /, *, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    known = load(deploy / FILE)
    if name not in known.clients:
        raise ProblemError(problem("not_found", f"no client is called {name} in {deploy / FILE}"))
    left = {
        "clients": tuple(other for other in known.clients if other != name),
        "operators": tuple(other for other in known.operators if other != name),
        "nkeys": known.nkeys_without(name),
    }
    store(deploy, known.model_copy(update=left), name)
    forget_password(deploy / "secrets", name)
    _show(deploy, printed)


def _show(deploy: Deploy, printed: OutputOptions) -> None:
    known = load(deploy / FILE)
    rows = [{"name": name, "operates": name in known.operators} for name in known.clients]
    hint = f"There are none in {deploy / FILE}. Add one: towpath clients credential add NAME."
    printed.out().rows("credentials", rows, _COLUMNS, empty=hint)
