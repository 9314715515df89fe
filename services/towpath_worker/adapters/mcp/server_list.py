"""From a file of MCP servers to what a worker can run.

The SDK is imported here first, so that workers without MCP servers need not have it; its own log lines stay out of
the log, because they repeat what servers say.
"""

import importlib
import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.errors import DeclarationError
from towpath_fabric.telemetry.logs import Logger
from towpath_worker.adapters.mcp.config import ServersFile, load_servers

if TYPE_CHECKING:
    from towpath_worker.adapters.mcp.server import McpServer

_TALKATIVE = ("mcp", "client")
"""Loggers of the SDK, which write down what they could not read, secrets included."""


def read_servers(path: str | Path) -> ServersFile:
    """Read the file; raises RefusedError, or DeclarationError where the SDK is not installed."""
    if importlib.util.find_spec("mcp") is None:
        msg = "MCP servers need the package mcp: pip install 'towpath[worker]'"
        raise DeclarationError(msg)
    return load_servers(path)


def make_servers(file: ServersFile, log: Logger) -> "tuple[McpServer, ...]":
    """Return one source of tools per server of *file*."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    server = importlib.import_module(
        "towpath_worker.adapters.mcp.server"
    )  # half a second that other workers need not pay
    return tuple(server.McpServer(name, config, file.folder, log) for name, config in file.servers.items())
