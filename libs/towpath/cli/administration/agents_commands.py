"""`towpath agents`: serve an agent in user code, and make the credentials that a deployed broker knows agents by.

A credential is for one agent of one project; one password, made here, is written where the broker and the agent
read it and is never printed. The agent itself runs in the program that this process becomes.
"""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.administration.platform_start import replace_process
from towpath.cli.administration.process_commands import join_platform, parse_process_words
from towpath.cli.broker.broker_user_list import Deploy
from towpath.cli.broker.credential_options import DEPLOY, remove_credential, save_credential, show_credentials
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column
from towpath.process_arguments import AgentArguments

app = App(
    name="agents",
    help="Serve agents in user code; manage the credentials that they connect with.",
    help_epilogue=examples(
        "towpath agents serve agents.review:Reviewer", "towpath agents credential add reviewer --project shop"
    ),
)
credential = App(
    name="credential",
    help="Add, list and remove agents' credentials.",
    help_epilogue=examples("towpath agents credential add reviewer --project shop", "towpath agents credential list"),
)
app.command(credential)

_COLUMNS = (Column("credential", "name"), Column("project", "project"), Column("agent", "agent"))


@app.command(
    help_epilogue=examples(
        "towpath agents serve agents.review:Reviewer", "towpath agents serve agents/review.py:Reviewer --count 2"
    )
)
def serve(
    target: str,
    /,
    *,
    count: int = 1,
    concurrency: int | None = None,
    name_only: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Serve an agent in user code until Ctrl-C.

    Args:
        target: Dotted module or path of a .py file, and the class: agents.review:Reviewer.
        count: How many processes.
        concurrency: How many requests one process answers at once; else TOWPATH_AGENT_CONCURRENCY, or 16.
        name_only: Print the agent's name as JSON, and end.
    """
    given = AgentArguments(target=target, count=count, concurrency=concurrency, name_only=name_only)
    join_platform("agent")
    replace_process("towpath_agent", *given.words())


def agent_arguments(words: Sequence[str]) -> AgentArguments:
    """Return what `towpath agents serve` followed by *words* says; exits where that can't be read, or asks for help."""
    return AgentArguments.model_validate(parse_process_words(("agents", "serve", *words), serve))


@credential.command(
    help_epilogue=examples(
        "towpath agents credential add reviewer --project shop",
        "towpath agents credential add reviewer --project shop -o json",
    )
)
def add(
    name: str,
    /,
    *,
    agent: str = "",
    project: str = "default",
    deploy: Deploy = DEPLOY,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Make a credential, or change which agent an existing one answers for.

    Args:
        name: The user of the broker; more processes of the agent share it.
        agent: The agent's name in model strings, agent:NAME; without it the credential's own.
        project: Whose requests it answers.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    entry = {"project": project, "agent": agent or name}
    save_credential("agents", name, entry, f"Agent {agent or name}", deploy, printed)
    show_credentials("agents", _COLUMNS, deploy, printed)


@credential.command(
    name="list", help_epilogue=examples("towpath agents credential list", "towpath agents credential list -o json")
)
def list_(*, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """List the credentials of agents.

    Args:
        deploy: The folder with credentials.yaml.
    """
    show_credentials("agents", _COLUMNS, deploy, printed)


@credential.command(
    help_epilogue=examples(
        "towpath agents credential remove reviewer", "towpath agents credential remove reviewer -o json"
    )
)
def remove(name: str, /, *, deploy: Deploy = DEPLOY, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    remove_credential("agents", name, deploy)
    show_credentials("agents", _COLUMNS, deploy, printed)
