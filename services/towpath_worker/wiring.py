"""Chooses and connects the parts of a worker process."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.errors import DeclarationError
from towpath.hooks import Hook
from towpath.toolbox import WorkerTools, collect, load_module
from towpath_fabric.service import Service
from towpath_worker.app.worker import Worker, WorkerOptions
from towpath_worker.settings import WorkerSettings

if TYPE_CHECKING:
    from towpath_worker.adapters.mcp.config import ServersFile
    from towpath_worker.adapters.mcp.server import McpServer

CLOSE_S = 1.5
"""Part of the grace period that is kept for closing, after the running calls have used the rest."""


def load_tools(
    modules: Sequence[str], *, with_builtin: bool, allow_none: bool = False
) -> tuple[WorkerTools, tuple[Hook, ...]]:
    """Import the modules and return their tools and hooks; raises DeclarationError where there is nothing to serve."""
    loaded = [load_module(name) for name in modules]
    if with_builtin:
        from towpath.tools import builtin  # noqa: PLC0415 - brings an HTTP client

        loaded.append(builtin)
    tools, hooks = collect(loaded)
    if not tools and not allow_none:
        msg = "there is no tool to serve; name a module with functions under @tool, or use --builtin or --mcp"
        raise DeclarationError(msg)
    return WorkerTools(tools), tuple(hooks)


def make_worker(
    service: Service,
    settings: WorkerSettings,
    toolbox: WorkerTools,
    hooks: tuple[Hook, ...],
    servers: "ServersFile | None" = None,
) -> Worker:
    """Make a worker and add it to the service."""
    options = WorkerOptions(
        name=settings.instance,
        owner=settings.worker_owner,
        project=settings.project,
        concurrency=settings.worker_concurrency,
    )
    sources: tuple[McpServer, ...] = ()
    if servers is not None:
        from towpath_worker.adapters.mcp.server_list import make_servers  # noqa: PLC0415 - brings YAML and MCP

        sources = make_servers(servers, service.log)
    worker = Worker(
        service.bus,
        toolbox,
        options=options,
        log=service.log,
        registry=service.registry,
        hooks=hooks,
        telemetry=service.telemetry,
        sources=sources,
    )
    service.health.check("worker", worker.ready)
    service.loop(worker.run)

    async def drain() -> None:
        await worker.drain(max(0.5, settings.stop_grace_s - CLOSE_S))

    service.on_stop(drain)
    return worker
