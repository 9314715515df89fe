"""Serves what a person's own files with tools say as soon as they are saved, by a new worker.

The files are first imported by another process. While that fails, the worker that is there goes on with what it has,
and what is wrong is told. Once it succeeds a new worker is started, and the former one takes no more calls and ends
when those that it has are finished: calls that wait are taken by the new one, and none is lost.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from towpath_contracts.problems.registry import Problem
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.tool_files import ToolFiles
from towpath_embedded.terminal.worker_replacement import SETTLE_S, AfterReload, WorkerReplacement
from towpath_embedded.user_code_rights import WorkerInventory
from towpath_fabric.clock import wall

WORKER = "worker"
"""The process with the tools of a person's own; MCP servers have another one."""


class WorkerReload:
    """Keeps the *launch* of a worker at its *files*; *show* gets a line and its style for each restart."""

    def __init__(
        self,
        platform: Platform,
        launch: WorkerLaunch,
        files: ToolFiles,
        show: ShowLine,
        refused: RefusedFiles,
        served: ServedTools,
        then: AfterReload,
    ) -> None:
        self._launch = launch
        self._files = files
        self._show = show
        self._refused = refused
        self._replacement = WorkerReplacement(platform, WORKER, show, served, then)
        self._inventory = platform.user_code.served_by(WORKER)
        self._faulty: set[str] = set()
        self._restarting = asyncio.Lock()
        self._unserved: set[Path] = set()
        self._is_due = False
        files.follow_imports(self._inventory.files)

    async def follow(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(self._replacement.pause_s)
            self._unserved |= await self._changed()
            if self._unserved or self._is_due:
                await self.restart(sorted(self._unserved))

    async def _changed(self) -> set[Path]:
        """Return what was saved, once nothing more is; tell of the project's own file, which is read at the start."""
        changed = more = set(self._files.changed())
        while more:
            await asyncio.sleep(SETTLE_S)
            more = set(self._files.changed())
            changed |= more
        if self._files.project in changed:
            changed.discard(self._files.project)
            if self._files.needs_new_start():
                self._show(f"{self._files.project.name} changed; start towpath up again to use it", "yellow")
        return changed

    async def restart(self, changed: Sequence[Path] = ()) -> None:
        """Put a new worker in the place of the one that is there, or tell why it goes on; *changed* is why."""
        async with self._restarting:
            began = wall()
            worker = replace(self._launch, modules=self._files.modules())
            found = await self._replacement.replace(worker, self._files.have_changed)
            self._is_due = found is None
            if found is None:  # the same again, soon
                return
            self._unserved.difference_update(changed)
            if isinstance(found, Problem):
                self._tell_refused(changed, found)
                return
            self._mend()
            self._show(told_restart(changed, self._inventory, found), "")
            self._inventory = found
            self._files.follow_imports(found.files, read_at=began)
            await self._replacement.finish()

    def _mend(self) -> None:
        """Tell that no file is at fault any more."""
        for file in self._faulty:
            self._refused.put(file, ())
        self._faulty.clear()

    def _tell_refused(self, changed: Sequence[Path], why: Problem) -> None:
        faults = why.detail.splitlines()
        names = [_name(path) for path in changed] or list(self._files.modules())
        at_fault = [name for name in names if name in faults[0] or Path(name).name in faults[0]]
        file = (at_fault or names or [WORKER])[0]
        self._mend()  # the import ends at the first file that is at fault: another one may be mended
        self._faulty.add(file)
        self._refused.put(file, faults, FileFate.TOOLS)


def told_restart(changed: Sequence[Path], before: WorkerInventory, now: WorkerInventory) -> str:
    """Return the line about a worker that was restarted since *changed* files were: what it has of them now."""
    paths = {path.absolute() for path in changed}
    of_changed = {module: tools for module, tools in now.tools.items() if Path(module).absolute() in paths}
    tools = [tool for found in (of_changed or now.tools).values() for tool in found]
    gone = {tool for found in before.tools.values() for tool in found}
    gone -= {tool for found in now.tools.values() for tool in found}
    files = ", ".join(_name(path) if path.exists() else f"{_name(path)} (gone)" for path in changed)
    told = f"worker restarted, {len(tools)} tool{'' if len(tools) == 1 else 's'}"
    lost = f"; {', '.join(sorted(gone))} {'is' if len(gone) == 1 else 'are'} gone" if gone else ""
    return f"{files}: {told}{lost}" if files else f"{told}{lost}"


def _name(path: Path) -> str:
    """Return *path* as a person in the working folder would name it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
