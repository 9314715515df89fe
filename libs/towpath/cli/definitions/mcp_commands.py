"""`towpath mcp`: what MCP servers offer, before anybody lets an agent near it."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from towpath.cli.shared.options import COMMON, Common, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError

if TYPE_CHECKING:
    from towpath_contracts.tools.access import ToolsDescribed
    from towpath_worker.adapters.mcp.server import McpServer

app = App(name="mcp", help="Look at what MCP servers offer, and what changed since it was accepted.")

CONNECTED = "connected"
DRIFTED = 1
"""The exit code where a server is not reached, or offers something else than what was accepted."""


@app.command(help_epilogue=examples("towpath mcp inspect servers.yaml", "towpath mcp inspect servers.yaml -o json"))
async def inspect(file: Path, /, *, common: Common = COMMON) -> int:
    """Start the servers of a file, list their tools, and compare them with what the platform has accepted.

    Hints are what a server claims of its tool; they give no rights. Without a platform nothing is compared.

    Args:
        file: The file that `towpath worker --mcp` takes.
    """
    found = await _found(file)
    accepted = await _accepted(common)
    rows = [row for server, _ in found for row in _rows(server, accepted)]
    out = common.out()
    columns = (
        Column("tool", "tool"),
        Column("standing", "standing"),
        Column("effect", "effect_class"),
        Column("operation", "operation"),
        Column("definition", lambda row: (row["definition"] or "").removeprefix("sha256:")[:12]),
        Column("hints", lambda row: " ".join(sorted(name for name, value in row["hints"].items() if value is True))),
        Column("notes", lambda row: "; ".join(row["notes"])),
    )
    out.rows("tools", rows, columns, empty="The servers offer no tool.")
    for server, state in found:
        if state != CONNECTED:
            out.say(f"{server.name}: {state}", "red")
        if server.discovered.left_out:
            out.say(f"{server.name}: left out by allow and deny: {', '.join(server.discovered.left_out)}", "dim")
    if accepted is None:
        out.say("No platform answers: nothing was compared with what is accepted.", "dim")
    away = any(state != CONNECTED for _, state in found)
    return DRIFTED if away or any(row["standing"] == "drifted" for row in rows) else 0


async def _found(file: Path) -> "list[tuple[McpServer, str]]":
    """Connect every server once, read its tools, and end it; return each with how it stood."""
    import structlog

    from towpath_worker.adapters.mcp.server_list import make_servers, read_servers

    quiet: Any = structlog.wrap_logger(
        structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    servers = make_servers(read_servers(file), quiet)
    running = [asyncio.create_task(server.run()) for server in servers]
    try:
        await asyncio.gather(*(server.settled.wait() for server in servers))
        return [(server, server.state) for server in servers]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _accepted(common: Common) -> "ToolsDescribed | None":
    """Return what the platform has; None where none answers."""
    try:
        async with common.asking() as client:
            return await client.tools.list(proposals=True)
    except ProblemError as error:
        if error.problem.code != "server_unreachable":
            raise
        return None


def _rows(server: "McpServer", accepted: "ToolsDescribed | None") -> list[dict[str, Any]]:
    known = {} if accepted is None else {spec.name: spec for spec in accepted.tools}
    rows = []
    for found in server.discovered.found:
        spec, before = found.spec, known.get(found.spec.name)
        standing = "" if accepted is None else "new" if before is None else "accepted"
        if before is not None and before.definition != spec.definition:
            standing = "drifted"
        rows.append(
            {
                "server": server.name,
                "tool": spec.name,
                "standing": standing,
                "effect_class": str(spec.effect_class),
                "operation": spec.operation,
                "definition": spec.definition,
                "hints": found.hints,
                "notes": list(found.warnings),
                "description": spec.description,
            }
        )
    for name, why in server.discovered.refused.items():
        empty: dict[str, Any] = dict.fromkeys(("effect_class", "operation", "definition", "description"))
        rows.append({"server": server.name, "tool": name, "standing": "refused", **empty, "hints": {}, "notes": [why]})
    return rows
