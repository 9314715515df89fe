"""Where commands that look at declarations have their tools from: files, servers of MCP, or the platform."""

from pathlib import Path
from typing import NamedTuple

from towpath.cli.shared.child_process import run_module
from towpath.cli.shared.options import ConnectionOptions
from towpath.process_arguments import WorkerArguments
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.calls import ToolSpec

_BUILTIN_TOOLSET = "builtin"
_BUILTIN = frozenset({"echo", "clock.now", "http.request"})
"""Tools that come with the platform (`towpath.tools.builtin`, which brings an HTTP client): no user declares them."""


class DeclaredTool(NamedTuple):
    """A tool, the JSON Schema of its results where one is known, and the MCP server that it is of."""

    spec: ToolSpec
    output: JsonObject | None = None
    server: str = ""


async def read_tools(
    files: tuple[str, ...], mcp: Path | None, common: ConnectionOptions, *, live: bool
) -> list[DeclaredTool]:
    """Return the tools of modules or files, of the servers in *mcp*, or of the platform; refuses a mixture."""
    if sum((bool(files), mcp is not None, live)) != 1:
        detail = "name files or modules with tools, or --mcp with a file of servers, or --live"
        raise ProblemError(problem("request_invalid", detail))
    if live:
        async with common.connect() as client:
            described = await client.tools.list()
        return [DeclaredTool(spec) for spec in described.tools if is_of_user(spec)]
    if mcp is not None:
        with common.out().progress("Asking the servers for their tools"):
            _, servers = await run_module("towpath_worker", *WorkerArguments(mcp=mcp, inspect=True).words())
        away = [f"{server['name']}: {server['state']}" for server in servers if not server["connected"]]
        if away:
            raise ProblemError(problem("service_failed", f"not every server answers: {'; '.join(away)}"))
        return [
            DeclaredTool(ToolSpec.model_validate(one["spec"]), one["output_schema"], server["name"])
            for server in servers
            for one in server["tools"]
        ]
    with common.out().progress("Importing the tools"):
        found = await read_declared(files)
    if not found:  # nothing to say of no tool would read as if all were well
        detail = f"there is no tool in {', '.join(files)}"
        remedy = "Write @tool above each function that is to be a tool (from towpath import tool)."
        raise ProblemError(problem("request_invalid", detail, remedy=remedy))
    return found


async def read_declared(files: tuple[str, ...]) -> list[DeclaredTool]:
    """Return the tools of modules or files; none of none. They are imported in a process of their own."""
    if not files:
        return []
    _, found = await run_module("towpath.cli.definitions.declared_tools", *files)
    return [DeclaredTool(ToolSpec.model_validate(one["spec"]), one["output"]) for one in found]


def is_of_user(spec: ToolSpec) -> bool:
    """Return whether a user can change what *spec* declares: it is no tool that comes with the platform."""
    return not spec.internal and not (spec.toolset == _BUILTIN_TOOLSET and spec.name in _BUILTIN)
