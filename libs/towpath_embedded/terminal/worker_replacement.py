"""Puts a new worker in the place of one that runs, for what follows the files that workers serve.

The files are first read by another process. What is wrong with them is for the caller to tell. Where something else
hinders it, such as a full disk, that is told here, once, and the same is tried again. The worker that is there goes on
in both cases.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from towpath.cli.shared.text import one_line
from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_contracts.text import join_sentences
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.processes.supervisor import BUSY
from towpath_embedded.terminal.notice_limit import ShowLine
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.user_code_rights import WorkerInventory

if TYPE_CHECKING:
    from towpath_embedded.network_files.network_folder import NetworkFolderPublisher

AfterReload = tuple["NetworkFolderPublisher | None", Callable[[], Awaitable[None]] | None, Callable[[], None]]
"""What is done after a restart: networks are published, tools without a worker looked for, and logs read before."""

LOOK_S = 0.5
"""Between two looks at files."""

TRIED_AGAIN_S = 5.0
"""Before files are read again that could not be served though nothing is wrong with them."""

SETTLE_S = 0.2
"""For how long no file changes before they are read: an editor saves in several steps, and often several files."""


class WorkerReplacement:
    """Replaces the process *name*; after each time *then* is done. *show* gets what hinders it."""

    def __init__(self, platform: Platform, name: str, show: ShowLine, served: ServedTools, then: AfterReload) -> None:
        self._platform = platform
        self._name = name
        self._show = show
        self._served = served
        self._folder, self._look, self._read_logs = then
        self._hindrance = ""

    @property
    def is_hindered(self) -> bool:
        """Whether the last one could not be put in place, though nothing is wrong with what it was to serve."""
        return bool(self._hindrance)

    @property
    def pause_s(self) -> float:
        """Until the next look at the files."""
        return TRIED_AGAIN_S if self.is_hindered else LOOK_S

    async def replace(
        self, launch: WorkerLaunch, has_changed: Callable[[], bool], *, is_first: bool = False
    ) -> WorkerInventory | Problem | None:
        """Return what the new worker serves, or what is wrong with its files; None where it is to be tried again.

        That is also where files were saved, as *has_changed* says, while they were read: an import may hang for long.
        With *is_first* there is no former one.
        """
        before, is_new = self._served.forget(self._name), False
        try:
            found = await self._inventory(launch, has_changed)
            if found is None:
                return None
            if is_first:
                await self._platform.add_worker(launch)
            else:
                await self._platform.replace_worker(self._name, launch, found)
            is_new, self._hindrance = True, ""
        except ProblemError as error:
            if error.problem.code != BUSY:
                self._hindrance = ""
                return error.problem
            self._tell(join_sentences(error.problem.detail, error.problem.remedy))
            return None
        except OSError as error:
            self._tell(one_line(error))
            return None
        finally:
            if not is_new:
                self._served.recall(self._name, before)
        return found

    async def finish(self) -> None:
        """Do what is due once a new worker is there: read what it says that it has, and publish what waited for it."""
        self._read_logs()
        if self._folder is not None:
            self._folder.tools_changed()
        if self._look is not None:
            await self._look()

    async def _inventory(self, launch: WorkerLaunch, has_changed: Callable[[], bool]) -> WorkerInventory | None:
        asking = asyncio.create_task(self._platform.user_code.inventory(self._name, launch))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK_S)
                if not asking.done() and has_changed():
                    return None
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _tell(self, why: str) -> None:
        if why != self._hindrance:
            self._show(f"the worker goes on with what it has, for now: {why}", "yellow")
        self._hindrance = why
