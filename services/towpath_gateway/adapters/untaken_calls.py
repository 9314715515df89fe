"""Says of a run that goes on which toolsets its calls wait for, since no worker takes them.

A call that waits publishes no event, so the queues are asked. Those of a project are asked for once in a while, however
many of its runs are looked at; only where calls of a toolset wait and no worker takes them, it is asked whether some
are the run's. Whoever may read a run may know this of it. Where nobody answers nothing is said, nor where no call waits
but those that somebody has: it may be a worker that does one thing at a time.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import RunView
from towpath_contracts.tools.queues import ListQueues, QueueList
from towpath_fabric.clock import monotonic, wall

LOOKED_AFTER_S = 4.0
"""A run that began later has no call that has waited for long."""

KEPT_S = 2.0
"""How long it counts which toolsets of a project have no worker."""

MAX_PROJECTS = 256

AskQueues = Callable[[ListQueues], Awaitable[QueueList]]
"""Asks the tool-access service; raises ProblemError."""

TOOL_WAIT = "tool: "
"""How a wait begins that a worker ends, and no person."""


class UntakenCallReader:
    """Adds to `waits` of runs what a worker has to be started for; *ask* answers which queues there are."""

    def __init__(self, ask: AskQueues) -> None:
        self._ask = ask
        self._known: OrderedDict[str, tuple[float, bool]] = OrderedDict()

    async def add_to(self, view: RunView) -> RunView:
        """Return *view* with a wait for each toolset that has calls of this run and no worker."""
        if view.status != "running" or view.started_at is None:
            return view
        if (wall() - view.started_at).total_seconds() < LOOKED_AFTER_S or not await self._has_untaken(view.project):
            return view
        found = await self._untaken(ListQueues(project=view.project, run_id=view.run_id))
        return view.model_copy(update={"waits": (*view.waits, *map(wait_for_worker, found))}) if found else view

    async def _has_untaken(self, project: str) -> bool:
        known = self._known.get(project)
        if known is None or known[0] < monotonic():
            self._keep(project, known is not None and known[1])  # what counts for others until there is an answer
            self._keep(project, bool(await self._untaken(ListQueues(project=project))))
        return project in self._known and self._known[project][1]

    def _keep(self, project: str, has_untaken: bool) -> None:
        self._known[project] = monotonic() + KEPT_S, has_untaken
        self._known.move_to_end(project)
        if len(self._known) > MAX_PROJECTS:
            self._known.popitem(last=False)

    async def _untaken(self, asked: ListQueues) -> list[str]:
        try:
            queues = (await self._ask(asked)).queues
        except ProblemError:
            return []
        return [one.toolset for one in queues if one.toolset and one.is_untaken]


def wait_for_worker(toolset: str) -> str:
    """Return what a run waits for whose calls of *toolset* no worker takes, with what ends it."""
    return (
        f"{TOOL_WAIT}no worker takes calls of the toolset {toolset} "
        "(start the one that has it: towpath worker MODULE_OR_FILE)"
    )
