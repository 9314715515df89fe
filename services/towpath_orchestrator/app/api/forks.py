"""Forking a run from a step: a new run that takes over what the other knew.

The parent is only read. Who forks is in the audit before the new run exists; the new run has its parent's network
version and grant, never more rights. A repeat under the same idempotency key is answered before anything is audited.
"""

import asyncio
from functools import partial
from typing import Any

from pydantic import ValidationError

from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.events.log import LogEntry, RunCreated, event_adapter
from towpath_contracts.facts import RunForkedFact
from towpath_contracts.networks.spec import NetworkSnapshot, NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.forks import ForkRun
from towpath_contracts.runs.records import ForkedFrom
from towpath_contracts.tasks import RunAccepted
from towpath_engine.handlers.fork import ForkRefusedError, ForkStateFinder
from towpath_engine.reducers.budget import total_cost
from towpath_engine.reducers.fork import inherited_of
from towpath_engine.state.run import RunState
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app.api.run_export import DatabaseRecord
from towpath_orchestrator.app.api.submit import TaskIntake, repeated_answer
from towpath_orchestrator.app.api.task_checks import FindVersion, Submission
from towpath_orchestrator.app.audited_actions import record_action
from towpath_orchestrator.core.fork_changes import changed_names, changed_task, fork_problem
from towpath_orchestrator.core.run_caps import caps_of
from towpath_orchestrator.core.tasks import replayed_by_script
from towpath_orchestrator.settings import OrchestratorSettings

MAX_INHERITED_BYTES = 512 * 1024
"""It travels in one event, which the broker limits to 1 MiB; a context may have 200 KB."""


class RunForks:
    """Answers `svc.orchestrator.fork_run`."""

    def __init__(
        self,
        pool: Database,
        intake: TaskIntake,
        bus: MessageBus,
        settings: OrchestratorSettings,
        find_version: FindVersion,
        turns: WorkTurns,
    ) -> None:
        """*turns* are those of projects at reading logs: a fork may read all of one."""
        self._pool = pool
        self._intake = intake
        self._bus = bus
        self._settings = settings
        self._find_version = find_version
        self._turns = turns

    async def fork(self, request: ForkRun) -> RunAccepted:
        """Accept a fork, or raise ProblemError. Returns after the commit."""
        if request.options.script is not None and not self._settings.scripts_allowed:
            raise ProblemError(problem("script_not_allowed", "this platform does not play scripts"))
        return await self._known(request) or await self._intake.enter(
            partial(self._submission, request), request.caller
        )

    async def _known(self, request: ForkRun) -> RunAccepted | None:
        """Return the run that the idempotency key names already; raises `idempotency_conflict` for another request."""
        key = request.options.idempotency_key
        if key is None:
            return None
        row = await self._pool.fetchrow(QUERIES.idempotent_run, request.project, request.caller, key)
        return None if row is None else repeated_answer(row, key, _digest(request))

    async def _submission(self, request: ForkRun) -> Submission:
        async with self._turns.held(request.project):
            forked, task, snapshot = await self._read(request)
        await self._audit(request, forked)
        return Submission(
            run_id=forked.run_id,
            task=task,
            snapshot=snapshot,
            idempotency_key=request.options.idempotency_key,
            request_digest=_digest(request),
            answer=asyncio.get_running_loop().create_future(),
            forked=forked,
        )

    async def _read(self, request: ForkRun) -> tuple[RunForkedFact, RunCreated, NetworkSnapshot]:
        """Return what the new run begins with, from the record of the other one."""
        record = await DatabaseRecord.open(self._pool, request.run_id, request.project)
        header = record.header
        version: NetworkVersion = await self._find_version(request.project, header.network, header.version)
        if header.snapshot_text is None:
            detail = f"the snapshot of {version.name}@v{version.version} is gone"
            raise ProblemError(problem("version_not_found", detail))
        try:
            snapshot = NetworkSnapshot.model_validate_json(header.snapshot_text)
        except ValidationError as error:
            detail = f"this version can't read the snapshot of {version.name}@v{version.version}"
            raise ProblemError(problem("fork_refused", detail, run_id=str(request.run_id))) from error
        point = ForkStateFinder(header.run_id, snapshot, request.options.from_step)
        parent = await _walk(record, point)
        forked, task = await self._begun(request, parent, point)
        return forked, task, snapshot

    async def _begun(
        self, request: ForkRun, parent: RunCreated, point: ForkStateFinder
    ) -> tuple[RunForkedFact, RunCreated]:
        """Return the fact and the task that the new run begins with."""
        options = request.options
        try:
            state = point.state()
            inherited = inherited_of(state, new_script=options.script is not None)
        except ForkRefusedError as error:
            raise ProblemError(problem("fork_refused", str(error), run_id=str(request.run_id))) from error
        size = len(canonical_json(inherited).encode("utf-8", "surrogatepass"))
        if size > MAX_INHERITED_BYTES:
            detail = f"what the run knew before step {options.from_step} has {size} bytes, above {MAX_INHERITED_BYTES}"
            raise ProblemError(problem("fork_refused", detail, run_id=str(request.run_id)))
        changes: dict[str, Any] = {
            "caller": request.caller,
            "forked_from": ForkedFrom(run_id=request.run_id, step=options.from_step),
            "parent": None,  # nobody waits for a fork, whatever waits for the run that it is of
            "traceparent": None,
            **_budget(request, parent, state),
            "caps": caps_of(self._settings, parent.caps),
        }
        if (refused := fork_problem(options, parent, state.step, self._settings)) is not None:
            raise ProblemError(refused)
        task = parent.model_copy(update=changes)
        if options.changes is not None:
            task = changed_task(task, options.changes)
        if options.script is not None:
            script = list(options.script)
            text, script_digest = canonical_json(script), digest(script)
            task = replayed_by_script(task, script_digest)
            await self._pool.execute(QUERIES.add_blob, request.project, script_digest, text.encode(), len(text))
        forked = RunForkedFact(
            run_id=new_run_id(),
            parent_seq=point.seq,
            by=request.actor,
            note=options.note,
            inherited=inherited,
            gates=point.gates(),
        )
        return forked, task

    async def _audit(self, request: ForkRun, forked: RunForkedFact) -> None:
        changes = request.options.changes
        changed: dict[str, Any] = {} if changes is None else {"changed": changed_names(changes)}
        await record_action(
            self._bus,
            request,
            "run.forked",
            reason=request.options.note,
            run_id=forked.run_id,
            parent=str(request.run_id),
            from_step=request.options.from_step,
            fresh_budget=request.options.fresh_budget,
            **changed,
        )


async def _walk(record: DatabaseRecord, point: ForkStateFinder) -> RunCreated:
    """Show the run's entries to *point* until it has seen enough; returns the parent's task."""
    task: RunCreated | None = None
    async for recorded in record.events():
        event = event_adapter.validate_json(recorded.text)
        if task is None and isinstance(event, RunCreated):
            task = event
        if point.observe(LogEntry.model_construct(seq=recorded.seq, at=recorded.at, event=event)):
            break
    if task is None:
        raise ProblemError(problem("fork_refused", "the run's log does not begin with its task"))
    return task


def _budget(request: ForkRun, parent: RunCreated, state: RunState) -> dict[str, Any]:
    """Return what a fork may spend: what the run that it is of has left, or all that the task gives once more."""
    if request.options.fresh_budget:
        return {"budget_root": None, "carve_outs": (), "spent": None}
    top = request.run_id if parent.parent is None else parent.parent.root_id
    return {"budget_root": parent.budget_root or top, "spent": total_cost(state)}


def _digest(request: ForkRun) -> str:
    asked = request.options.model_dump(mode="json", exclude={"idempotency_key"})
    return digest({"fork": str(request.run_id), **asked})
