"""`towpath mcp`: what MCP servers offer, before an agent may use it; and the platform as a server for MCP clients.

The worker's own code connects to servers, as a child process. What editors start is a thin bridge to the gateway.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from towpath.cli.definitions.mcp_add_command import add_to
from towpath.cli.shared.child_process import run_module
from towpath.cli.shared.options import (
    CONNECTION_OPTIONS,
    PLATFORM_OPTIONS,
    ConnectionOptions,
    PlatformOptions,
    examples,
)
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.errors import unreachable
from towpath.process_arguments import WorkerArguments
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.client.settings import ClientTarget
    from towpath_contracts.tools.access import ToolsDescribed

app = App(
    name="mcp",
    help="Add MCP servers and look at what they offer; serve the platform to MCP clients.",
    help_epilogue=examples("towpath mcp add time uvx mcp-server-time", "towpath mcp inspect servers.yaml"),
)
add_to(app)

DRIFTED = 1
"""The exit code where a server is not reached, or offers something else than what was accepted."""


@app.command(help_epilogue=examples("towpath mcp inspect servers.yaml", "towpath mcp inspect servers.yaml -o json"))
async def inspect(file: Path, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> int:
    """Start the servers of a file, list their tools, and compare them with what the platform has accepted.

    Hints are what a server claims of its tool; they give no rights. Without a platform nothing is compared.

    Args:
        file: The file that `towpath worker --mcp` takes.
    """
    out = common.out()
    with out.progress("Asking the servers for their tools"):
        _, servers = await run_module("towpath_worker", *WorkerArguments(mcp=file, inspect=True).words())
        accepted = await _accepted(common)
    rows = [row for server in servers for row in _rows(server, accepted)]
    columns = (
        Column("tool", "tool"),
        Column("standing", "standing"),
        Column("effect", "effect_class"),
        Column("operation", "operation"),
        Column("definition", lambda row: (row["definition"] or "").removeprefix("sha256:")[:12]),
        Column("hints", lambda row: " ".join(sorted(name for name, value in row["hints"].items() if value is True))),
        Column("notes", lambda row: "; ".join(row["notes"]), is_whole=True),
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


@app.command(
    help_epilogue=examples("towpath mcp serve", "towpath mcp serve --folder ~/shop --server http://127.0.0.1:8787")
)
async def serve(*, folder: Path | None = None, common: PlatformOptions = PLATFORM_OPTIONS) -> int:
    """Serve the platform to an MCP client over standard input and output, as whoever starts this.

    Editors start this command; `towpath mcp config` prints what to write into their settings. It hands every message
    to the gateway's /mcp, which needs a client that speaks HTTP no such command.

    Args:
        folder: Serve the `towpath up` that runs in this folder, whatever the environment says.
    """
    from towpath.cli.definitions.mcp_bridge import McpBridge
    from towpath.client.client import Client

    with contextlib.chdir(folder or Path()):
        bridge = McpBridge(lambda: Client(served_target(common, folder)), _write_line)
        await bridge.serve(_lines())
    return 0


def served_target(common: PlatformOptions, folder: Path | None) -> "ClientTarget":
    """Return the platform to serve: a folder that is given means its own platform, with the token that lies there.

    Neither the environment nor a context comes into it: their key is meant for another platform.
    """
    from towpath.client.settings import (
        FOLDER_ORIGIN,
        ClientTarget,
        running_server_url,
        starting_platform,
        still_starting,
    )

    if folder is None or common.server is not None or common.context is not None:
        return common.target()
    running = running_server_url()
    if running is None and (pid := starting_platform()) is not None:
        raise still_starting(pid)
    if running is None:
        raise unreachable(str(Path.cwd()), "no platform of yours runs on this folder")
    return ClientTarget(server=running, server_origin=FOLDER_ORIGIN, api_key=common.api_key)


Editor = Literal["claude", "cursor", "vscode"]


@app.command(help_epilogue=examples("towpath mcp config", "towpath mcp config --editor vscode --http"))
async def config(
    *, editor: Editor = "claude", http: bool = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> int:
    """Print what to write into the settings of an editor, so that it uses this platform as an MCP server.

    It holds no secret: the command reads the token of the platform in this folder, the key of the context, or
    TOWPATH_API_KEY.

    Args:
        editor: Whose form it has.
        http: For editors that speak HTTP themselves; then the key is theirs to give.
    """
    server = _by_http(common) if http else _by_command(common)
    if editor == "vscode":
        server = {"type": "http" if http else "stdio", **server}
    elif http and editor == "claude":
        server = {"type": "http", **server}
    OutputPrinter("json").data({"servers" if editor == "vscode" else "mcpServers": {"towpath": server}})
    return 0


def _by_http(common: ConnectionOptions) -> dict[str, Any]:
    address = _gateway_address(common.address())
    return {"url": f"{address.rstrip('/')}/mcp", "headers": {"Authorization": "Bearer ${TOWPATH_API_KEY}"}}


def _by_command(common: ConnectionOptions) -> dict[str, Any]:
    """Return the command: by its whole path, and with the platform's folder, since editors have places of their own."""
    from towpath.client.settings import ClientSettings

    target = common.target()
    address = _gateway_address(target.server) if not target.context else _of_gateway(target.server)
    beside = Path(sys.executable).with_name("towpath")
    command = [str(beside)] if beside.exists() else [sys.executable, "-m", "towpath.cli"]
    arguments = [*command[1:], "mcp", "serve"]
    if target.is_of_folder:
        return {"command": command[0], "args": [*arguments, "--folder", str(Path.cwd())]}
    if not target.context:
        return {"command": command[0], "args": arguments, "env": {"TOWPATH_SERVER": address}}
    settings = ClientSettings()
    named = "contexts_file" in settings.model_fields_set
    environment = {"TOWPATH_CONTEXTS_FILE": str(settings.contexts_file.absolute())} if named else {}
    if target.context_origin == "given":  # as here: its key alone, whatever stands in the editor's environment
        arguments += ["--context", target.context]
    else:
        environment["TOWPATH_CONTEXT"] = target.context
    return {"command": command[0], "args": arguments, **({"env": environment} if environment else {})}


def _of_gateway(address: str) -> str:
    """Return *address*; raises ProblemError where it is that of a broker, which serves no MCP client."""
    from towpath.client.contexts import shown_address

    if address.startswith(("http://", "https://")):
        return address
    remedy = "Name the gateway: --server http://127.0.0.1:8787, or where yours listens; towpath up names its address."
    raise ProblemError(
        problem("request_invalid", f"{shown_address(address)} is no address of a gateway", remedy=remedy)
    )


def _gateway_address(address: str) -> str:
    """Return the address of a gateway as it can be printed; raises ProblemError where a password stands in it."""
    from towpath.client.contexts import shown_address

    if (shown := shown_address(_of_gateway(address))) == address:
        return address
    remedy = "Keep it in a context: towpath context add NAME --server URL; then name that: --context NAME."
    raise ProblemError(problem("request_invalid", f"{shown} holds a password, which is not printed", remedy=remedy))


def _write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input."""
    from towpath.cli.definitions.mcp_bridge import read_lines

    reader, pipe = asyncio.StreamReader(), os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except ValueError:  # a file is no pipe, and is there at once
        pipe.close()
        for line in sys.stdin.buffer:
            yield line
        return
    async for line in read_lines(reader):
        yield line
