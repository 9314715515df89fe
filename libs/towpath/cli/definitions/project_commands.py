"""`towpath init`, `towpath new` and `towpath schema`: a project to begin with, more parts, completion in editors."""

import json
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column, show_text
from towpath.project.network_texts import example_arguments
from towpath.project.project_file import PROJECT_FILE, ProjectFile, find_project
from towpath.project.scaffold import (
    AddedPart,
    add_agent,
    add_network,
    add_rule,
    add_tool,
    create_project,
    write_schemas,
)
from towpath_contracts.base import JsonObject
from towpath_contracts.files.policy_document import RuleEffect

app = App(
    name="new",
    help="Add an agent, a network, a tool or a rule to the project in this folder.",
    help_epilogue=examples("towpath new tool weather.lookup", "towpath new policy ask-weather --tool weather.lookup"),
)

HERE = Path()
Names = Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)]

SAMPLE_NEXT = (
    "towpath test",
    "towpath up",
    'towpath run support "Refund order 8812" --watch   # in another terminal of this folder',
)
EMPTY_NEXT = (
    "towpath new tool stock.count",
    "towpath new network stock --ask stock.count        # its script, a rule and a test too",
    "towpath test",
    "towpath up",
)


def init(
    folder: Path = HERE,
    /,
    *,
    empty: Annotated[bool, Parameter(negative="")] = False,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Write a project that runs at once: a help desk with its tools, policy and tests, and no key needed.

    Files that are there already stay: where one is in the way, all that are get listed, and nothing is written.

    Args:
        folder: Where; made if it isn't there. This folder where none is named.
        empty: Leave the help desk out: a policy without rules, and folders for networks and tools of your own.
    """
    written = [str(path) for path in create_project(folder, empty=empty)]
    following = [
        *([f"cd {shlex.quote(str(folder))}"] if folder.resolve() != HERE.resolve() else []),
        *(EMPTY_NEXT if empty else SAMPLE_NEXT),
    ]
    out = printed.out()
    if not out.for_people:
        out.data({"folder": str(folder.resolve()), "created": written, "next": following})
        return
    shown = [path for path in written if not path.startswith(".towpath/")]
    out.write(f"created {', '.join(shown)}, .towpath/schema/")
    out.write("next:")
    for line in following:
        out.write(f"  {line}")


@app.command(help_epilogue=examples("towpath new agent shipping", "towpath new agent shipping --network support"))
def agent(name: str, /, *, network: str = "", printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Add an agent to a network's file.

    Args:
        name: Its key.
        network: Which network; the only one where none is named.
    """
    _show(add_agent(HERE, _project(), name, network), printed)


@app.command(
    help_epilogue=examples(
        "towpath new network research",
        "towpath new network hotel --allow rooms.free --ask doors.unlock",
    )
)
async def network(name: str, /, *, allow: Names = (), ask: Names = (), printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Write a network of one agent, with a script so that it runs without a key.

    With tools its agent has them, the policy gets a rule for each, the script calls each with example arguments, and a
    test plays it, which towpath test runs. Files that are there already stay.

    Args:
        name: Its name.
        allow: Tools that its agent may call.
        ask: Tools that it may call once a person approves.
    """
    project = _project()
    arguments = await _arguments(project, printed) if allow or ask else {}
    _show(add_network(HERE, project, name, allow=allow, ask=ask, arguments=arguments), printed)


def _tool_files(project: ProjectFile) -> tuple[str, ...]:
    return tuple(one for one in project.tool_modules() if Path(one).exists())


async def _arguments(project: ProjectFile, printed: OutputOptions) -> dict[str, JsonObject]:
    """Return example arguments of each tool in the project's files."""
    from towpath.cli.definitions.tool_sources import read_declared

    with printed.out().progress("Importing the tools"):
        found = await read_declared(_tool_files(project))
    return {one.spec.name: example_arguments(one.spec.parameters, one.spec.system_params) for one in found}


@app.command(help_epilogue=examples("towpath new tool weather.lookup", "towpath new tool orders.cancel -o json"))
def tool(name: str, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Write a tool into a file of its own.

    Args:
        name: Its name, as agents and rules say it.
    """
    _show(add_tool(HERE, _project(), name), printed)


@app.command(
    help_epilogue=examples(
        "towpath new policy ask-weather --tool weather.lookup",
        "towpath new policy find --tool orders.find --effect allow --who agent=billing",
    )
)
def policy(
    name: str,
    /,
    *,
    tool: str = "*",
    effect: RuleEffect = "require_approval",
    who: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Add a rule to the policy, which is made where there is none.

    Args:
        name: The rule's name.
        tool: The tool that it is about, or a pattern such as orders.*
        effect: What becomes of its calls: allow, deny, or require_approval, which has a person asked.
        who: Whose calls it is about, as KEY=NAME, with the keys project, network, agent, agent_type and caller.
    """
    _show(add_rule(HERE, _project(), name, tool, effect=effect, who=who), printed)


def schema(kind: str | None = None, /, *, write: bool = False, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Print the JSON Schema of a kind of file, or of what commands print; without a kind, list them.

    Args:
        kind: network, policy, policy-test, evaluation, plan, mcp-servers, model-prices or project; cli for outputs.
        write: Write those of all kinds into .towpath/schema, where the first line of generated files finds them.
    """
    from towpath.project.file_schemas import schema_kinds

    out = printed.out()
    if write:
        paths = [{"path": str(path)} for path in write_schemas(HERE)]
        out.rows("written", paths, (Column("written", "path"),), empty="There are no kinds.")
    elif kind is None:
        described = {**schema_kinds(), _CLI: "What every command prints with -o json."}
        kinds = [{"kind": name, "description": text} for name, text in described.items()]
        columns = (Column("kind", "kind"), Column("what it is", "description", is_whole=True))
        out.rows("kinds", kinds, columns, empty="There are none.")
    elif printed.output is None or printed.output == "table":
        show_text(json.dumps(_schema_of(kind), indent=2) + "\n")
    else:
        out.data(_schema_of(kind))


_CLI = "cli"


def _schema_of(kind: str) -> JsonObject:
    """Return the schema of *kind*; raises ProblemError `not_found`."""
    from towpath.cli.shared.output_schemas import output_schemas
    from towpath.project.file_schemas import file_schema

    return output_schemas() if kind == _CLI else file_schema(kind)


def _project() -> ProjectFile:
    """Return the project in this folder; of a folder without its file what `init` would name."""
    return find_project() or ProjectFile(kind="Project", tools=(Path("tools"),))


def _show(added: AddedPart, printed: OutputOptions) -> None:
    out = printed.out()
    if out.for_people:
        out.write(f"wrote {', '.join(map(str, added.paths))}")
        out.write(f"next: {added.next_step}")
        if not PROJECT_FILE.exists():
            out.write(f"there is no {PROJECT_FILE} here: towpath init writes one")
    else:
        out.data({"written": list(map(str, added.paths)), "next": added.next_step})
