"""`towpath mcp`: what MCP servers offer, before an agent may use it.

The worker's own code connects to the servers, as a child process.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from towpath.cli.shared.child_process import run_module
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError

if TYPE_CHECKING:
    from towpath_contracts.tools.access import ToolsDescribed

app = App(name="mcp", help="Look at what MCP servers offer, and what changed since it was accepted.")

DRIFTED = 1
"""The exit code where a server is not reached, or offers something else than what was accepted."""


@app.command(help_epilogue=examples("towpath mcp inspect servers.yaml", "towpath mcp inspect servers.yaml -o json"))
async def inspect(file: Path, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> int:
    """Start the servers of a file, list their tools, and compare them with what the platform has accepted.

    Hints are what a server claims of its tool; they give no rights. Without a platform nothing is compared.

    Args:
        file: The file that `towpath worker --mcp` takes.
    """
    _, servers = await run_module("towpath_worker", "--mcp", str(file), "--inspect")
    accepted = await _accepted(common)
    rows = [row for server in servers for row in _rows(server, accepted)]
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
    for server in servers:
        if not server["connected"]:
            out.write(f"{server['name']}: {server['state']}", "red")
        if server["left_out"]:
            out.write(f"{server['name']}: left out by allow and deny: {', '.join(server['left_out'])}", "dim")
    if accepted is None:
        out.write("No platform answers: nothing was compared with what is accepted.", "dim")
    away = not all(server["connected"] for server in servers)
    return DRIFTED if away or any(row["standing"] == "drifted" for row in rows) else 0


async def _accepted(common: ConnectionOptions) -> "ToolsDescribed | None":
    """Return what the platform has; None where none answers."""
    try:
        async with common.connect() as client:
            return await client.tools.list(proposals=True)
    except ProblemError as error:
        if error.problem.code != "server_unreachable":
            raise
        return None


def _rows(server: dict[str, Any], accepted: "ToolsDescribed | None") -> list[dict[str, Any]]:
    known = {} if accepted is None else {spec.name: spec for spec in accepted.tools}
    rows = []
    for found in server["tools"]:
        before = known.get(found["tool"])
        standing = "" if accepted is None else "new" if before is None else "accepted"
        if before is not None and before.definition != found["definition"]:
            standing = "drifted"
        rows.append({"server": server["name"], "tool": found["tool"], "standing": standing, **found})
    for name, reason in server["refused"].items():
        empty: dict[str, Any] = dict.fromkeys(("effect_class", "operation", "definition", "description"))
        row = {"server": server["name"], "tool": name, "standing": "refused", **empty, "hints": {}, "notes": [reason]}
        rows.append(row)
    return rows
