"""Reads the run that a task continues: its task, how it ended, and what it left.

A run of another project does not exist, and for a caller without a credential neither does anybody else's. Reading a
log takes one of the project's turns.
"""

from typing import Any
from uuid import UUID

from towpath_contracts.events.log import RunCreated, event_adapter
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.subjects import ANONYMOUS
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.workspace import FileEntry
from towpath_engine.state.earlier_turns import summary_of
from towpath_engine.state.workspace import EMPTY_WORKSPACE
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import Queries
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.api.run_export import erased_problem
from towpath_orchestrator.core.threads import EarlierRun, final_of, why_not_continued

RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")

MAX_FORKS = 16
"""Forks of forks that are followed to see who wrote a task; of a longer row nobody is told to have written it."""


class EarlierRunReader:
    """Reads runs that are to be continued. *turns* are those of projects at reading logs."""

    def __init__(self, pool: Database, store: RunStore, turns: WorkTurns) -> None:
        self._pool = pool
        self._store = store
        self._turns = turns

    async def read(self, task: SubmitTask, run_id: UUID, project: str, caller: str) -> EarlierRun:
        """Return the run that *task* continues; raises ProblemError where it can't."""
        async with self._turns.held(project):
            row = await self._pool.fetchrow(RECORDS.earlier_run, run_id, project)
            if row is None or (caller == ANONYMOUS and row["caller"] != caller):
                raise ProblemError(problem("run_not_found", f"no run {run_id} in the project {project}"))
            if row["erased_at"] is not None:
                raise erased_problem(run_id, row)
            created = _created(row)
            earlier = EarlierRun(
                run_id=run_id,
                thread_id=row["thread_id"] or run_id,
                task=created,
                status=row["status"],
                reason=row["reason"],
                final=final_of(row["outcome"]),
                own=await self._is_of_a_caller(row, created, project),
            )
            refused = why_not_continued(task, earlier)
            if refused is not None:
                raise ProblemError(refused)
            plain = not row["has_files"] and not created.workspace and created.continues is None
            return earlier if plain else await self._with_state(earlier)

    async def _is_of_a_caller(self, row: Any, created: RunCreated, project: str) -> bool:
        """Return whether a caller wrote the task: a model writes those of children, which their forks have too."""
        for _ in range(MAX_FORKS):
            if row["depth"] or created.parent is not None:
                return False
            if created.forked_from is None:
                return True
            row = await self._pool.fetchrow(RECORDS.earlier_run, created.forked_from.run_id, project)
            if row is None or row["erased_at"] is not None:
                return False
            created = _created(row)
        return False

    async def _with_state(self, earlier: EarlierRun) -> EarlierRun:
        state = await self._store.load(earlier.run_id)
        if state is None:
            return earlier
        files = tuple(
            FileEntry(path=path, digest=file.digest, size=file.size, read_only=file.read_only)
            for path, file in sorted((state.desk or EMPTY_WORKSPACE).files.items())
        )
        return earlier.with_state(files, summary_of(state))


def _created(row: Any) -> RunCreated:
    event = event_adapter.validate_json(row["created"])
    if not isinstance(event, RunCreated):
        raise ProblemError(problem("reply_refused", f"the log of {row['run_id']} does not begin with its task"))
    return event
