"""Gives room to runs: counts the run tables, and begins whoever comes next.

Every replica does so for itself; `core/admission_picker.py` decides. A run begins with a fact in the local queue.
"""

import asyncio
import json
from collections import Counter
from typing import Any

from towpath_contracts.events.log import RunCreated
from towpath_contracts.facts import RunAdmittedFact
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.run_activity import RunActivity
from towpath_orchestrator.core.admission_picker import AdmissionLimits, AdmissionPicker, Holder, RunCounts
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings

ADMIT_LIMIT = 256
"""Runs admitted at a time; the next look is at most 250 ms later."""

LOOK_AGAIN_S = 0.02
"""Between two looks for who comes next; or as much as keeps them to a tenth of the time, where they take long."""

SHARE_OF_TIME = 10


class AdmissionController:
    """Starts runs where there is room. One per process."""

    def __init__(
        self,
        pool: Database,
        settings: OrchestratorSettings,
        metrics: OrchestratorMetrics,
        local_facts: LocalFactQueue,
        log: Logger,
        activity: RunActivity,
    ) -> None:
        self._pool = pool
        self._activity = activity
        self._settings = settings
        self._metrics = metrics
        self._local_facts = local_facts
        self._log = log
        self._limits = AdmissionLimits(
            active=settings.max_active_runs,
            active_share=settings.active_share,
            queued_share=settings.queued_share,
            waiting=settings.max_waiting_runs,
            project_active=settings.project_share_of(settings.max_active_runs),
            project_queued=settings.project_share_of(settings.max_queued_runs),
            project_waiting=settings.project_share_of(settings.max_waiting_runs),
        )
        self._policy = AdmissionPicker(self._limits)
        self._wanted = asyncio.Event()
        self._looking = asyncio.Lock()

    @property
    def held(self) -> Counter[Holder]:
        """Runs that hold room, by project, caller and network."""
        return self._policy.held

    @property
    def queued(self) -> int:
        """How many runs wait for room."""
        return self._policy.queued

    @property
    def queues(self) -> Counter[str]:
        """How many runs wait for room by caller, of callers with many."""
        return self._policy.queues

    def starts_at_once(self, task: RunCreated) -> bool:
        """Return whether a new run begins with its acceptance, and count it; else it waits in the queue."""
        self._activity.begun()
        return self._look_if_queued(started=self._policy.may_start(_holder(task)))

    def starts_child(self, child: RunState, *, takes_over: bool) -> bool:
        """Return whether a child begins with its creation; the first one *takes over* its parent's room."""
        return self._look_if_queued(started=self._policy.may_start_child(_holder(child.created), takes_over=takes_over))

    def _look_if_queued(self, *, started: bool) -> bool:
        if not started:
            self._wanted.set()
        return started

    def not_started(self, task: RunCreated) -> None:
        """Take back a count: the run was there already."""
        self._policy.not_started(_holder(task))

    def stored(self) -> None:
        """Note that what was counted before is committed now."""
        self._policy.stored()

    def is_queue_share_used(self, caller: str, coming: int) -> bool:
        """Return whether *caller* has its share of the queue, where *coming* tasks of it are not stored yet."""
        return self._policy.is_queue_share_used(caller, coming)

    def freed(self) -> None:
        """Note that a run has ended here: whoever waits may begin."""
        if self._policy.queued:
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
                self._log.debug("postgres is away, nobody is admitted meanwhile", error=str(error))
            pause = max(LOOK_AGAIN_S, SHARE_OF_TIME * (monotonic() - started))

    async def admit(self) -> int:
        """Count, and begin whoever comes next. Returns the version of the budget limits, which is read on the way."""
        async with self._looking:
            started = self._policy.begin_count()
            most = self._settings.max_queued_runs
            limit = self._policy.queued_to_count(most, monotonic())
            rows = await self._pool.fetch(QUERIES.load_counts, limit, most, self._limits.project_waiting)
            held = Counter({_holder_of(row): row["active"] for row in rows if row["active"]})
            first = rows[0]
            counts = RunCounts(
                held=held,
                queued=first["queued"],
                queues=Counter(json.loads(first["queues"])),
                project_queues=Counter(json.loads(first["project_queues"])),
                waiting=first["waiting"],
                project_waiting=Counter(json.loads(first["project_waiting"])),
                whole=limit == most or first["queued"] < limit,
            )
            self._policy.finish_count(started, counts)
            # A parent's children are among these.
            self._activity.counted(held.total() + self._policy.queued + counts.waiting)
            self._metrics.active.set(held.total())
            self._metrics.queued.set(self._policy.queued)
            self._metrics.waiting.set(counts.waiting)
            room = self._policy.room
            if room > 0 and self._policy.queued:
                await self._begin_next(min(room, self._policy.queued, ADMIT_LIMIT), started.unseen.total())
            limits_version: int = first["budgets"]
            return limits_version

    async def _begin_next(self, room: int, unseen: int) -> None:
        share, most = self._settings.active_share, self._settings.max_active_runs
        rules = room, share, self._policy.served, self._policy.crowded, most - unseen
        of_projects = self._limits.project_active, list(self._policy.crowded_projects)
        now = monotonic()
        rows = await self._pool.fetch(QUERIES.next_queued, *rules, *of_projects)
        candidates = [(row["run_id"], _holder_of(row)) for row in rows]
        for run_id in self._policy.choose(candidates, now):
            crash_point("orchestrator.before_admit")
            self._local_facts.add(RunAdmittedFact(run_id=run_id))


def _holder(task: RunCreated) -> Holder:
    return task.project, task.caller, task.network


def _holder_of(row: Any) -> Holder:
    return row["project"], row["caller"], row["network"]
