"""`towpath clients`: programs that submit over NATS: their credentials, and what they ask and hear there.

A client's name is the caller of its runs; the project that they belong to is that of the caller's API key. One
password, made here, is written where the broker and the program read it and is never printed.
"""

from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.broker.broker_user_list import Deploy, require_whole_secrets
from towpath.cli.broker.client_subjects import show_subjects
from towpath.cli.broker.credential_options import DEPLOY, load_list, remove_credential, save_user, show_credentials
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column

app = App(
    name="clients",
    help="Programs that submit over NATS: their credentials and subjects.",
    help_epilogue=examples("towpath clients credential add web", "towpath clients subjects"),
)
credential = App(
    name="credential",
    help="Add, list and remove credentials of programs that submit over NATS.",
    help_epilogue=examples("towpath clients credential add web", "towpath clients credential list"),
)
app.command(credential)
app.command(
    show_subjects,
    name="subjects",
    help_epilogue=examples("towpath clients subjects", "towpath clients subjects web --operates -o json"),
)

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
    made = load_list(deploy).model_dump()
    require_whole_secrets(deploy / "secrets")
    made["clients"] = [*(other for other in made["clients"] if other != name), name]
    operators = [other for other in made["operators"] if other != name]
    made["operators"] = [*operators, name] if operates else operators
    save_user(name, made, f"Client {name}: TOWPATH_NATS_USER={name}", deploy, printed)
    show_credentials("clients", _COLUMNS, deploy, printed)


@credential.command(
    name="list", help_epilogue=examples("towpath clients credential list", "towpath clients credential list -o json")
)
def list_(*, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the credentials of programs that submit over NATS.

    Args:
        deploy: The folder with credentials.yaml.
    """
    show_credentials("clients", _COLUMNS, deploy, printed)


@credential.command(
    help_epilogue=examples("towpath clients credential remove web", "towpath clients credential remove web -o json")
)
def remove(name: str, /, *, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    remove_credential("clients", name, deploy)
    show_credentials("clients", _COLUMNS, deploy, printed)
