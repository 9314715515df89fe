"""Puts a new worker in the place of the one of `towpath up` when a file that its tools are in was saved.

The files are first imported by another process. While that fails, the worker that is there goes on with what it has,
and what is wrong is told. Once it succeeds a new worker is started, and the former one takes no more calls and ends
when those that it has are finished: calls that wait are taken by the new one, and none is lost. Where it is no file
that is wrong, such as a full disk, the same is tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.cli.shared.text import one_line
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.text import join_sentences
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.tool_files import ToolFiles
from towpath_embedded.user_code_rights import WorkerInventory
from towpath_fabric.clock import wall

if TYPE_CHECKING:
    from towpath_embedded.network_folder import NetworkFolderPublisher

AfterReload = tuple["NetworkFolderPublisher | None", Callable[[], Awaitable[None]] | None, Callable[[], None]]
"""What is done after a restart: networks are published, tools without a worker looked for, and logs read before."""

LOOK_S = 0.5
TRIED_AGAIN_S = 5.0
"""Before files are read again that could not be served though nothing is wrong with them."""

SETTLE_S = 0.2
"""For how long no file changes before they are read: an editor saves in several steps, and often several files."""

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
    ) -> None:
        self._platform = platform
        self._launch = launch
        self._files = files
        self._show = show
        self._refused = refused
        self._served = served
        self._folder: NetworkFolderPublisher | None = None
        self._look: Callable[[], Awaitable[None]] | None = None
        self._read_logs: Callable[[], None] = lambda: None
        self._inventory = platform.user_code.served_by(WORKER)
        self._faulty: set[str] = set()
        self._restarting = asyncio.Lock()
        self._unserved: set[Path] = set()
        self._hindrance = ""
        files.follow_imports(self._inventory.files)

    def networks(
        self,
        folder: "NetworkFolderPublisher | None",
        look: Callable[[], Awaitable[None]] | None,
        read_logs: Callable[[], None],
    ) -> None:
        """After each restart publish the networks of *folder*, and *look* for tools that they equip and no worker has.

        *read_logs* reads what the new worker says that it has.
        """
        self._folder, self._look, self._read_logs = folder, look, read_logs

    async def follow(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(TRIED_AGAIN_S if self._unserved else LOOK_S)
            self._unserved |= await self._changed()
            if self._unserved:
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
            before = self._served.forget(WORKER)
            try:
                found = await self._platform.user_code.inventory(WORKER, worker)
                await self._platform.replace_worker(WORKER, worker, found)
            except BaseException as error:
                self._served.recall(WORKER, before)
                if not self._is_told(changed, error):
                    raise
                return
            self._unserved.difference_update(changed)
            self._hindrance = ""
            self._mend()
            self._show(told_restart(changed, self._inventory, found), "")
            self._inventory = found
            self._files.follow_imports(found.files, read_at=began)
            self._read_logs()
            if self._folder is not None:
                self._folder.tools_changed()
            if self._look is not None:
                await self._look()

    def _is_told(self, changed: Sequence[Path], error: BaseException) -> bool:
        """Tell why there is no new worker; False for an *error* that says nothing of files or of this machine."""
        match error:
            case ProblemError(problem=found) if found.code != BUSY:
                self._unserved.difference_update(changed)
                self._tell_refused(changed, found)
            case ProblemError(problem=found):
                self._tell_hindrance(join_sentences(found.detail, found.remedy))
            case OSError():
                self._tell_hindrance(one_line(error))
            case _:
                return False
        return True

    def _tell_hindrance(self, why: str) -> None:
        if why != self._hindrance:
            self._show(f"the worker goes on with what it has, for now: {why}", "yellow")
        self._hindrance = why

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
