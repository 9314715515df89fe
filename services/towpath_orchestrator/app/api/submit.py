"""Accepting tasks: a task becomes a run in one transaction, together with its key and its first effect.

Refused whole with every problem listed, or accepted for good. RunAccepted is sent after the commit. Submits that
arrive while a transaction is in flight share the next one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.events.log import LogEntry, RunCreated
from towpath_contracts.facts import RunAdmitted, RunForked
from towpath_contracts.networks.spec import NetworkVersion, Snapshot
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.rpc import CHECK_GRANT
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_contracts.tools.access import CheckGrant, GrantChecked
from towpath_contracts.tools.grants import ChainTooLongError
from towpath_engine import ENGINE_VERSION
from towpath_engine.advance import advance, wake_at
from towpath_engine.reducers.plan import composes
from towpath_engine.replay import create
from towpath_engine.requests.effects import Effect
from towpath_engine.state.run import RunState
from towpath_fabric.batch_loader import Rounds
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import Database, Wire
from towpath_fabric.postgres.pool import DATA_AT_FAULT, DATABASE_DOWN
from towpath_orchestrator.adapters.run_store import QUERIES, Moved, RunTables, event_text
from towpath_orchestrator.adapters.storable_text import storable, storable_json
from towpath_orchestrator.app.loop.admission import Admission
from towpath_orchestrator.app.loop.budget_limits import Limits
from towpath_orchestrator.app.loop.commit_loop import CommitLoop
from towpath_orchestrator.core.objective_tasks import mounted
from towpath_orchestrator.core.tasks import check_task, created_event
from towpath_orchestrator.settings import OrchestratorSettings

KEY_HOURS = 24
"""How long an idempotency key is remembered."""

SUBMIT_TIMEOUT_S = 10.0

OVERLOADED_RETRY_S = 5

NOT_ACCEPTED = "Postgres did not answer in time; nothing was accepted"
AWAY = "Postgres went away; the task may have been accepted, and only its idempotency key will tell"


@dataclass(slots=True)
class Submission:
    """One task on its way in; `answer` is set once its fate is committed. The commit loop begins a `deferred` run.

    Deferred are runs with a budget, which is kept there, and runs that begin with children, which are born there.
    """

    run_id: UUID
    task: RunCreated
    snapshot: Snapshot
    idempotency_key: str | None
    request_digest: str
    answer: "asyncio.Future[RunAccepted]"
    state: RunState | None = None
    entries: list[LogEntry] = field(default_factory=list)
    effects: tuple[Effect, ...] = ()
    admitted: bool = False
    forked: RunForked | None = None
    facts: list[tuple[int, str]] = field(default_factory=list)
    deferred: bool = False


class Intake:
    """Takes tasks, checks them, and commits them in batches."""

    def __init__(
        self,
        pool: Database,
        tables: RunTables,
        loop: CommitLoop,
        settings: OrchestratorSettings,
        find_version: Callable[[str, str, int | None], Any],
        bus: Wire,
        limits: Limits,
        admission: Admission,
    ) -> None:
        self._pool = pool
        self._admission = admission
        self._bus = bus
        self._tables = tables
        self._loop = loop
        self._settings = settings
        self._find_version = find_version
        self._limits = limits
        self._waiting: list[Submission] = []
        self._arrived = asyncio.Event()
        self._coming: Counter[str] = Counter()
        self._scripts = Rounds(self._add_scripts)
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
        self._projects[caller] = (project, now + 5)
        return str(project)

    async def submit(self, task: SubmitTask, caller: str, parent: RunCreated | None = None) -> RunAccepted:
        """Accept *task*, or raise ProblemError. Returns after the commit.

        A task that the run *parent* gives stands under all of that run's grants.
        """
        return await self.enter(partial(self._checked, task, caller, parent), caller)

    async def enter(self, checked: Callable[[], Awaitable[Submission]], caller: str) -> RunAccepted:
        """Accept what *checked* makes ready for *caller*, or raise ProblemError. Returns after the commit."""
        self._refuse_flood(caller)
        self._coming[caller] += 1
        try:
            return await self._answer(await checked())
        except DATABASE_DOWN as error:
            raise ProblemError(problem("unavailable", AWAY, retry_after_s=2)) from error
        except DATA_AT_FAULT as error:
            detail = f"the task holds a value that can't be stored ({type(error).__name__})"
            raise ProblemError(problem("request_invalid", detail)) from error
        except asyncpg.PostgresError as error:
            raise ProblemError(problem("internal", f"the task could not be stored: {type(error).__name__}")) from error
        finally:
            self._coming[caller] -= 1
            if not self._coming[caller]:
                del self._coming[caller]

    def _refuse_flood(self, caller: str) -> None:
        """Raise `overloaded` rather than take what can be neither stored soon nor started for long."""
        if self._admission.queued >= self._settings.max_queued_runs:
            detail = f"{self._admission.queued} runs wait already"
            raise ProblemError(problem("overloaded", detail, retry_after_s=OVERLOADED_RETRY_S))
        if self._admission.is_flooded_by(caller, self._coming[caller]):
            detail = f"{self._admission.queues[caller]} runs of {caller} wait already; the rest is for other callers"
            raise ProblemError(problem("overloaded", detail, retry_after_s=OVERLOADED_RETRY_S))
        if self._coming.total() >= self._settings.max_waiting_submits:
            detail = f"{self._coming.total()} tasks wait to be stored"
            raise ProblemError(problem("overloaded", detail, retry_after_s=1))

    async def _checked(self, task: SubmitTask, caller: str, parent: RunCreated | None) -> Submission:
        """Return *task* ready for the commit; raises ProblemError with everything that is wrong with it."""
        try:
            async with asyncio.timeout(SUBMIT_TIMEOUT_S):
                project = await self.project_of(caller)
                version: NetworkVersion = await self._find_version(project, task.network, task.version)
                snapshot = await self._tables.snapshot(version.digest)
                refused = check_task(task, snapshot, self._settings, await self._unusable(task, project))
                if refused is not None:
                    raise ProblemError(refused)
                script_digest = await self._store_script(task, project)
                await self._tables.store_texts(project, mounted(task).texts)
                planner = self._settings.planner_model
                created = created_event(task, version, snapshot, caller, script_digest, parent, planner)
        except ChainTooLongError as error:
            raise ProblemError(problem("limit_exceeded", str(error))) from error
        except DATABASE_DOWN as error:
            raise ProblemError(problem("unavailable", NOT_ACCEPTED, retry_after_s=2)) from error
        return Submission(
            run_id=new_run_id(),
            task=created,
            snapshot=snapshot,
            idempotency_key=task.idempotency_key,
            request_digest=digest(task.model_dump(mode="json", exclude={"idempotency_key"})),
            answer=asyncio.get_running_loop().create_future(),
        )

    async def _unusable(self, task: SubmitTask, project: str) -> tuple[ProblemDetail, ...]:
        """Ask the tool-access service, which alone knows conditions, what is wrong with those of the task's grant."""
        grant = tuple(rule.model_dump(mode="json") for rule in task.grant or ())
        if all(entry["when"] is None for entry in grant):
            return ()
        checked: GrantChecked = await self._bus.ask(CHECK_GRANT, CheckGrant(project=project, grant=grant))
        return checked.problems

    async def _answer(self, submission: Submission) -> RunAccepted:
        """Wait for the commit; raises ProblemError `unavailable`, which says whether the fate of the task is known."""
        self._waiting.append(submission)
        self._arrived.set()
        await asyncio.wait({submission.answer}, timeout=SUBMIT_TIMEOUT_S)
        if submission.answer.done():
            accepted = submission.answer.result()
            crash_point("orchestrator.submit_before_reply")
            return accepted
        if submission in self._waiting:
            self._waiting.remove(submission)
            raise ProblemError(problem("unavailable", NOT_ACCEPTED, retry_after_s=2))
        submission.answer.cancel()
        raise ProblemError(problem("unavailable", AWAY, retry_after_s=2))

    async def _store_script(self, task: SubmitTask, project: str) -> str | None:
        if task.script is None:
            return None
        text = canonical_json(list(task.script))
        name = digest(list(task.script))
        await self._scripts.get((project, name, text))
        return name

    async def _add_scripts(self, scripts: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], None]:
        for project, name, text in scripts:
            await self._pool.execute(QUERIES.add_blob, project, name, text.encode(), len(text))
        return {}

    async def run(self) -> None:
        """Commit waiting submissions for ever."""
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            batch, self._waiting = self._waiting[:256], self._waiting[256:]
            await self._commit_safely(batch)
            self._admission.stored()

    async def _commit_safely(self, batch: list[Submission]) -> None:
        """Commit a batch; a task that Postgres refuses is refused alone."""
        try:
            await self._commit(batch)
        except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
            if isinstance(error, DATABASE_DOWN) or len(batch) == 1:
                for submission in batch:
                    if not submission.answer.done():
                        submission.answer.set_exception(error)
                return
            for submission in batch:
                await self._commit_safely([submission])

    def _begin_all(self, batch: list[Submission], now: datetime) -> list[Submission]:
        """Begin every submission; one that the machine can't begin is refused alone."""
        begun = []
        for submission in batch:
            try:
                self._begin(submission, now)
            except ProblemError as error:
                if not submission.answer.done():
                    submission.answer.set_exception(error)
            except Exception as error:  # noqa: BLE001 - whatever a core bug raises, the other tasks go on
                refused = problem("internal", f"the run can't begin: {type(error).__name__}: {error}")
                if not submission.answer.done():
                    submission.answer.set_exception(ProblemError(refused))
            else:
                begun.append(submission)
        return begun

    def _begin(self, submission: Submission, now: datetime) -> None:
        submission.admitted, submission.effects, submission.facts = False, (), []
        state, first = create(submission.run_id, submission.snapshot, submission.task, now)
        submission.entries = [first]
        if submission.forked is not None:
            state = _folded(submission, state, submission.forked, now)
        budgeted = self._limits.check(submission.run_id, submission.task, submission.snapshot, now)
        submission.deferred = budgeted or composes(submission.task)
        submission.admitted = self._admission.starts_at_once(submission.task)
        if submission.admitted and not submission.deferred:
            state = _folded(submission, state, RunAdmitted(run_id=submission.run_id), now)
        submission.state = state

    async def _commit(self, batch: list[Submission]) -> None:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(QUERIES.now_and_budgets)
            now = row["now"]
            await self._limits.saw(row["budgets"])
            batch = self._begin_all(batch, now)
            if not batch:
                return
            crash_point("orchestrator.submit_before_commit")
            rows = await connection.fetch(QUERIES.create_runs, *_columns(batch, now, self._settings.priority_ageing_s))
            crash_point("orchestrator.submit_committed")
        made = {row["run_id"] for row in rows}
        for submission in batch:
            if submission.run_id in made:
                await self._accepted(submission, now)
            else:
                await self._repeated(submission)

    async def _accepted(self, submission: Submission, now: datetime) -> None:
        state = submission.state
        if state is None:
            return
        task = submission.task
        if not submission.answer.done():
            submission.answer.set_result(
                RunAccepted(
                    run_id=submission.run_id,
                    project=task.project,
                    network=task.network,
                    version=task.version,
                    status=str(state.status),
                    created_at=now,
                )
            )
        self._loop.cache.put(state)
        await self._loop.announce(_moved(submission, state), list(submission.effects))
        if submission.deferred and submission.admitted:
            self._loop.add(RunAdmitted(run_id=submission.run_id))
        await crash_point_sent("orchestrator.submit_announced")

    async def _repeated(self, submission: Submission) -> None:
        """Answer a task whose key is taken: the first run for the same request, a conflict for another."""
        if submission.admitted:
            self._admission.not_started(submission.task)
        task = submission.task
        row = await self._pool.fetchrow(QUERIES.idempotent_run, task.project, task.caller, submission.idempotency_key)
        if submission.answer.done():
            return
        if row is None:  # the key ran out between the two statements
            submission.answer.set_exception(ProblemError(problem("unavailable", "try once more", retry_after_s=1)))
        else:
            try:
                accepted = repeated(row, submission.idempotency_key, submission.request_digest)
            except ProblemError as conflict:
                submission.answer.set_exception(conflict)
            else:
                submission.answer.set_result(accepted)


def repeated(row: Any, key: str | None, request_digest: str | None) -> RunAccepted:
    """Return the run that has the key, from its *row*; raises ProblemError where it is of another request."""
    if row["request_digest"] != request_digest:
        detail = f"key {key!r} belongs to run {row['run_id']} with another request"
        raise ProblemError(problem("idempotency_conflict", detail, run_id=str(row["run_id"])))
    fields = ("run_id", "project", "network", "version", "status", "created_at")
    return RunAccepted(**{name: row[name] for name in fields}, duplicate=True)


def _folded(submission: Submission, state: RunState, fact: RunForked | RunAdmitted, now: datetime) -> RunState:
    """Fold a fact that comes with the submission, and keep what it gives."""
    entries, submission.effects, after = advance(state, fact, now)
    submission.entries.extend(entries)
    submission.facts.append((state.seq + 1, fact.model_dump_json()))
    return after


def _moved(submission: Submission, state: RunState) -> Moved:
    texts = [event_text(entry.event) for entry in submission.entries]
    return Moved(before_seq=0, state=state, entries=submission.entries, texts=texts)


def _columns(batch: list[Submission], now: datetime, ageing_s: float) -> list[Any]:
    pairs = [(s, s.state) for s in batch if s.state is not None]
    runs = [
        (
            s.run_id,
            s.task.project,
            s.task.network,
            s.task.version,
            s.task.snapshot_digest,
            str(state.status),
            state.seq,
            wake_at(state),
            s.task.caller,
            s.task.priority,
            state.agent_key,
            state.step,
            s.task.max_steps,
            storable(s.task.user_message),
            storable_json(s.task.labels),
            s.task.debug,
            state.started_at,
            s.idempotency_key,
            s.request_digest,
        )
        for s, state in pairs
    ]
    events = [(s.run_id, e.seq, e.event.type, event_text(e.event)) for s, _ in pairs for e in s.entries]
    facts = [(s.run_id, first_seq, text) for s, _ in pairs for first_seq, text in s.facts]
    columns: list[Any] = [list(column) for column in zip(*runs, strict=True)]
    columns.append(now)
    columns += [list(column) for column in zip(*events, strict=True)]
    columns += [list(column) for column in zip(*facts, strict=True)] if facts else [[], [], []]
    return [*columns, ENGINE_VERSION, [s.task.kind for s, _ in pairs], ageing_s]
