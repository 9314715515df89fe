"""`towpath policy suggest`: a first draft of what tools should declare, with reasons, for a person."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.definitions.tool_sources import DeclaredTool, read_tools
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.text import plain_json
from towpath.tools.declaration_advice import Advice, advise
from towpath_contracts.tools.calls import EffectClass, ToolSpec

Flag = Annotated[bool, Parameter(negative="")]

DECLARED = "as declared"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OTHER_TYPES = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
"""Plain words that YAML reads as something else than text."""

HEAD = """\
# What is not declared is suggested from names, descriptions and schemas alone. Look at every line: the reasons are
# words, not knowledge.
# What is left out is the strictest: irreversible, every argument a destination, no record.
"""


def add(app: App) -> None:
    """Make this command part of `towpath policy`."""
    app.command(
        suggest,
        help_epilogue=examples(
            "towpath policy suggest tools.py > declarations.yaml",
            "towpath policy suggest --mcp servers.yaml",
            "towpath policy suggest --live",
        ),
    )


async def suggest(
    *files: str, mcp: Path | None = None, live: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Write what tools should declare, as YAML with the reason of every line; what they declare already is kept.

    For tools in Python it is what `@tool` takes; for those of MCP servers it is the `tools` of the file of servers.

    Args:
        files: Modules or files with tools, as `towpath worker` takes them.
        mcp: Instead, a file of MCP servers.
        live: Instead, the tools that the platform has accepted; what they return is not known there.
    """
    tools = await read_tools(files, mcp, common, live=live)
    advised = [(tool, declaration(tool)) for tool in tools]
    if not common.is_plain:
        found = {tool.spec.name: {one.field: one.value for one in advice} for tool, advice in advised}
        common.out().data({"tools": found})
        return
    print(suggestion_text(advised), end="")


def declaration(tool: DeclaredTool) -> tuple[Advice, ...]:
    """Return what *tool* declares, as it is, and what is suggested for the rest: whoever wrote it knows the tool."""
    spec = tool.spec
    declared: dict[str, Any] = {
        "effect_class": None if spec.effect_class is EffectClass.IRREVERSIBLE else spec.effect_class,
        "sinks": spec.sinks,
        "hazards": spec.hazards or None,
        "trusted_output": spec.trusted_output or None,
        "trusted_fields": spec.trusted_fields or None,
    }
    kept = [Advice(field=name, value=one, reason=DECLARED) for name, one in declared.items() if one is not None]
    known = {one.field for one in kept}
    if spec.effect_class is EffectClass.PURE:
        known.add("hazards")  # what changes nothing destroys nothing
    if spec.trusted_output:
        known.add("trusted_fields")
    return (*kept, *(one for one in advise(spec, tool.output) if one.field not in known))


def suggestion_text(advised: Sequence[tuple[DeclaredTool, Sequence[Advice]]]) -> str:
    """Return the YAML: by server, where the tools are of MCP servers."""
    servers = dict.fromkeys(tool.server for tool, _ in advised)
    lines = [HEAD.rstrip("\n")]
    if any(servers):
        lines.append("servers:")
    for server in servers:
        indent = "  " if server else ""
        lines += [f"  {_scalar(server)}:"] if server else []
        lines.append(f"{indent * 2}tools:")
        for tool, advice in advised:
            if tool.server == server:
                lines += [f"{indent * 2}  {line}" for line in _tool_lines(tool, advice)]
    return "\n".join(lines) + "\n"


def _tool_lines(tool: DeclaredTool, advice: Sequence[Advice]) -> list[str]:
    spec = tool.spec
    name = spec.name.removeprefix(f"{spec.toolset}.") if tool.server else spec.name
    lines = [f"  {one.field}: {_value(one)}  # {plain_json(one.reason)[1:-1]}" for one in advice]
    fields = {one.field for one in advice}
    if "effect_class" not in fields and "sinks" not in fields and _arguments(spec):
        lines.append("  # sinks: no destination was recognised, so every argument counts as one")
    if "effect_class" not in fields:
        lines.append(f"  # effect_class: {EffectClass.IRREVERSIBLE}, as neither name nor description plainly reads")
    return [f"{_scalar(name)}:", *lines] if fields else [f"{_scalar(name)}: {{}}", *lines]


def _arguments(spec: ToolSpec) -> set[str]:
    return set(spec.parameters.get("properties", {})) - set(spec.system_params)


def _value(one: Advice) -> str:
    if isinstance(one.value, bool):
        return str(one.value).lower()
    return f"[{', '.join(map(_scalar, one.value))}]" if isinstance(one.value, tuple) else _scalar(str(one.value))


def _scalar(text: str) -> str:
    """Return *text* as YAML on one line: names come from servers, and must not write lines of their own."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_TYPES else plain_json(text)
