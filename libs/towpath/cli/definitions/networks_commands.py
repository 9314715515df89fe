"""`towpath networks`: validate, publish and look at networks."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from towpath.cli.shared.input_files import read_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, show_text
from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.flow import write_flow
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.networks.swarm import CompiledSwarm

GraphForm = Literal["text", "mermaid", "svg"]

app = App(name="networks", help="Validate, publish and look at networks.")

_LIST = (
    Column("network", "name"),
    Column("version", "version"),
    Column("digest", lambda row: row["digest"][:19]),
    Column("published", lambda row: str(row["published_at"])[:19].replace("T", " ")),
    Column("by", "published_by"),
)

_INVOKED = (
    Column("run", "run_id"),
    Column("status", "status"),
    Column("reason", "reason"),
    Column("output", lambda row: canonical_json(row["last_output"]) if row.get("last_output") is not None else ""),
)


@app.command(help_epilogue=examples("towpath networks validate network.yaml"))
async def validate(file: Path, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show whether a network could be published; every problem is listed, and nothing is made.

    Args:
        file: A YAML file with kind: Network.
    """
    async with common.connect() as client:
        version = await client.networks.validate(file)
    out = common.out()
    if out.for_people:
        out.write(f"{file} is valid: {version.name}")
    else:
        out.data(_row(version))


@app.command(help_epilogue=examples("towpath networks publish network.yaml", "towpath networks publish a.yaml b.yaml"))
async def publish(*files: Path, if_version: int | None = None, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Publish networks; one equal to its current version makes no new version.

    Args:
        files: YAML files with kind: Network.
        if_version: Only while this version is current, 0 while there is none.
    """
    async with common.connect() as client:
        versions = [await client.networks.publish(file, if_version=if_version) for file in files]
    columns = (*_LIST[:3], Column("", lambda row: "unchanged" if row["unchanged"] else "published"))
    common.out().rows("networks", [_row(version) for version in versions], columns, empty="No file was named.")


@app.command(name="list", help_epilogue=examples("towpath networks list", "towpath networks list -o json"))
async def list_networks(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the current version of every network."""
    async with common.connect() as client:
        found = await client.networks.list()
    hint = "No network is published. Publish one: towpath networks publish FILE."
    common.out().rows("networks", [_row(version) for version in found.networks], _LIST, empty=hint)


@app.command(help_epilogue=examples("towpath networks show support", "towpath networks show support --version 2"))
async def show(
    name: str,
    /,
    *,
    number: Annotated[int | None, Parameter(name="--version")] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Show a version of a network: its agents, tools and routes.

    Args:
        name: The network.
        number: Which version; the current one where it isn't given.
    """
    async with common.connect() as client:
        version = await client.networks.show(name, version=number)
    out = common.out()
    out.record(version.model_dump(mode="json"), (*_LIST[:2], Column("digest", "digest"), *_LIST[3:]))
    if out.for_people and version.snapshot is not None:
        columns = (
            Column("agent", "key"),
            Column("model", "model"),
            Column("tools", lambda row: " ".join(row["equipped_tools"])),
            Column("routes", lambda row: " ".join(row["allowed_routes"])),
            Column("responds", lambda row: "yes" if row["allow_respond"] else "no"),
        )
        out.write("")
        agents = [agent.model_dump(mode="json") for agent in version.snapshot.agents.values()]
        out.rows("agents", agents, columns, empty="It has no agents.")
        for line in _swarm_lines(version.snapshot.swarm):
            out.write(line)


@app.command(
    help_epilogue=examples(
        "towpath networks graph support", "towpath networks graph support --format svg > support.svg"
    )
)
async def graph(
    name: str,
    /,
    *,
    form: Annotated[GraphForm, Parameter(name="--format")] = "text",
    number: Annotated[int | None, Parameter(name="--version")] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Draw a network as a graph: its agents, who hands over to whom, and who answers.

    Args:
        name: The network.
        form: How it is written: as text, as a Mermaid flowchart, or as an SVG drawing for a file.
        number: Which version; the current one where it isn't given.
    """
    # Drawing is asked for seldom, and needs what no other command does.
    from towpath_console.drawings.graph import network_graph
    from towpath_console.drawings.graph_forms import graph_mermaid, graph_svg, graph_text

    async with common.connect() as client:
        version = await client.networks.show(name, version=number)
    layout = network_graph(version.model_dump(mode="json")["snapshot"])
    drawn = {"svg": lambda: str(graph_svg(layout, alone=True)), "mermaid": lambda: graph_mermaid(layout)}
    text = drawn.get(form, lambda: graph_text(layout))().rstrip("\n")
    if common.is_plain:
        show_text(f"{text}\n")
    else:
        common.out().data({"format": form, "graph": text})


@app.command(
    help_epilogue=examples(
        "towpath networks prompt support", "towpath networks prompt support 'Where is my order?' --agent billing"
    )
)
async def prompt(
    name: str,
    message: str = "",
    /,
    *,
    agent: str | None = None,
    number: Annotated[int | None, Parameter(name="--version")] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Show the prompt that an agent would get in its first step: no model is asked, and no run is made.

    Args:
        name: The network.
        message: What the user says.
        agent: Whose prompt; the default agent's where none is named.
        number: Which version; the current one where it isn't given.
    """
    async with common.connect() as client:
        text = await client.networks.prompt(name, message, agent_key=agent, version=number)
    out = common.out()
    if out.for_people:
        out.write(text)
    else:
        out.data({"prompt": text})


@app.command(help_epilogue=examples("towpath networks invoke support decision.json --agent billing"))
async def invoke(
    name: str,
    decision: Path,
    /,
    *,
    agent: str,
    message: str = "",
    number: Annotated[int | None, Parameter(name="--version")] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Carry out one decision in a run of its own, permitted and recorded like any other: no model is asked.

    Args:
        name: The network.
        decision: A JSON file with the decision as a model writes it; - is standard input.
        agent: Who decides.
        message: What the user says.
        number: Which version; the current one where it isn't given.
    """
    async with common.connect() as client:
        run = await client.networks.invoke(name, read_json(decision), agent_key=agent, message=message, version=number)
    common.out().record(run.model_dump(mode="json"), _INVOKED)


def _swarm_lines(swarm: CompiledSwarm | None, name: str = "") -> list[str]:
    """Return how the members of a swarm work together, and those of the swarms in it; nothing for other networks."""
    if swarm is None:
        return []
    nested = [line for inner, one in swarm.swarms.items() for line in _swarm_lines(one, inner)]
    return [f"{name or 'swarm'}: {swarm.mode}, {_manner(swarm)}", *nested]


def _manner(swarm: CompiledSwarm) -> str:
    match swarm.mode:
        case "workflow":
            return write_flow(swarm.stages)
        case "team":
            return f"{swarm.lead} delegates to {', '.join(swarm.delegates)}"
        case "handoff":
            ways = (f"{agent} to {', '.join(targets)}" for agent, targets in swarm.handoffs.items() if targets)
            return f"{swarm.lead} begins; " + ("; ".join(ways) or "nobody hands over")


def _row(version: NetworkVersion) -> dict[str, object]:
    return version.model_dump(mode="json", exclude={"snapshot", "spec"})
