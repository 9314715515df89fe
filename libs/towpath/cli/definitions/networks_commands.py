"""`towpath networks`: validate, publish and look at networks."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from towpath.cli.shared.confirmation import Flag, require_yes
from towpath.cli.shared.input_files import read_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, print_notice, show_text
from towpath.errors import RefusedError
from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.flow import write_flow
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem

if TYPE_CHECKING:
    from towpath_console.drawings.changes import Change

GraphForm = Literal["text", "mermaid", "svg"]

app = App(
    name="networks",
    help="Validate, publish and look at networks.",
    help_epilogue=examples("towpath networks publish network.yaml", "towpath networks graph support"),
)

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


@app.command(
    help_epilogue=examples("towpath networks validate network.yaml", "towpath networks validate network.yaml -o json")
)
async def validate(file: Path, /, *, strict: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show whether a network could be published; every problem is listed, and nothing is made.

    The scripts beside it that its models play are looked at too: a run reads them, and publishing does not. What is
    odd in them is told and no problem, since a run may be meant to fail, and a decider may have other scripts.

    Args:
        file: A YAML file with kind: Network.
        strict: Take for a problem what is only told otherwise: the exit code is 2.
    """
    notes = _check_form(file)
    if strict and notes:
        remedy = f"Correct the script at that line; without --strict it is only told, and {file} can be published."
        raise _script_problems(notes, remedy)
    async with common.connect() as client:
        version = await client.networks.validate(file)
    for note in notes:
        print_notice(note)
    out = common.out()
    if out.for_people:
        out.write(f"{file} is valid: {version.name}")
    else:
        out.data(_row(version))


@app.command(help_epilogue=examples("towpath networks publish network.yaml", "towpath networks publish a.yaml b.yaml"))
async def publish(*files: Path, if_version: int | None = None, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Publish networks; one equal to its current version makes no new version.

    Args:
        files: YAML files with kind: Network, each of another name.
        if_version: Only while this version is current, 0 while there is none.
    """
    once = _each_once(files)
    _check_names(once)
    async with common.connect() as client:
        versions = [await client.networks.publish(file, if_version=if_version) for file in once]
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


@app.command(
    help_epilogue=examples(
        "towpath networks invoke support decision.json --agent billing",
        "towpath networks invoke support - --agent billing < decision.json",
    )
)
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


@app.command(
    help_epilogue=examples("towpath networks diff support --from 3", "towpath networks diff support --from 2 --to 4")
)
async def diff(
    name: str,
    /,
    *,
    before: Annotated[int | None, Parameter(name="--from")] = None,
    after: Annotated[int | None, Parameter(name="--to")] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Show what differs between two versions of a network, member by member; its tools are as they were then.

    Args:
        name: The network.
        before: The older version; the one before the other, where it isn't given.
        after: The newer version; the current one where it isn't given.
    """
    from towpath_console.drawings.changes import changes_between
    from towpath_console.pages.networks import comparable

    async with common.connect() as client:
        newer = await client.networks.show(name, version=after)
        older = await client.networks.show(name, version=max(1, newer.version - 1) if before is None else before)
    found = changes_between(*(comparable(one.model_dump(mode="json")) for one in (older, newer)))
    out = common.out()
    if not out.for_people:
        changes = [asdict(change) for change in found.shown]
        out.data(
            {"network": name, "from": older.version, "to": newer.version, "changes": changes, "left_out": found.left}
        )
        return
    out.write(f"{name}: version {older.version} → {newer.version}", "bold")
    if not found.shown:
        out.write("  nothing differs")
    for change in found.shown:
        for line, style in _change_lines(change):
            out.write(line, style)
    if found.left:
        out.write(f"  … and {found.left} more", "dim")


@app.command(
    help_epilogue=examples("towpath networks rollback support 3", "towpath networks rollback support 3 --yes -o json")
)
async def rollback(
    name: str, version: int, /, *, yes: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Publish an older version once more, as a new one; runs that are under way keep theirs.

    Args:
        name: The network.
        version: The version to go back to.
        yes: Don't ask; a script has to say it.
    """
    async with common.connect() as client:
        current, wanted = await client.networks.show(name), await client.networks.show(name, version=version)
        if wanted.spec is None:
            detail = f"version {version} of {name} is kept without its definition"
            raise ProblemError(problem("not_found", detail, remedy=f"Look at it: towpath networks show {name}."))
        require_yes(f"New runs of {name} use version {current.version}. Publish version {version} over it?", yes=yes)
        made = await client.networks.publish(wanted.spec, if_version=current.version)
    columns = (*_LIST[:3], Column("", lambda row: "unchanged" if row["unchanged"] else f"as version {version} was"))
    common.out().record(_row(made), columns)


def _change_lines(change: "Change") -> Iterator[tuple[str, str | None]]:
    """Yield the lines of one change, each with its style."""
    where = ": ".join(part for part in (change.part, change.member) if part)
    yield f"  {where} {change.kind}", None
    for line in change.lines:
        yield f"    {line.sign} {line.text}", {"+": "green", "-": "red"}.get(line.sign, "dim")
    if not change.lines:
        yield from ((f"    - {line}", "red") for line in change.before.splitlines())
        yield from ((f"    + {line}", "green") for line in change.after.splitlines())


def _check_form(file: Path) -> list[str]:
    """Raise RefusedError for what the files alone show to be wrong: nobody needs a platform to be told that.

    Returns what a run may lack all the same. A script that is not here is no fault: a decider may have it elsewhere.
    """
    from towpath.networks.prompt_files import is_prompt_path
    from towpath.networks.script_files import TASK, played_scripts, script_path, task_script_hint
    from towpath.networks.spec_files import load_network

    spec = load_network(file)
    notes = [
        f"the prompt of {agent.key} is the words {agent.prompt_template}, and no file is read: write its text below "
        "prompt_template: |"
        for agent in spec.agents
        if is_prompt_path(agent.prompt_template)
    ]
    for name, agents in played_scripts(spec.model_dump(mode="json")).items():
        path = script_path(file.parent, name)
        notes += [task_script_hint(spec.name, agents)] if name == TASK else _look_at_script(path, file.parent, agents)
    return notes


def _look_at_script(path: Path, folder: Path, agents: Sequence[str]) -> list[str]:
    """Return what is odd in the script at *path*, or that it is not there; raises RefusedError where it is broken."""
    from towpath.networks.script_files import read_script_file, script_doubts

    script, faults = read_script_file(path, folder, agents)
    if faults and path.exists():
        raise _script_problems(faults, "Correct the script: the models of the network play it.")
    return faults or script_doubts(script, agents)


def _script_problems(faults: Sequence[str], remedy: str) -> RefusedError:
    errors = tuple(ProblemDetail(pointer="", code="script", detail=fault) for fault in faults)
    return RefusedError(problem("script_odd", "; ".join(faults), errors=errors, remedy=remedy))


def _each_once(files: Sequence[Path]) -> list[Path]:
    """Return each file as it was first named, and tell of those that were named again, also in another way."""
    first: dict[Path, Path] = {}
    for file in files:
        before = first.setdefault(file.resolve(), file)
        if before is not file:
            print_notice(
                f"{file} is {'named twice' if file == before else f'the same file as {before}'}: published once"
            )
    return list(first.values())


def _check_names(files: Sequence[Path]) -> None:
    """Check the form of each file; raises RefusedError also where two of them have a network of one name."""
    from towpath.networks.spec_files import declared_twice, load_network

    owners: dict[str, Path] = {}
    for file in files:
        name = load_network(file).name
        if (owner := owners.setdefault(name, file)) != file:
            raise declared_twice(file, name, owner)


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
