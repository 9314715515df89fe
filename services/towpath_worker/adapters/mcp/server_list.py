"""From a file of MCP servers to what a worker can run, or to a description of what the servers offer.

The MCP SDK is imported here first and late, so that workers without MCP servers need not have it. Its own log lines are
silenced, because they repeat what servers write, secrets included.
"""

import asyncio
import importlib
import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from towpath.errors import DeclarationError
from towpath.project.mcp_servers import ServersFile, load_servers
from towpath_contracts.base import JsonObject
from towpath_fabric.telemetry.logs import Logger

if TYPE_CHECKING:
    from towpath_worker.adapters.mcp.server import McpServer

_SDK_LOGGERS = ("mcp", "client")


def read_servers(path: str | Path) -> ServersFile:
    """Read the file; raises RefusedError, or DeclarationError where the SDK is not installed."""
    if importlib.util.find_spec("mcp") is None:
        msg = "MCP servers need the package mcp: pip install 'towpath[worker]'"
        raise DeclarationError(msg)
    return load_servers(path)


def make_servers(file: ServersFile, log: Logger) -> "tuple[McpServer, ...]":
    """Return one source of tools per server of *file*."""
    for name in _SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Half a second that other workers need not pay.
    server = importlib.import_module("towpath_worker.adapters.mcp.server")
    return tuple(server.McpServer(name, config, file.folder, log) for name, config in file.servers.items())


async def inspect_servers(file: ServersFile) -> list[JsonObject]:
    """Connect to every server once, list its tools, and close it; return one JSON object per server."""
    quiet: Any = structlog.wrap_logger(
        structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    servers = make_servers(file, quiet)
    running = [asyncio.create_task(server.run()) for server in servers]
    try:
        await asyncio.gather(*(server.settled.wait() for server in servers))
        return [_description(server) for server in servers]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _description(server: "McpServer") -> JsonObject:
    found = server.discovered
    return {
        "name": server.name,
        "connected": server.state == "connected",
        "state": server.state,
        "tools": [
            {
                "tool": one.spec.name,
                "effect_class": str(one.spec.effect_class),
                "operation": one.spec.operation,
                "definition": one.spec.definition,
                "hints": one.hints,
                "notes": list(one.warnings),
                "description": one.spec.description,
                "spec": one.spec.model_dump(mode="json"),
                "output_schema": one.output_schema,
            }
            for one in found.found
        ],
        "refused": dict(found.refused),
        "left_out": list(found.left_out),
    }
