"""`towpath agents`: serve an agent in user code, and make the credentials that a deployed broker knows agents by.

Law: a credential is for one agent of one project; one password, made here, is written where the broker and the agent
read it and is never printed. The agent itself runs in the program that this process becomes.
"""

import sys
from pathlib import Path

from cyclopts import App

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
from towpath.cli.processes import Words, become, join_platform
from towpath_contracts.problems import ProblemError, problem

app = App(name="agents", help="Serve agents in user code; manage the credentials that they connect with.")
credential = App(name="credential", help="Add, list and remove agents' credentials.")
app.command(credential)

_DEPLOY = Path("deploy")
_COLUMNS = (Column("credential", "name"), Column("project", "project"), Column("agent", "agent"))


@app.command(
    help="Serve an agent: towpath agents serve MODULE:CLASS [--count N] [--concurrency N].",
    help_flags=(),
    version_flags=(),
)
def serve(*words: Words) -> None:
    """Serve an agent; `towpath agents serve --help` lists the options."""
    join_platform("agent")
    become("towpath_agent", *words)


@credential.command(help_epilogue=examples("towpath agents credential add reviewer --project shop"))
def add(
    name: str,
    /,
    *,
    agent: str = "",
    project: str = "default",
    deploy: Deploy = _DEPLOY,
    printed: Printed = PRINTED,
) -> None:
    """Make a credential, or change which agent an existing one answers for.

    Args:
        name: The user of the broker; more processes of the agent share it.
        agent: The agent's name in model strings, agent:NAME; without it the credential's own.
        project: Whose requests it answers.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    require_whole_secrets(deploy / "secrets")
    made = load(deploy / FILE).model_dump()
    made["agents"][name] = {"project": project, "agent": agent or name}
    store(deploy, read(made, "this credential can't be"), name)
    out = printed.out()
    if write_password(deploy / "secrets", name):
        out.say(f"Agent {agent or name}: TOWPATH_NATS_USER={name}, TOWPATH_PROJECT={project}, secrets/{name}.env")
        out.say("The broker knows it once it is started again: docker compose up --detach nats")
    else:
        missing = f"{deploy / 'secrets'} is not made yet, so {name} has no password; make it: {deploy / 'make-secrets'}"
        print(missing, file=sys.stderr)
    _show(deploy, printed)


@credential.command(name="list", help_epilogue=examples("towpath agents credential list"))
def list_(*, deploy: Deploy = _DEPLOY, printed: Printed = PRINTED) -> None:
    """List the credentials of agents.

    Args:
        deploy: The folder with credentials.yaml.
    """
    _show(deploy, printed)


@credential.command(help_epilogue=examples("towpath agents credential remove reviewer"))
def remove(name: str, /, *, deploy: Deploy = _DEPLOY, printed: Printed = PRINTED) -> None:
    """Remove a credential; the broker refuses it once it is started again.

    Args:
        name: The user of the broker.
        deploy: The folder with credentials.yaml, authority.conf and secrets/.
    """
    known = load(deploy / FILE)
    if name not in known.agents:
        raise ProblemError(problem("not_found", f"{deploy / FILE} has no agent {name}"))
    left = {other: one for other, one in known.agents.items() if other != name}
    store(deploy, known.model_copy(update={"agents": left, "nkeys": known.nkeys_without(name)}), name)
    forget_password(deploy / "secrets", name)
    _show(deploy, printed)


def _show(deploy: Path, printed: Printed) -> None:
    rows = [{"name": name, **one.model_dump(mode="json")} for name, one in load(deploy / FILE).agents.items()]
    printed.out().rows("credentials", rows, _COLUMNS, empty="There are none.")
