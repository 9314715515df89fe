"""Serves what the file of MCP servers says as soon as it is saved, by a new worker in the place of the former one.

A file that can't be read is told, and the worker goes on with what it has. Where the project had no such file at the
start, and `towpath.yaml` now names one, a first worker is started for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.errors import RefusedError
from towpath.project.project_file import read_project
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.tool_files import Version, version_of

if TYPE_CHECKING:
    from towpath_embedded.network_folder import NetworkFolderPublisher

LOOK_S = 0.5
SETTLE_S = 0.2
"""For how long the file does not change before it is read: an editor saves in several steps."""

MCP_WORKER = "worker-2"
"""The process with the tools of MCP servers, beside that of a person's own."""


class McpReload:
    """Keeps the worker of MCP servers at the file of its *launch*, or at the one that *project* names later."""

    def __init__(
        self,
        platform: Platform,
        launch: WorkerLaunch,
        project: Path | None,
        show: ShowLine,
        refused: RefusedFiles,
        served: ServedTools,
    ) -> None:
        self._platform = platform
        self._launch = launch
        self._project = project
        self._show = show
        self._refused = refused
        self._served = served
        self._is_started = launch.mcp is not None
        self._seen = self._version()

    async def follow(
        self,
        folder: "NetworkFolderPublisher | None",
        look: Callable[[], Awaitable[None]] | None,
        read_logs: Callable[[], None],
    ) -> None:
        """Look at the file until cancelled; after each restart publish *folder*, and *look* for tools without worker.

        *read_logs* reads what the new worker says that it has.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            if self._launch.mcp is None:
                self._launch = replace(self._launch, mcp=self._named_now())
            found = self._version()
            while found != self._seen:
                self._seen = found
                await asyncio.sleep(SETTLE_S)
                found = self._version()
                if found == self._seen and await self._restart():
                    read_logs()
                    if folder is not None:
                        folder.tools_changed()
                    if look is not None:
                        await look()

    async def _restart(self) -> bool:
        """Put a new worker in the place of the one that is there, or tell why it goes on; whether it is a new one."""
        assert self._launch.mcp is not None
        file = self._launch.mcp.name
        before = self._served.forget(MCP_WORKER)
        try:
            found = await self._platform.user_code.inventory(MCP_WORKER, self._launch)
            if self._is_started:
                await self._platform.replace_worker(MCP_WORKER, self._launch, found)
            else:
                await self._platform.add_worker(self._launch)
        except BaseException as error:
            self._served.recall(MCP_WORKER, before)
            if not isinstance(error, ProblemError) or error.problem.code == BUSY:
                self._seen = None  # nothing is wrong with the file: whoever keeps this going has it served later
                raise
            self._refused.put(file, error.problem.detail.splitlines(), FileFate.TOOLS)
            return False
        self._is_started = True
        self._refused.put(file, ())
        self._show(f"{file}: worker restarted, MCP servers of {', '.join(found.toolsets)}", "")
        return True

    def _named_now(self) -> Path | None:
        try:
            named = read_project(self._project).mcp if self._project is not None else None
        except (RefusedError, OSError):  # it is being saved, or has mistakes
            return None
        return None if named is None else named.absolute()

    def _version(self) -> Version | None:
        return None if self._launch.mcp is None else version_of(self._launch.mcp)
