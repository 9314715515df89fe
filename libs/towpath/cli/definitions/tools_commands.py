"""`towpath tools`: what the workers offer."""

import difflib
import json
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.definitions.tool_sources import read_tools
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.cli.shared.text import cut_words, one_line, shorten
from towpath.tools.declaration_lint import lint_declaration
from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted
from towpath_contracts.tools.access import no_such_proposal
from towpath_contracts.tools.calls import ToolSpec

LINE_CHARS = 160
"""Of a line of a definition; what is longer goes on in the next line."""

_WHOLE: dict[str, Any] = {"drop_whitespace": False, "replace_whitespace": False, "break_on_hyphens": False}

app = App(
    name="tools",
    help="Look at the tools that workers offer; decide those that wait.",
    help_epilogue=examples(
        "towpath tools list", 'towpath tools call orders.find --args \'{"order_id": "8812"}\' --as billing'
    ),
)

Flag = Annotated[bool, Parameter(negative="")]
Version = Annotated[int, Parameter(name="--version")]

_SHOW = (
    Column("tool", "name"),
    Column("version", "version"),
    Column("toolset", "toolset"),
    Column("description", "description"),
    Column("effect", "effect_class"),
    Column("held by", "held_by"),
    Column("operation", "operation"),
    Column("timeout", lambda row: f"{row['timeout_ms'] / 1000:g} s"),
    Column("summary", "summary"),
    Column("probe", lambda row: "yes" if row["has_probe"] else ""),
    Column("hazards", lambda row: " ".join(row["hazards"])),
    Column("sinks", lambda row: "not declared" if row["sinks"] is None else " ".join(row["sinks"]) or "none"),
    Column("output", lambda row: "trusted" if row["trusted_output"] else " ".join(row["trusted_fields"])),
    Column("cost", lambda row: f"${row['cost_usd']:g} a call" if row.get("cost_usd") else ""),
)
_PARAMETERS = (
    Column("parameter", "name"),
    Column("type", "kind"),
    Column("", "note"),
    Column("description", "description", is_whole=True),
)
_GAPS = (
    Column("tool", "tool"),
    Column("what", "code"),
    Column("why", "detail", is_whole=True),
    Column("declare", "remedy", is_whole=True),
)


app.command(
    "towpath.cli.runs.tool_call_command:call",
    name="call",
    help="Have a tool called in the name of an agent: decided by the policy and recorded like any other call.",
    help_epilogue=examples(
        """towpath tools call orders.find --args '{"order_id": "8812"}' --as billing""",
        """towpath tools call orders.refund --args '{"order_id": "8812", "amount": 5}' --as billing --dry-run""",
    ),
)


def whose_tool(row: Any) -> int:
    """Return 0 for a tool of the user's own, 1 for one of the built-in toolset, 2 for one that the platform applies."""
    return 2 if row.get("internal") else int(row["toolset"] == "builtin")


def _parameters(row: Any) -> str:
    required = set(row["parameters"].get("required", ()))
    names = row["parameters"].get("properties", {})
    return " ".join(name if name in required else f"[{name}]" for name in names)


@app.command(name="list", help_epilogue=examples("towpath tools list", "towpath tools list -o json"))
async def list_tools(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the registered tools; whether an agent may use one is the matrix's business."""
    async with common.connect() as client:
        described = await client.tools.list()
    columns = (
        Column("tool", "name"),
        Column("version", lambda row: described.versions.get(row["name"])),
        Column("toolset", "toolset"),
        Column("effect", "effect_class"),
        Column("held by", lambda row: described.held.get(row["name"])),
        Column("parameters", _parameters),
        Column("description", lambda row: cut_words(row["description"].partition("\n")[0], 80)),
    )
    rows = [spec.model_dump(mode="json") for spec in described.tools]
    out = common.out()
    if out.for_people:  # who looks for a tool looks for one of their own; the platform's are the same everywhere
        rows.sort(key=whose_tool)
    out.rows("tools", rows, columns, empty="No worker has offered a tool. Start one: towpath worker MODULE.")


@app.command(help_epilogue=examples("towpath tools show orders.refund", "towpath tools show orders.refund -o json"))
async def show(name: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show a tool: what it declares of its calls, and its parameters; a program gets their whole JSON Schema.

    Args:
        name: The tool.
    """
    async with common.connect() as client:
        described = await client.tools.list()
    spec = next((one for one in described.tools if one.name == name), None)
    if spec is None:
        near = nearest_name(name, [one.name for one in described.tools])
        meant = f"; did you mean {near}?" if near is not None else ""
        remedy = "List them: towpath tools list."
        raise ProblemError(problem("not_found", f"no tool is called {name}{meant}", remedy=remedy))
    row = {"version": described.versions.get(name), "held_by": described.held.get(name), **spec.model_dump(mode="json")}
    out = common.out()
    out.record(row, _SHOW)
    if out.for_people:
        out.write("")
        out.rows("parameters", _parameter_rows(row), _PARAMETERS, empty="It takes no parameters.")


def _parameter_rows(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each parameter of a tool, with what its JSON Schema and its declaration say of it."""
    schema = row["parameters"]
    rows = []
    for name, one in schema.get("properties", {}).items():
        told = one if isinstance(one, dict) else {}
        rest = {key: value for key, value in told.items() if key not in {"description", "title", "type"}}
        needed = "required" if name in schema.get("required", ()) else ""
        marks = (needed, "set by the system" if name in row["system_params"] else "")
        kinds = told.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else [str(kind) for kind in kinds]
        kind = " ".join(filter(None, (one_line(" or ".join(kinds)), shorten(rest, 60) if rest else "")))
        note = ", ".join(filter(None, marks))
        rows.append({"name": name, "kind": kind, "note": note, "description": told.get("description", "")})
    return rows


@app.command(
    help_epilogue=examples(
        "towpath tools lint tools.py", "towpath tools lint --mcp servers.yaml", "towpath tools lint --live -o json"
    )
)
async def lint(
    *files: str, mcp: Path | None = None, live: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> int:
    """Say per tool what its declaration lacks for rules about where values come from; exit code 1 where any does.

    Args:
        files: Modules or files with tools, as `towpath worker` takes them.
        mcp: Instead, a file of MCP servers.
        live: Instead, the tools that the platform has accepted; what they return is not known there.
    """
    tools = await read_tools(files, mcp, common, live=live)
    found = [asdict(gap) for tool in tools for gap in lint_declaration(tool.spec, tool.output)]
    out = common.out()
    out.rows(
        "gaps",
        found,
        _GAPS,
        empty=f"{counted(len(tools), 'tool')}: nothing is left to declare that can be told from names and schemas.",
    )
    return RUN_FAILED if found else OK


@app.command(help_epilogue=examples("towpath tools proposals", "towpath tools proposals -o json"))
async def proposals(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List versions of tools that nobody has looked at: those that wait, and those that were accepted on trust.

    One that holds calls is of a server that defines it anew.
    """
    async with common.connect() as client:
        described = await client.tools.list(proposals=True)
    columns = (
        Column("tool", lambda row: row["spec"]["name"]),
        Column("version", "version"),
        Column("status", "status"),
        Column("holds calls", lambda row: "yes" if row["held"] else ""),
        Column("worker", "worker"),
        Column("why", "reason", is_whole=True),
    )
    rows = [one.model_dump(mode="json") for one in described.proposals]
    for spec in described.tools:
        if spec.name in described.doubts:
            why, number = described.doubts[spec.name], described.versions.get(spec.name)
            accepted = {"status": "accepted", "version": number, "reason": why, "held": False, "worker": ""}
            rows.append({"spec": spec.model_dump(mode="json"), **accepted})
    common.out().rows(
        "proposals",
        rows,
        columns,
        empty="Nothing waits: every offered tool is accepted. All tools: towpath tools list.",
    )


@app.command(
    help_epilogue=examples(
        "towpath tools diff time.convert_time --version 2", "towpath tools diff time.convert_time --version 2 -o json"
    )
)
async def diff(name: str, /, *, number: Version, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show what a version that waits changes in the accepted one, line by line.

    Args:
        name: The tool.
        number: Which version, as `towpath tools proposals` names it.
    """
    async with common.connect() as client:
        described = await client.tools.list(proposals=True)
    wanted = next((one for one in described.proposals if (one.spec.name, one.version) == (name, number)), None)
    if wanted is None:
        raise ProblemError(no_such_proposal(name, number))
    before = next((spec for spec in described.tools if spec.name == name), None)
    changed = spec_changes(before, wanted.spec)
    row = {"tool": name, "version": number, "was": described.versions.get(name), "why": wanted.reason}
    out = common.out()
    out.record({**row, "changes": changed}, [Column(title, title) for title in row])
    for line in changed:
        out.write(line)


@app.command(
    help_epilogue=examples(
        "towpath tools accept orders.find --version 1 --reason 'reads our own database'",
        "towpath tools accept orders.find --version 1 -o json",
    )
)
async def accept(
    name: str, /, *, number: Version, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Take a version of a tool that waits: a weaker effect class, trusted output, a new tool that no rule names.

    Args:
        name: The tool.
        number: Which version, as the worker's log names it.
        reason: Why; it stands in the audit.
    """
    await _decide(name, number, reason, common, accepted=True)


@app.command(
    help_epilogue=examples(
        "towpath tools refuse orders.find --version 2 --reason 'it writes'",
        "towpath tools refuse orders.find --version 2 -o json",
    )
)
async def refuse(name: str, /, *, number: Version, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Refuse a version of a tool that waits; the one before stays.

    Args:
        name: The tool.
        number: Which version, as the worker's log names it.
        reason: Why; it stands in the audit.
    """
    await _decide(name, number, reason, common, accepted=False)


@app.command(
    help_epilogue=examples(
        "towpath tools withdraw orders.find --version 3 --reason 'no worker has it'",
        "towpath tools withdraw orders.find --version 3 -o json",
    )
)
async def withdraw(
    name: str, /, *, number: Version, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Take a tool out of the project that no worker offers any more; one that still does finds it refused.

    Args:
        name: The tool.
        number: Its version in force, as `towpath tools list` names it.
        reason: Why; it stands in the audit.
    """
    body = {"version": number, "accept": False, "withdraw": True, "reason": reason}
    async with common.connect() as client:
        await client.request("POST", f"/v1/tools/{name}/proposal", body=body)
    row = {"tool": name, "version": number, "withdrawn": True}
    common.out().record(row, [Column(title, title) for title in row])


def spec_changes(before: ToolSpec | None, after: ToolSpec) -> list[str]:
    """Return the lines of *after* that differ from *before*, as `diff -u` writes them; a server's text can't hide.

    A long text is many lines, of which none is cut: whoever accepts a version has to see all that changes.
    """
    old, new = (_lines(spec) for spec in (before, after))
    return list(difflib.unified_diff(old, new, "accepted", "offered", lineterm="", n=1))


def _lines(spec: ToolSpec | None) -> list[str]:
    if spec is None:
        return []
    text = json.dumps(spec.model_dump(mode="json"), indent=2, sort_keys=True)
    return [piece for line in text.splitlines() for piece in wrap(line, LINE_CHARS, **_WHOLE)]


async def _decide(name: str, number: int, reason: str, common: ConnectionOptions, *, accepted: bool) -> None:
    body = {"version": number, "accept": accepted, "reason": reason}
    async with common.connect() as client:
        await client.request("POST", f"/v1/tools/{name}/proposal", body=body)
    row = {"tool": name, "version": number, "accepted": accepted}
    common.out().record(row, [Column(title, title) for title in row])
