"""Chooses and connects the parts of a worker process."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from towpath.errors import DeclarationError, RefusedError, problem_of
from towpath.hooks import Hook
from towpath.module_sources import imported_sources, place_of_fault
from towpath.process_arguments import DRAIN_SIGNAL
from towpath.toolbox import WorkerTools, collect, functions_without_tool, load_module
from towpath.tools.platform_address import PlatformAddressSettings
from towpath.tools.sandbox import refusal
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem, problem
from towpath_fabric.addresses.broker_addresses import DEFAULT_PORT, broker_places
from towpath_fabric.nats.bus import Bus
from towpath_fabric.service import Service
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_worker.app.worker import ToolWorker, WorkerOptions
from towpath_worker.settings import WorkerSettings

if TYPE_CHECKING:
    from towpath.project.mcp_servers import ServersFile
    from towpath_worker.adapters.mcp.server import McpServer

CLOSE_S = 1.5
"""Part of the grace period that is kept for closing, after the running calls have used the rest."""

_TOOLS = "programs of tools"
_REMEDY = "sandbox: preferred or required, with what it needs (docs/mcp.md)"


def load_tools(
    modules: Sequence[str], *, with_builtin: bool, allow_none: bool = False
) -> tuple[WorkerTools, tuple[Hook, ...]]:
    """Import the modules and return their tools and hooks.

    Raises DeclarationError where there is nothing to serve, and RefusedError `user_code_unreadable` for a file that
    ends the process.
    """
    own: list[ModuleType] = []
    if with_builtin:  # before other modules: what it brings is not looked for beside these
        from towpath.tools import builtin  # noqa: PLC0415 - brings an HTTP client

        own.append(builtin)
    loaded = [*(_load(name) for name in modules), *own]
    tools, hooks = collect(loaded)
    if not tools and not allow_none:
        where = f"no function of {', '.join(modules)} is under @tool" if modules else "no module is named"
        msg = f"there is no tool to serve: {where}; write @tool above one, or use --builtin or --mcp"
        raise DeclarationError(msg)
    return WorkerTools(tools), tuple(hooks)


def note_files_without_tools(modules: Sequence[str], log: Logger) -> None:
    """Warn of each of the *modules* that has nothing to serve: whoever named it expects tools of it."""
    for name in modules:
        functions = functions_without_tool(_load(name))  # it is imported already
        if functions is not None:
            log.warning("a file has no tool", file=name, functions=functions)


def inventory(modules: Sequence[str], toolsets: Iterable[str]) -> JsonObject:
    """Return what a worker serves: its toolsets, the tools of each of the *modules*, and the files of all of these."""
    tools = {name: [one.name for one in collect([_load(name)])[0]] for name in modules}  # each is imported already
    named = [file for name in modules if (file := getattr(_load(name), "__file__", None)) is not None]
    return {"toolsets": sorted(toolsets), "tools": tools, "files": sorted({*imported_sources(), *named})}


def refusal_of(error: Exception) -> Problem:
    """Return why a worker with these modules or MCP servers can't be started."""
    return problem("project_invalid", str(error)) if isinstance(error, DeclarationError) else problem_of(error)


def _load(name: str) -> ModuleType:
    try:
        return load_module(name)
    except SystemExit as ended:  # without a word of its own the worker would just be gone
        detail = f"{place_of_fault(name, ended)}: SystemExit({ended.code!r}) ends the process that imports {name}"
        remedy = "Put that line below `if __name__ == '__main__':`, and start the worker again."
        raise RefusedError(problem("user_code_unreadable", detail, remedy=remedy)) from ended


def new_worker(
    bus: Bus,
    settings: WorkerSettings,
    tools: WorkerTools,
    hooks: tuple[Hook, ...],
    log: Logger,
    registry: CollectorRegistry,
    telemetry: SpanRecorder,
    servers: "ServersFile | None" = None,
) -> ToolWorker:
    """Make a worker on *bus*, of whichever process."""
    options = WorkerOptions(
        name=settings.instance,
        owner=settings.worker_owner,
        project=settings.project,
        concurrency=settings.worker_concurrency,
    )
    sources: tuple[McpServer, ...] = ()
    if servers is not None:
        from towpath_worker.adapters.mcp.server_list import make_servers  # noqa: PLC0415 - brings YAML and MCP

        sources = make_servers(servers, log)
    return ToolWorker(
        bus,
        tools,
        options=options,
        log=log,
        registry=registry,
        hooks=hooks,
        telemetry=telemetry,
        sources=sources,
    )


def make_worker(
    service: Service,
    settings: WorkerSettings,
    tools: WorkerTools,
    hooks: tuple[Hook, ...],
    servers: "ServersFile | None" = None,
) -> ToolWorker:
    """Make a worker and add it to the service."""
    worker = new_worker(service.bus, settings, tools, hooks, service.log, service.registry, service.telemetry, servers)
    service.health.check("worker", worker.ready)

    async def end_drained() -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(DRAIN_SIGNAL, asked.set)
        await asked.wait()
        await worker.finish_calls()
        signal.raise_signal(signal.SIGTERM)

    service.loop(end_drained)
    service.loop(worker.run)

    async def drain() -> None:
        await worker.drain(max(0.5, settings.stop_grace_s - CLOSE_S))

    service.on_stop(drain)
    return worker


def tell_person(service: Service, worker: ToolWorker, toolbox: WorkerTools) -> None:
    """Print one line at a terminal once the tools are registered: what is served, and for which platform."""
    if not sys.stdout.isatty():
        return

    async def tell() -> None:
        await worker.registered.wait()
        sys.stdout.write(f"  {serving_line(toolbox, platform_address(service.settings.nats_url))}\n")
        sys.stdout.flush()

    service.loop(tell)


def serving_line(toolbox: WorkerTools, address: str) -> str:
    """Return the line about the tools of each toolset that are served for the platform at *address*."""
    told = [
        f"{', '.join(tool.name for tool in tools) or 'what its servers offer'} (toolset {name})"
        for name, tools in toolbox.toolsets().items()
    ]
    return f"serving {'; '.join(told)} for {address}; Ctrl-C ends it"


def platform_address(nats_url: str) -> str:
    """Return where the platform on this machine answers, or else its broker, without a password."""
    state_file = PlatformAddressSettings().state_file
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if state_file is not None:
            return str(json.loads(state_file.read_text("utf-8"))["gateway_url"])
    return ", ".join(
        f"{place.scheme}://{place.hostname}:{place.port or DEFAULT_PORT}" for place in broker_places(nats_url)
    )


def require_sandboxes(settings: WorkerSettings, servers: "ServersFile | None") -> None:
    """Raise RefusedError `sandbox_unavailable` where something requires a sandbox and none can be had."""
    requiring = sorted(name for name, mode in _modes(settings, servers).items() if mode == "required")
    if requiring and (why := refusal()):
        raise RefusedError(problem("sandbox_unavailable", f"{', '.join(requiring)}: {why}"))


def note_sandboxes(settings: WorkerSettings, servers: "ServersFile | None", log: Logger) -> None:
    """Warn once of the programs that reach whatever this worker's user may."""
    modes = _modes(settings, servers)
    preferring = sorted(name for name, mode in modes.items() if mode == "preferred")
    if preferring and (why := refusal()):
        log.warning("programs run without a sandbox", servers=preferring, reason=why)
    open_servers = sorted(name for name, mode in modes.items() if mode == "none" and name != _TOOLS)
    if open_servers:
        log.warning("MCP servers run without a sandbox", servers=open_servers, remedy=_REMEDY)


def _modes(settings: WorkerSettings, servers: "ServersFile | None") -> dict[str, str]:
    """Return the mode of the programs of tools, and of every MCP server that is a program, by name."""
    named = {} if servers is None else servers.servers
    own = {name: one.sandbox or settings.worker_sandbox for name, one in named.items() if one.command is not None}
    return {_TOOLS: settings.worker_sandbox, **own}
