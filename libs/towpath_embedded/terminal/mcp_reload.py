"""Serves what the file of MCP servers says as soon as it is saved, by a new worker in the place of the former one.

A file that can't be read is told, and the worker goes on with what it has. Where `towpath.yaml` names the file it may
name another one later, or the first: a first worker is started for that one.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from towpath.errors import RefusedError
from towpath.project.project_file import read_project
from towpath_contracts.problems.registry import Problem
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.tool_files import Version, is_newer, version_of
from towpath_embedded.terminal.worker_replacement import SETTLE_S, AfterReload, WorkerReplacement

MCP_WORKER = "worker-2"
"""The process with the tools of MCP servers, beside that of a person's own."""


class McpReload:
    """Keeps the worker of MCP servers at the file of its *launch*; where *project* names that, at what it names now."""

    def __init__(
        self,
        platform: Platform,
        launch: WorkerLaunch,
        project: Path | None,
        show: ShowLine,
        refused: RefusedFiles,
        served: ServedTools,
        then: AfterReload,
    ) -> None:
        self._launch = launch
        self._show = show
        self._refused = refused
        self._replacement = WorkerReplacement(platform, MCP_WORKER, show, served, then)
        self._is_started = launch.mcp is not None
        self._project = project if project is not None and _names(project, launch.mcp) else None
        self._project_read: Version | None = None
        self._named = launch.mcp
        self._seen = self._version()
        if self._seen is not None and is_newer(self._seen[1], platform.started_at):
            self._seen = None  # saved while the platform started

    async def follow(self) -> None:
        """Look at the file until cancelled."""
        while True:
            await asyncio.sleep(self._replacement.pause_s)
            self._follow_project()
            while (found := self._version()) != self._seen or self._replacement.is_hindered:
                self._seen = found
                await asyncio.sleep(SETTLE_S)
                if self._version() == found:
                    await self._serve()
                    break

    async def _serve(self) -> None:
        """Put a new worker in the place of the one that is there, or tell why it goes on."""
        assert self._launch.mcp is not None
        file = self._launch.mcp.name
        try:
            found = await self._replacement.replace(
                self._launch, lambda: self._version() != self._seen, is_first=not self._is_started
            )
        except BaseException:  # who follows begins anew, and this file was not served
            self._seen = None
            raise
        if found is None:  # the same again, soon
            return
        if isinstance(found, Problem):
            self._refused.put(file, found.detail.splitlines(), FileFate.TOOLS)
            return
        self._is_started = True
        self._refused.put(file, ())
        self._show(f"{file}: worker restarted, MCP servers of {', '.join(found.toolsets)}", "")
        await self._replacement.finish()

    def _follow_project(self) -> None:
        """Take the file that the project names now; where it names none any more the worker goes on, which is told."""
        if self._project is None or (saved := version_of(self._project)) == self._project_read:
            return
        try:
            named = _named_by(self._project)
        except (
            RefusedError,
            OSError,
        ):  # it is being saved, or has mistakes, or the file that it names is not there yet
            return
        self._project_read = saved
        if named == self._named:
            return
        self._named = named
        if named is None:
            told = f"{self._project.name} names no MCP servers any more; start towpath up again to use it"
            self._show(told, "yellow")
            return
        if self._launch.mcp is not None:
            self._refused.put(self._launch.mcp.name, ())
        self._launch = replace(self._launch, mcp=named)

    def _version(self) -> tuple[Path, Version | None] | None:
        file = self._launch.mcp
        return None if file is None else (file, version_of(file))


def _names(project: Path, file: Path | None) -> bool:
    """Return whether the *file* that is served is the project's, and none that was given beside it."""
    try:
        return file is None or _named_by(project) == file
    except (RefusedError, OSError):  # it has been saved since the start, with mistakes
        return True


def _named_by(project: Path) -> Path | None:
    named = read_project(project).mcp
    return None if named is None else named.absolute()
