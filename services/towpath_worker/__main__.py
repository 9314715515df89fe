"""`python -m towpath_worker [MODULE_OR_FILE…] [--builtin] [--mcp FILE]`: serves the tools that stand in the modules.

The only place where a worker's parts are chosen and put together.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from towpath.errors import DeclarationError, RefusedError
from towpath.hooks import Hook
from towpath.tools import builtin
from towpath.tools.toolbox import Toolbox, collect, load_module
from towpath_fabric.service import Service
from towpath_worker.adapters.mcp.config import ServersFile
from towpath_worker.adapters.mcp.server_list import make_servers, read_servers
from towpath_worker.app.worker import Worker, WorkerOptions
from towpath_worker.settings import WorkerSettings

USAGE_ERROR = 2
REPORT_S = 1.5
"""Part of the grace that is kept for closing after the calls have had theirs."""


def arguments() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(prog="towpath worker", description="Run a tool worker.")
    parser.add_argument("modules", nargs="*", metavar="MODULE_OR_FILE", help="dotted module, or path of a .py file")
    parser.add_argument("--concurrency", type=int, help="how many calls run at once (default 16)")
    parser.add_argument("--mcp", metavar="FILE", help="serve the tools of the MCP servers in this YAML file too")
    parser.add_argument("--toolsets", action="store_true", help="print the names of the toolsets as JSON, and end")
    parser.add_argument("--builtin", action="store_true", help="serve the built-in toolset too")
    return parser


def gather(
    modules: Sequence[str], *, with_builtin: bool, discovering: bool = False
) -> tuple[Toolbox, tuple[Hook, ...]]:
    """Import the modules and return their tools and hooks; raises DeclarationError where there is nothing to serve."""
    loaded = [load_module(name) for name in modules]
    if with_builtin:
        loaded.append(builtin)
    tools, hooks = collect(loaded)
    if not tools and not discovering:
        msg = "there is no tool to serve; name a module with functions under @tool, or use --builtin or --mcp"
        raise DeclarationError(msg)
    return Toolbox(tools), tuple(hooks)


def make(
    service: Service,
    settings: WorkerSettings,
    toolbox: Toolbox,
    hooks: tuple[Hook, ...],
    servers: ServersFile | None = None,
) -> Worker:
    """Put a worker together and add it to the service."""
    options = WorkerOptions(
        name=settings.instance,
        owner=settings.worker_owner,
        project=settings.project,
        concurrency=settings.worker_concurrency,
    )
    worker = Worker(
        service.bus,
        toolbox,
        options=options,
        log=service.log,
        registry=service.registry,
        hooks=hooks,
        telemetry=service.telemetry,
        sources=make_servers(servers, service.log) if servers is not None else (),
    )
    service.health.check("worker", worker.ready)
    service.loop(worker.run)

    async def drain() -> None:
        await worker.drain(max(0.5, settings.stop_grace_s - REPORT_S))

    service.on_stop(drain)
    return worker


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is told to stop; returns the exit code."""
    asked = arguments().parse_args(argv)
    given = {} if asked.concurrency is None else {"worker_concurrency": asked.concurrency}
    try:
        settings = WorkerSettings.load(**given).model_copy(update={"database_url": None})
        servers = read_servers(asked.mcp) if asked.mcp else None
        toolbox, hooks = gather(asked.modules, with_builtin=asked.builtin, discovering=servers is not None)
    except (DeclarationError, RefusedError, ValidationError) as error:
        sys.stderr.write(f"towpath worker: {error}\n")
        return USAGE_ERROR
    if asked.toolsets:
        discovered = () if servers is None else (one.toolset or name for name, one in servers.servers.items())
        sys.stdout.write(json.dumps(sorted({*toolbox.toolsets(), *discovered})) + "\n")
        sys.stdout.flush()
        return 0
    service = Service("worker", settings)
    worker = make(service, settings, toolbox, hooks, servers)
    code = service.run()
    if worker.overrun:  # Python would wait for ever for the threads of tools that ignore their timeout
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
