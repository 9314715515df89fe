"""`towpath workers credential`: whom a deployed broker lets work, and on which toolsets.

A credential is for named toolsets of one project; one password, made here, is written where the broker and the
worker read it and is never printed.
"""

from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.administration.broker_user_list import Deploy
from towpath.cli.administration.credential_options import DEPLOY, remove_credential, save_credential, show_credentials
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column

app = App(name="workers", help="Manage the credentials that workers connect with.")
credential = App(name="credential", help="Add, list and remove workers' credentials.")
app.command(credential)

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


@credential.command(name="list", help_epilogue=examples("towpath workers credential list"))
def list_(*, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the credentials of workers.

    Args:
        deploy: The folder with credentials.yaml.
    """
    show_credentials("workers", _COLUMNS, deploy, printed)


@credential.command(help_epilogue=examples("towpath workers credential remove billing"))
def remove(name: str, /, *, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    remove_credential("workers", name, deploy)
    show_credentials("workers", _COLUMNS, deploy, printed)
