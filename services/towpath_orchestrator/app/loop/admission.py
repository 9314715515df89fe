"""Room: which runs are under way, and who comes next.

Whoever holds least comes next, and of those who hold the same, whoever was served longest ago. A run that only
waits, for people or for its children, holds no room; a child comes in like any other run, before its caller's new ones.

Nothing can wait for ever for room that waits for it. Room is held by runs that can move: they wait for a model or a
tool, and that ends. A parent gives its room up while a child of it lives, so those who hold room are leaves of their
trees; a leaf ends without anybody's room, and then its parent moves, which has only fewer children than before.
"""

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from uuid import UUID

from towpath_contracts.events.log import RunCreated
from towpath_contracts.facts import RunAdmitted
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.metrics import Metrics
from towpath_orchestrator.settings import OrchestratorSettings

ADMIT_LIMIT = 256
"""Runs admitted at a time; the next look is at most 250 ms later."""

LOOK_AGAIN_S = 0.02
"""Between two looks for who comes next; or as much as keeps them to a tenth of the time, where they take long."""

SHARE_OF_TIME = 10

FORGET_S = 1.0
"""How long a run that was told to begin is not told again: far more than its commit takes."""

CALLERS_KEPT = 1_000
"""Whose last turn is remembered; of more callers than that, the rest count as never served."""


class Admission:
    """Counts who holds room, and gives it away. One per process; every replica counts for itself."""

    def __init__(
        self,
        pool: Database,
        settings: OrchestratorSettings,
        metrics: Metrics,
        begin: Callable[[RunAdmitted], None],
        log: Logger,
    ) -> None:
        """*begin* is told of every run that may start."""
        self._pool = pool
        self._settings = settings
        self._metrics = metrics
        self._begin = begin
        self._log = log
        self.held: Counter[tuple[str, str]] = Counter()
        """Runs that hold room by caller and network, as last counted, and what was begun here since."""
        self._storing: Counter[tuple[str, str]] = Counter()
        self._begun: Counter[tuple[str, str]] = Counter()
        self.queued = 0
        self.queues: Counter[str] = Counter()
        """How many runs of a caller wait for room, of those with many; counted like `held`."""
        self._queueing: Counter[str] = Counter()
        self.crowded = False
        """Whether so many runs wait for people that no new ones are started; children still are."""
        self._wanted = asyncio.Event()
        self._looking = asyncio.Lock()
        self._told: OrderedDict[UUID, float] = OrderedDict()
        self._served: OrderedDict[str, None] = OrderedDict()

    def starts_at_once(self, task: RunCreated) -> bool:
        """Say whether a new run begins with its acceptance, and count it; else it waits in the queue."""
        place = task.caller, task.network
        if self.queued or self.crowded or not self._has_room(place):
            self._queueing[task.caller] += 1
            self._queue(task.caller)
            return False
        for count in (self.held, self._storing, self._begun):
            count[place] += 1
        return True

    def not_started(self, task: RunCreated) -> None:
        """Take back a count: the run was there already."""
        self.held[task.caller, task.network] -= 1

    def stored(self) -> None:
        """Say that what was counted before is committed now."""
        self._storing = Counter()
        self._queueing = Counter()

    def starts_born(self, child: RunState, *, takes_over: bool) -> bool:
        """Say whether a child begins with its birth.

        The first child of a parent *takes over* its room: it is not counted while children of it live. The others
        need room as everybody does, and wait for their turn behind nobody but other callers.
        """
        place = child.created.caller, child.created.network
        if not takes_over and (self.queued or not self._has_room(place)):
            self._queue(child.created.caller)
            return False
        if not takes_over:
            self.held[place] += 1
            self._begun[place] += 1
        return True

    def _queue(self, caller: str) -> None:
        self.queued += 1
        self.queues[caller] += 1
        self._wanted.set()

    def is_flooded_by(self, caller: str, coming: int) -> bool:
        """Say whether *caller* has its share of the queue, where *coming* tasks of it are not stored yet."""
        room = max(0, self._settings.max_active_runs - self.held.total())
        return self.queues[caller] + max(0, coming - room) >= self._settings.queued_share

    def freed(self) -> None:
        """Say that a run has ended here: whoever waits may come in."""
        if self.queued:
            self._wanted.set()

    async def run(self) -> None:
        """Look who comes next as soon as there may be room, for ever; the reconciler looks now and then as well."""
        pause = LOOK_AGAIN_S
        while True:
            await self._wanted.wait()
            await asyncio.sleep(pause)
            self._wanted.clear()
            started = monotonic()
            try:
                await self.admit()
            except DATABASE_DOWN as error:
                self._log.info("postgres is away, nobody is admitted meanwhile", error=str(error))
            pause = max(LOOK_AGAIN_S, SHARE_OF_TIME * (monotonic() - started))

    async def admit(self) -> int:
        """Count, and begin whoever comes next. Returns the version of the budgets, which is read on the way."""
        async with self._looking:
            unseen, queueing = self._before_count(), self._queueing.copy()
            rows = await self._pool.fetch(QUERIES.load_counts, self._settings.max_queued_runs)
            held = Counter({(row["caller"], row["network"]): row["active"] for row in rows if row["active"]})
            self._counted(held + unseen)
            self.queued = rows[0]["queued"] + queueing.total()
            self.queues = Counter(json.loads(rows[0]["queues"])) + queueing
            self._metrics.active.set(held.total())
            self._metrics.queued.set(self.queued)
            self.crowded = rows[0]["waiting"] >= self._settings.max_waiting_runs
            room = self._settings.max_active_runs - self.held.total()
            if room > 0 and self.queued:
                await self._let_in(min(room, self.queued, ADMIT_LIMIT), unseen.total())
            budgets: int = rows[0]["budgets"]
            return budgets

    async def _let_in(self, room: int, unseen: int) -> None:
        share, most = self._settings.active_share, self._settings.max_active_runs
        rules = room, share, list(self._served), self.crowded, most - unseen
        now = monotonic()
        while self._told and now - next(iter(self._told.values())) > FORGET_S:
            self._told.popitem(last=False)
        for row in await self._pool.fetch(QUERIES.next_queued, *rules):
            run_id: UUID = row["run_id"]
            self.held[row["caller"], row["network"]] += 1  # told now or before, and not yet seen to run
            if run_id in self._told:
                continue
            self._told[run_id] = now
            self._remember(row["caller"])
            crash_point("orchestrator.before_admit")
            self._begin(RunAdmitted(run_id=run_id))

    def _remember(self, caller: str) -> None:
        self._served.pop(caller, None)
        self._served[caller] = None
        while len(self._served) > CALLERS_KEPT:
            self._served.popitem(last=False)

    def _before_count(self) -> Counter[tuple[str, str]]:
        """Return what is begun here and may not be seen by a count that starts now."""
        self._begun = Counter()
        return Counter(self._storing)

    def _counted(self, held: Counter[tuple[str, str]]) -> None:
        """Take a count of the runs under way; what was begun while it was made is added."""
        self.held = held + self._begun

    def _has_room(self, place: tuple[str, str]) -> bool:
        return self.held.total() < self._settings.max_active_runs and self.held[place] < self._settings.active_share
