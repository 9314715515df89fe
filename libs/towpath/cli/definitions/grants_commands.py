"""`towpath grants`: make a grant for a task, to look at and to submit it with."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from towpath.cli.definitions.grant_options import show_proposal
from towpath.cli.definitions.plan_options import Many, read_plan, read_values
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.times import parse_time
from towpath_contracts.grant_proposals.proposals import MIN_SHARE
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath_contracts.grant_proposals.proposals import GrantProposal

app = App(
    name="grants",
    help="Make a grant for a task, to look at and to submit it with; nothing is changed.",
    help_epilogue=examples(
        "towpath grants from-network support", "towpath grants from-plan digest.yaml --network papers"
    ),
)
Flag = Annotated[bool, Parameter(negative="")]
_USE = "  submit with it: towpath grants … -o json > grant.json, towpath run NETWORK … --grant grant.json"


@app.command(
    help_epilogue=examples("towpath grants from-network support", "towpath grants from-network support --agent billing")
)
async def from_network(
    network: str, /, *, agent: str | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Grant the tools of every agent that a task of a network can reach.

    Args:
        network: The published network.
        agent: The agent that the task begins with; else the network's default one.
    """
    async with common.connect() as client:
        _show(common.out(), await client.grants.from_network(network, agent_key=agent))


@app.command(
    help_epilogue=examples(
        "towpath grants from-plan digest.yaml --network papers", "towpath grants from-plan workflow.yaml"
    )
)
async def from_plan(
    file: Path,
    /,
    *,
    network: str | None = None,
    set: Annotated[Many, Parameter(name="--set")] = (),  # noqa: A002 - the option's name
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Grant the tools of the agents that a plan names, or of those of a network or workflow in a file.

    Args:
        file: A YAML or JSON file with a plan, or a whole network, which is validated and not published.
        network: The published network that is to carry the plan out.
        set: key=value, or key:=JSON: a value for {{ bindings.key }}; may be given more than once.
    """
    from towpath.client.grants import network_proposal, plan_proposal
    from towpath.networks.spec_files import read_yaml

    whole = read_yaml(file, "request_invalid")[0].get("kind") == "Network"
    if not whole and network is None:
        detail = f"{file} holds a plan: name the network that is to carry it out with --network"
        raise ProblemError(problem("request_invalid", detail))
    async with common.connect() as client:
        if whole:
            proposal = network_proposal(await client.networks.validate(file))
        else:
            held = read_plan(file).task
            task = {**held, "bindings": {**held.get("bindings", {}), **read_values(set)}}
            proposal = plan_proposal(await client.networks.show(str(network)), task)
        _show(common.out(), proposal)


@app.command(
    help_epilogue=examples(
        "towpath grants from-runs support", "towpath grants from-runs support --since 7d --label team=refunds --tight"
    )
)
async def from_runs(
    network: str,
    /,
    *,
    since: str = "30d",
    min_share: float = MIN_SHARE,
    label: str | None = None,
    tight: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Grant the tools that completed runs of a network have used, with how many of them did.

    Args:
        network: The network.
        since: Runs since then: 30d (ago), 12h or 2026-11-01.
        min_share: Leave out tools that a smaller share of the runs used.
        label: key=value: only runs with this label.
        tight: Bind a tool to the destinations that were the same in all of its calls, three at least.
    """
    at = parse_time(since, "--since")
    async with common.connect() as client:
        asked = client.grants.from_runs(network, since=at, label=label, min_share=min_share, tight=tight)
        _show(common.out(), await asked)


@app.command(
    help_epilogue=examples(
        "towpath grants propose support 'Where is order 8813?'",
        "towpath grants propose support 'Refund order 8812' --model gemini:gemini-2.5-flash",
    )
)
async def propose(
    network: str, message: str, /, *, model: str | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Let a model propose a grant: it sees the message and what the tools are called, and can call nothing.

    Args:
        network: The published network that is to run the task.
        message: What the task says; leave out what others wrote.
        model: Ask this model, whatever the network says.
    """
    async with common.connect() as client:
        _show(common.out(), await client.grants.propose(network, message, model=model))


def _show(out: OutputPrinter, proposal: "GrantProposal") -> None:
    show_proposal(out, proposal)
    out.write(_USE, "dim")
