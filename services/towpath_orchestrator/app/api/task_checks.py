"""Checks tasks before they are accepted: the caller's project, the network version, and everything in the task itself.

A task is refused whole, with every problem listed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from towpath_contracts.canonical import canonical_json, digest, digest_text
from towpath_contracts.events.log import LogEntry, RunCreated
from towpath_contracts.facts import RunForkedFact
from towpath_contracts.networks.spec import NetworkSnapshot, NetworkVersion
from towpath_contracts.problems.registry import Problem, ProblemDetail, ProblemError, problem
from towpath_contracts.rpc import CHECK_GRANT
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_contracts.tools.access import CheckGrant, GrantChecked
from towpath_contracts.tools.grants import GrantChainTooLongError
from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.state.run import RunState
from towpath_fabric.batch_loader import KeyBatchLoader
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.app.api.earlier_runs import EarlierRunReader
from towpath_orchestrator.app.api.schema_compiler import SchemaCompiler
from towpath_orchestrator.core.run_caps import caps_of
from towpath_orchestrator.core.run_times import times_of
from towpath_orchestrator.core.task_attachments import read_attachments
from towpath_orchestrator.core.task_kinds import mounted
from towpath_orchestrator.core.tasks import check_task, created_event, size_problem
from towpath_orchestrator.core.threads import EarlierRun, completed_task, continuing_run, file_problem
from towpath_orchestrator.settings import OrchestratorSettings

CHECK_TIMEOUT_S = 10.0

PROJECT_KEPT_S = 5
"""How long it is remembered which project a caller acts in."""

NOT_ACCEPTED = "Postgres did not answer in time; nothing was accepted"

FindVersion = Callable[[str, str, int | None], Any]
"""Returns a network's version by project, name and number, None for the current one; raises ProblemError."""


@dataclass(slots=True)
class Submission:
    """One task on its way in; `answer` is set once its fate is committed. The commit loop begins a `deferred` run.

    Deferred are runs with a budget, which is kept there, and runs that begin with children, which are born there.
    """

    run_id: UUID
    task: RunCreated
    snapshot: NetworkSnapshot
    idempotency_key: str | None
    request_digest: str
    answer: "asyncio.Future[RunAccepted]"
    state: RunState | None = None
    entries: list[LogEntry] = field(default_factory=list)
    effects: tuple[OutgoingEffect, ...] = ()
    admitted: bool = False
    forked: RunForkedFact | None = None
    facts: list[tuple[int, str]] = field(default_factory=list)
    deferred: bool = False
    refusal: Problem | None = None


class TaskChecker:
    """Turns tasks into submissions that are ready to be stored. One per process."""

    def __init__(
        self,
        pool: Database,
        store: RunStore,
        bus: MessageBus,
        settings: OrchestratorSettings,
        find_version: FindVersion,
        schemas: SchemaCompiler,
        earlier_runs: EarlierRunReader,
    ) -> None:
        self._pool = pool
        self._store = store
        self._bus = bus
        self._settings = settings
        self._find_version = find_version
        self._schemas = schemas
        self._earlier_runs = earlier_runs
        self._scripts = KeyBatchLoader(self._add_scripts)
        self._projects: dict[str, tuple[str, float]] = {}

    async def project_of(self, caller: str) -> str:
        """Return the project that *caller* acts in; raises ProblemError `caller_unknown`."""
        if caller == "anonymous" and not self._settings.anonymous_allowed:
            raise ProblemError(problem("caller_unknown", "anonymous tasks are switched off here"))
        now = asyncio.get_running_loop().time()
        known = self._projects.get(caller)
        if known is not None and known[1] > now:
            return known[0]
        project = await self._pool.fetchval(QUERIES.project_of_caller, caller)
        if project is None:
            raise ProblemError(problem("caller_unknown", f"no key names the caller {caller!r}"))
        self._projects[caller] = (project, now + PROJECT_KEPT_S)
        return str(project)

    async def check(self, task: SubmitTask, caller: str, parent: RunCreated | None) -> Submission:
        """Return *task* ready for the commit; raises ProblemError with everything that is wrong with it."""
        if not self._settings.otel.reads_traceparent:
            task = task.model_copy(update={"traceparent": None})
        asked, earlier = task, None
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                project = await self.project_of(caller)
                if task.continues is not None:
                    earlier = await self._earlier_runs.read(task, task.continues, project, caller)
                    task = completed_task(task, earlier)
                version: NetworkVersion = await self._find_version(project, task.network, task.version)
                snapshot = await self._snapshot_of(version)
                await self._schemas.prepare(project, task.response_schema)
                await self._schemas.prepare(
                    project, None if task.background is None else task.background.deliverable_schema
                )
                await self._schemas.prepare_criteria(project, task)
                refused = check_task(task, snapshot, self._settings, await self._unusable(task, project))
                if refused is not None:
                    raise ProblemError(refused)
                script_digest = await self._store_script(task, project)
                await self._store.store_texts(project, mounted(task).texts)
                await self._store.store_blobs(project, read_attachments(task).data)
                planner, times = self._settings.planner_model, times_of(self._settings)
                created = created_event(task, version, snapshot, caller, script_digest, parent, planner, times)
                created = created.model_copy(update={"caps": caps_of(self._settings)})
                if earlier is not None:
                    created = _continuing(created, earlier, snapshot, task.agent_key)
                if (refused := size_problem(created)) is not None:
                    raise ProblemError(refused)
        except GrantChainTooLongError as error:
            raise ProblemError(problem("limit_exceeded", str(error))) from error
        except DATABASE_DOWN as error:
            raise ProblemError(problem("unavailable", NOT_ACCEPTED, retry_after_s=2)) from error
        return Submission(
            run_id=new_run_id(),
            task=created,
            snapshot=snapshot,
            idempotency_key=task.idempotency_key,
            request_digest=_request_digest(asked, script_digest),
            answer=asyncio.get_running_loop().create_future(),
        )

    async def _snapshot_of(self, version: NetworkVersion) -> NetworkSnapshot:
        """Return what a version was compiled to; raises ProblemError where that is gone, or another than published."""
        try:
            return await self._store.snapshot(version.digest)
        except LookupError as error:
            detail = f"the snapshot of {version.name}@v{version.version} is gone, or another than was published"
            raise ProblemError(problem("version_not_found", detail)) from error

    async def _unusable(self, task: SubmitTask, project: str) -> tuple[ProblemDetail, ...]:
        """Ask the tool-access service, which alone knows conditions, what is wrong with those of the task's grant."""
        grant = tuple(rule.model_dump(mode="json") for rule in task.grant or ())
        if all(entry["when"] is None for entry in grant):
            return ()
        checked: GrantChecked = await self._bus.request(CHECK_GRANT, CheckGrant(project=project, grant=grant))
        return checked.problems

    async def _store_script(self, task: SubmitTask, project: str) -> str | None:
        if task.script is None:
            return None
        text = canonical_json(list(task.script))
        name = digest_text(text)
        await self._scripts.get((project, name, text))
        return name

    async def _add_scripts(self, scripts: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], None]:
        for project, name, text in scripts:
            await self._pool.execute(QUERIES.add_blob, project, name, text.encode(), len(text))
        return {}


def _request_digest(task: SubmitTask, script_digest: str | None) -> str:
    """Return the digest of all that is asked for, by which a repeat is known; a long script is written only once."""
    asked = task.model_dump(mode="json", exclude={"idempotency_key", "traceparent", "script"})
    return digest({**asked, "script": script_digest})


def _continuing(created: RunCreated, earlier: EarlierRun, snapshot: NetworkSnapshot, agent: str | None) -> RunCreated:
    """Return *created* as the run that continues *earlier*; raises ProblemError, GrantChainTooLongError."""
    continuing = continuing_run(created, earlier, snapshot, agent)
    refused = file_problem(continuing)
    if refused is not None:
        raise ProblemError(refused)
    return continuing
