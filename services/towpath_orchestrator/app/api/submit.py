"""Accepting tasks: a task becomes a run in one transaction, together with its key and its first effect.

Refused whole with every problem listed, or accepted for good. RunAccepted is sent after the commit. Submits that
arrive while a transaction is in flight share the next one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.events.log import RunCreated
from towpath_contracts.facts import RunAdmittedFact, RunForkedFact
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.trace_context import trace_of
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_engine import ENGINE_VERSION
from towpath_engine.advance import advance, wake_at
from towpath_engine.reducers.plan import composes
from towpath_engine.replay import create
from towpath_engine.state.run import RunState
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.ports import Database, DatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.postgres.refused_values import INVALID_DATA
from towpath_orchestrator.adapters.batch_rows import opened_gates
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.adapters.storable_text import storable, storable_json
from towpath_orchestrator.app.admission import AdmissionController
from towpath_orchestrator.app.api.task_checks import NOT_ACCEPTED, Submission, TaskChecker
from towpath_orchestrator.app.budget_limits import BudgetLimitCache
from towpath_orchestrator.app.commit.transition_announcer import TransitionAnnouncer
from towpath_orchestrator.app.dispatch.effect_dispatcher import EffectDispatcher
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.project_quotas import ProjectQuotas
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.core.quota_limits import IdempotencyKey, QuotaTask
from towpath_orchestrator.core.transitions import Transition, event_text
from towpath_orchestrator.settings import OrchestratorSettings

RECORDS = Queries.load("towpath_orchestrator.adapters", "records.sql")

KEY_HOURS = 24
"""How long an idempotency key is remembered."""

SUBMIT_TIMEOUT_S = 10.0

OVERLOADED_RETRY_S = 5

AWAY = "Postgres went away; the task may have been accepted, and only its idempotency key will tell"


class TaskIntake:
    """Takes tasks, checks them, and commits them in batches."""

    def __init__(
        self,
        pool: Database,
        checker: TaskChecker,
        cache: StateCache,
        local_facts: LocalFactQueue,
        dispatcher: EffectDispatcher,
        announcer: TransitionAnnouncer,
        settings: OrchestratorSettings,
        limits: BudgetLimitCache,
        admission: AdmissionController,
        quotas: ProjectQuotas,
    ) -> None:
        self._pool = pool
        self._quotas = quotas
        self._admission = admission
        self._checker = checker
        self._cache = cache
        self._local_facts = local_facts
        self._dispatcher = dispatcher
        self._announcer = announcer
        self._settings = settings
        self._limits = limits
        self._waiting: list[Submission] = []
        self._arrived = asyncio.Event()
        self._coming: Counter[str] = Counter()

    async def submit(self, task: SubmitTask, caller: str, parent: RunCreated | None = None) -> RunAccepted:
        """Accept *task*, or raise ProblemError. Returns after the commit.

        A task that the run *parent* gives stands under all of that run's grants.
        """
        return await self.enter(partial(self._checker.check, task, caller, parent), caller)

    async def enter(self, checked: Callable[[], Awaitable[Submission]], caller: str) -> RunAccepted:
        """Accept what *checked* makes ready for *caller*, or raise ProblemError. Returns after the commit."""
        self._refuse_flood(caller)
        self._coming[caller] += 1
        try:
            return await self._answer(await checked())
        except DATABASE_DOWN as error:
            raise ProblemError(problem("unavailable", AWAY, retry_after_s=2)) from error
        except INVALID_DATA as error:
            detail = f"the task holds a value that can't be stored ({type(error).__name__})"
            raise ProblemError(problem("request_invalid", detail)) from error
        except asyncpg.PostgresError as error:
            raise ProblemError(problem("internal", f"the task could not be stored: {type(error).__name__}")) from error
        finally:
            self._coming[caller] -= 1
            if not self._coming[caller]:
                del self._coming[caller]

    def is_flooded_by(self, caller: str) -> bool:
        """Return whether a task of *caller* would be refused now, whatever it is."""
        try:
            self._refuse_flood(caller)
        except ProblemError:
            return True
        return False

    def _refuse_flood(self, caller: str) -> None:
        """Raise `overloaded` rather than take what can be neither stored soon nor started for long."""
        if self._admission.queued >= self._settings.max_queued_runs:
            detail = f"{self._admission.queued} runs wait already"
            raise ProblemError(problem("overloaded", detail, retry_after_s=OVERLOADED_RETRY_S))
        if self._admission.is_queue_share_used(caller, self._coming[caller]):
            detail = f"{self._admission.queues[caller]} runs of {caller} wait already; the rest is for other callers"
            raise ProblemError(problem("overloaded", detail, retry_after_s=OVERLOADED_RETRY_S))
        if self._coming.total() >= self._settings.max_waiting_submits:
            detail = f"{self._coming.total()} tasks wait to be stored"
            raise ProblemError(problem("overloaded", detail, retry_after_s=1))

    async def _answer(self, submission: Submission) -> RunAccepted:
        """Wait for the commit; raises ProblemError `unavailable`, whose text says what may have become of the task."""
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
        budgeted = self._limits.scopes.check(submission.run_id, submission.task, submission.snapshot, now)
        submission.deferred = budgeted or composes(submission.task)
        submission.admitted = self._admission.starts_at_once(submission.task)
        if submission.admitted and not submission.deferred:
            state = _folded(submission, state, RunAdmittedFact(run_id=submission.run_id), now)
        submission.state = state

    async def _commit(self, batch: list[Submission]) -> None:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(QUERIES.now_and_budgets)
            now = row["now"]
            await self._limits.use_version(row["budgets"])
            limited = await self._quotas.limited(connection, (s.task.project for s in batch), row["quotas"])
            free = [submission for submission in batch if submission.task.project not in limited]
            if limited and not free:
                async with connection.transaction():
                    begun, made = await self._create_within_quotas(connection, batch, limited, now)
            else:
                begun = self._begin_all(free, now)
                made = await self._create(connection, begun, now)
            crash_point("orchestrator.submit_committed")
        for submission in begun:
            if submission.run_id in made:
                await self._accepted(submission, now)
            else:
                await self._repeated(submission)
        if free and limited:  # behind the others, which are not to wait for what holds a quota
            await self._commit_safely([submission for submission in batch if submission.task.project in limited])

    async def _create_within_quotas(
        self, connection: DatabaseConnection, batch: list[Submission], limited: list[str], now: datetime
    ) -> tuple[list[Submission], set[UUID]]:
        """Store those tasks of the batch that their quotas have room for; returns what became of each.

        A task that is refused may be one that was accepted before: its key tells.
        """
        refusals = await self._quotas.refusals(connection, limited, [_quota_task(one) for one in batch], now)
        for submission, refusal in zip(batch, refusals, strict=True):
            submission.admitted, submission.refusal = False, refusal
        begun = self._begin_all([submission for submission in batch if submission.refusal is None], now)
        made = await self._create(connection, begun, now)
        stored = (submission.task.project for submission in begun if submission.run_id in made)
        await self._quotas.count(connection, limited, stored, now)
        return [*begun, *(submission for submission in batch if submission.refusal is not None)], made

    async def _create(self, connection: DatabaseConnection, begun: list[Submission], now: datetime) -> set[UUID]:
        """Store runs; returns those that are new."""
        if not begun:
            return set()
        crash_point("orchestrator.submit_before_commit")
        rows = await connection.fetch(QUERIES.create_runs, *_columns(begun, now, self._settings.priority_ageing_s))
        return {row["run_id"] for row in rows}

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
                    timeout_ms=task.timeout_ms,
                    trace_id=(trace_of(task.traceparent) or submission.run_id).hex,
                )
            )
        self._cache.put(state)
        transition = _first_transition(submission, state)
        self._announcer.count_stored([transition])
        await self._dispatcher.dispatch(transition)
        await self._announcer.announce(transition)
        if submission.deferred and submission.admitted:
            self._local_facts.add(RunAdmittedFact(run_id=submission.run_id))
        await crash_point_after_flush("orchestrator.submit_announced")

    async def _repeated(self, submission: Submission) -> None:
        """Answer a task whose key is taken: the first run for the same request, a conflict for another.

        So is one for which a quota has no room, which is refused where its key is new.

        Of a fork the run that it is of may have been erased meanwhile.
        """
        if submission.admitted:
            self._admission.not_started(submission.task)
        task, key = submission.task, submission.idempotency_key
        row = None
        if key is not None:
            row = await self._pool.fetchrow(QUERIES.idempotent_run, task.project, task.caller, key)
        if submission.answer.done():
            return
        if row is None:
            submission.answer.set_exception(await self._not_stored(submission))
            return
        try:
            accepted = repeated_answer(row, key, submission.request_digest)
        except ProblemError as conflict:
            submission.answer.set_exception(conflict)
        else:
            submission.answer.set_result(accepted)

    async def _not_stored(self, submission: Submission) -> ProblemError:
        """Return why a task was not stored whose key is not taken."""
        task, key = submission.task, submission.idempotency_key
        if submission.refusal is not None:
            return ProblemError(submission.refusal)
        if task.forked_from is not None:
            run_id = str(task.forked_from.run_id)
            gone = problem("run_erased", f"run {run_id} is erased: nothing is forked from it", run_id=run_id)
            return ProblemError(gone)
        if task.continues is not None:
            if key is not None:
                await self._pool.execute(QUERIES.forget_key, task.project, task.caller, key, submission.run_id)
            return await self._not_continued(task.continues.run_id)
        # the key ran out between the two statements
        return ProblemError(problem("unavailable", "try once more", retry_after_s=1))

    async def _not_continued(self, run_id: UUID) -> ProblemError:
        """Return why a run could not be continued when the task was stored."""
        later = await self._pool.fetchval(RECORDS.later_run, run_id)
        if later is None:
            gone = f"run {run_id} is erased: nothing continues it"
            return ProblemError(problem("run_erased", gone, run_id=str(run_id)))
        return ProblemError(problem("run_continued", f"run {later} continues {run_id}", run_id=str(later)))


def _quota_task(submission: Submission) -> QuotaTask:
    project, caller, key = submission.task.project, submission.task.caller, submission.idempotency_key
    return QuotaTask(project, None if key is None else IdempotencyKey(project, caller, key))


def repeated_answer(row: Any, key: str | None, request_digest: str | None) -> RunAccepted:
    """Return the run that has the key, from its *row*; raises ProblemError where it is of another request."""
    if row["request_digest"] != request_digest:
        run_id = str(row["run_id"])
        detail = (
            f"key {key!r} belongs to run {run_id} with another request, of {row['created_at']:%Y-%m-%d %H:%M:%S} UTC"
        )
        remedy = f"Use a new key for another task, or look at the first one: towpath runs show {run_id}."
        raise ProblemError(problem("idempotency_conflict", detail, run_id=run_id, remedy=remedy))
    fields = ("run_id", "project", "network", "version", "status", "created_at", "timeout_ms")
    trace_id = (row["trace_id"] or row["run_id"]).hex
    return RunAccepted(**{name: row[name] for name in fields}, trace_id=trace_id, duplicate=True)


def _folded(submission: Submission, state: RunState, fact: RunForkedFact | RunAdmittedFact, now: datetime) -> RunState:
    """Fold a fact that comes with the submission, and keep what it gives."""
    entries, submission.effects, after = advance(state, fact, now)
    submission.entries.extend(entries)
    submission.facts.append((state.seq + 1, fact.model_dump_json()))
    return after


def _first_transition(submission: Submission, state: RunState) -> Transition:
    texts = [event_text(entry.event) for entry in submission.entries]
    return Transition(
        before_seq=0, state=state, entries=submission.entries, texts=texts, effects=list(submission.effects)
    )


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
    forked = [s.task.forked_from and s.task.forked_from.run_id for s, _ in pairs]
    # A fork begins with the same turns as its parent, and a thread of its own.
    behind = [s.task.continues if s.forked is None else None for s, _ in pairs]
    continued, threads = [one and one.run_id for one in behind], [one and one.thread_id for one in behind]
    gates = opened_gates([_first_transition(s, state) for s, state in pairs if s.forked is not None])
    kinds, traces = [s.task.kind for s, _ in pairs], [trace_of(s.task.traceparent) for s, _ in pairs]
    return [*columns, ENGINE_VERSION, kinds, ageing_s, forked, gates, continued, threads, traces]
