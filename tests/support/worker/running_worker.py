"""Runs a worker inside the test, on a broker connection of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry
from tests.support.worker import worker_tools

from towpath.hooks import Hook
from towpath.project.mcp_servers import ServersFile
from towpath.toolbox import WorkerTools, collect
from towpath.tools.declaration import AnyTool
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.turns.task_end import end_tasks
from towpath_worker.adapters.mcp.server_list import make_servers
from towpath_worker.app.worker import ToolWorker, WorkerOptions


@dataclass
class Serving:
    """A worker that runs."""

    worker: ToolWorker
    bus: Bus
    registry: CollectorRegistry

    def count(self, name: str, **labels: str) -> float:
        """Return one of its counters."""
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def serving(
    url: str,
    *,
    name: str = "worker-1",
    project: str = "default",
    concurrency: int = 16,
    tools: Iterable[AnyTool] | None = None,
    hooks: tuple[Hook, ...] = (),
    drain_s: float = 0.0,
    servers: ServersFile | None = None,
    **settings: object,
) -> AsyncIterator[Serving]:
    """Serve *tools* (those of worker_tools, without any), and MCP *servers*, until the block ends."""
    bus = Bus("worker", Settings.load(nats_url=url, stop_grace_s=0.5, **settings))
    await bus.connect()
    found, _ = collect([worker_tools])
    registry = CollectorRegistry()
    log = structlog.wrap_logger(logging.getLogger("worker"), wrapper_class=structlog.stdlib.BoundLogger)
    worker = ToolWorker(
        bus,
        WorkerTools(found if tools is None else tools),
        options=WorkerOptions(name=name, project=project, concurrency=concurrency),
        log=log,
        registry=registry,
        hooks=hooks,
        sources=() if servers is None else make_servers(servers, log),
    )
    running = asyncio.create_task(worker.run())
    try:
        yield Serving(worker=worker, bus=bus, registry=registry)
        await worker.drain(drain_s)
    finally:
        await end_tasks([running])
        await bus.close()
