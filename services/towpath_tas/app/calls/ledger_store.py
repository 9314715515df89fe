"""Carries steps of calls into the ledger: guess or read, decide, write; again where the picture had changed.

What is remembered here is a guess, and Postgres is the judge. A step made from a guess counts only once its
change was stored under the revision it expects; a step that changes nothing counts only if it was made from a row
just read. So memory saves queries and never decides anything, and replicas need not know of each other.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.switches import Switch
from towpath_contracts.tools.calls import CallStatus
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.postgres.pinned_connection import Lane
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import (
    QUERIES,
    LimitUse,
    SeenVersions,
    StoredCall,
    WriteResult,
    change_calls,
    open_calls,
    read_calls,
    read_counts,
    read_rates,
)
from towpath_tas.app.calls.value_origins import RunKnowledgeCache
from towpath_tas.app.policy.policy_cache import PolicyCache, seen_versions
from towpath_tas.core.authorization import AuthorizationDecision, AuthorizationQuery, PolicyBundle
from towpath_tas.core.calls.call import FINAL, Approval, LedgerCall, LedgerChange
from towpath_tas.core.calls.switch_holds import principal_of
from towpath_tas.core.policy.matrix import Principal
from towpath_tas.core.provenance.provenance import RunKnowledge
from towpath_tas.metrics import TasMetrics

MAX_ROUNDS = 8
"""Rounds before a contested call is handed back; each lost round means that somebody else got on."""

MAX_CACHED_ARGS_CHARS = 4_096
"""Calls with longer arguments are not remembered: memory stays bounded, and such calls are slow anyway."""


NO_CHANGE = LedgerChange()


class DatabaseTime:
    """Postgres's clock as it was last told, moved on by this machine's monotonic clock."""

    def __init__(self) -> None:
        self._told: datetime | None = None
        self._heard = 0.0

    def set(self, at: datetime) -> None:
        """Take what Postgres said just now."""
        self._told, self._heard = at, monotonic()

    @property
    def known(self) -> bool:
        """Whether Postgres has told its time."""
        return self._told is not None

    def now(self) -> datetime:
        """Return Postgres's time; raises RuntimeError before it was ever told."""
        if self._told is None:
            msg = "Postgres has not told its time yet"
            raise RuntimeError(msg)
        return self._told + timedelta(seconds=monotonic() - self._heard)


@dataclass(slots=True)
class DecisionContext:
    """What a step is decided on. `used` and `rates` are None until the counters of limited rules were asked for."""

    call: LedgerCall | None
    approval: Approval | None
    fence: int
    now: datetime
    law: PolicyBundle
    used: dict[str, int] | None = None
    rates: dict[str, int] | None = None
    known: RunKnowledge | None = None
    wants_origin: bool = False

    def traced(self, asked: AuthorizationQuery) -> AuthorizationQuery:
        """Return *asked* with where its values come from, where that was looked up."""
        return asked if self.known is None else self.law.traced(asked, self.known)

    def authorize(self, asked: AuthorizationQuery) -> AuthorizationDecision:
        """Ask the matrix."""
        ruling = self.law.rule(self.traced(asked), self.used, self.rates)
        self.wants_origin = self.wants_origin or ruling.wants_origin
        return ruling

    def holding(self, who: Principal | None = None, tool: str = "") -> Switch | None:
        """Return the switch that holds this call, or, where there is none yet, what *who* asks of *tool*."""
        if not self.law.switches.open:
            return None
        if self.call is not None:
            return self.law.switches.holding(principal_of(self.call), self.call.tool)
        return None if who is None else self.law.switches.holding(who, tool)


@dataclass(slots=True, eq=False)
class LedgerUpdate:
    """One message about one call; `decide` is pure.

    *fresh* says that no row is expected, *read* that the row must be read and not guessed. Limits of a run count under
    *counted_for*: the run that a caller submitted, whichever run below it calls.
    """

    run_id: UUID
    execution_id: UUID
    decide: Callable[[DecisionContext], LedgerChange]
    project: str = ""
    counted_for: UUID | None = None
    fresh: bool = False
    read: bool = False
    step: LedgerChange = NO_CHANGE
    base: dict[str, int] = field(default_factory=dict)
    picture: DecisionContext | None = None
    error: str = ""
    contested: bool = False

    @property
    def counter(self) -> UUID:
        """The run under which limits are counted."""
        return self.counted_for or self.run_id


class LedgerStore:
    """The ledger as the handlers see it."""

    def __init__(
        self, laws: PolicyCache, clock: DatabaseTime, metrics: TasMetrics, log: Logger, *, cache_calls: int
    ) -> None:
        self._laws = laws
        self.clock = clock
        self._metrics = metrics
        self._log = log
        self._cache_calls = cache_calls
        self._calls: dict[UUID, LedgerCall] = {}
        self._origins = RunKnowledgeCache()

    async def learn_time(self, source: Any) -> None:
        """Ask Postgres for its time once."""
        row = await source.fetchrow(QUERIES.now)
        self.clock.set(row[0])

    def remembered(self, execution_id: UUID) -> LedgerCall | None:
        """Return the last known row of a call, which may be outdated."""
        return self._calls.get(execution_id)

    async def apply(self, lane: Lane, entries: Sequence[LedgerUpdate]) -> None:
        """Carry out *entries*, in order where they are about one call. Each gets its step, or `error`, or `contested`.

        Raises what `DATABASE_DOWN` lists; then nothing is known about any of them, and all may be applied again.
        """
        left = list(entries)
        while left:
            wave: dict[UUID, LedgerUpdate] = {}
            rest = []
            for entry in left:
                if wave.setdefault(entry.execution_id, entry) is not entry:
                    entry.read = True
                    rest.append(entry)
            await self._wave(lane, list(wave.values()))
            left = rest

    async def _wave(self, lane: Lane, wave: Iterable[LedgerUpdate]) -> None:
        todo = list(wave)
        for _ in range(MAX_ROUNDS):
            if not todo:
                return
            await self._look(lane, todo)
            crash_point("tas.looked")
            decided = await self._trace(lane, [entry for entry in todo if self._decide(entry)])
            await self._count(lane, decided)
            await self._acquaint(lane, decided)
            crash_point("tas.decided")
            settled = await self._write(lane, [entry for entry in decided if not entry.error])
            todo = [entry for entry in todo if entry not in settled and not entry.error]
            for entry in todo:
                entry.read = True
            self._metrics.redone.inc(len(todo))
        for entry in todo:
            entry.contested = True

    async def _look(self, lane: Lane, todo: Sequence[LedgerUpdate]) -> None:
        guessed: dict[UUID, LedgerCall | None] = {}
        unread = []
        for entry in todo:
            known = self._calls.get(entry.execution_id)
            if entry.read or (known is None) is not entry.fresh:
                entry.read = True
                unread.append((entry.run_id, entry.execution_id))
            else:
                guessed[entry.execution_id] = known
        stored = await read_calls(lane, unread) if unread else {}
        for entry in todo:
            found = stored.get(entry.execution_id)
            if found is not None:
                self.clock.set(found.at)
            call = found.call if found is not None else guessed[entry.execution_id]
            project = call.project if call is not None else entry.project
            entry.picture = _decision_context(call, found, self.clock.now(), await self._laws.of(lane, project))

    def _decide(self, entry: LedgerUpdate) -> bool:
        """Decide one entry; False where its step must be made again from a row that was read."""
        if entry.picture is None:
            return False
        try:
            entry.step = entry.decide(entry.picture)
        except Exception as error:  # noqa: BLE001 - whatever a bug raises, one message must not take the batch with it
            self._log.error("a call can't be handled", execution_id=str(entry.execution_id), exc_info=error)
            entry.error = f"{type(error).__name__}: {error}"[:500]
            return False
        return entry.read or entry.step.call is not None

    async def _trace(self, lane: Lane, decided: Sequence[LedgerUpdate]) -> list[LedgerUpdate]:
        """Decide again, knowing where values come from, what rests on that.

        Without it, a condition that asks for it is unclear, and so restricts.
        """
        pictures = ((entry, entry.picture) for entry in decided)
        wanting = {entry: picture for entry, picture in pictures if picture is not None and picture.wants_origin}
        if not wanting:
            return list(decided)
        try:
            known = await self._origins.of(lane, {entry.run_id: _project_of(entry) for entry in wanting})
        except asyncpg.PostgresError as error:
            if isinstance(error, DATABASE_DOWN):
                raise
            self._log.error("where values come from can't be read", exc_info=error)
            return list(decided)
        for entry, picture in wanting.items():
            picture.known = known[entry.run_id]
        return [entry for entry in decided if entry not in wanting or self._decide(entry)]

    async def _acquaint(self, lane: Lane, decided: Sequence[LedgerUpdate]) -> None:
        """Decide denials again, knowing the agents of their network: a refused model hears who may do it."""
        refused = {entry: call.snapshot_digest for entry in decided if (call := _denied_call(entry)) is not None}
        strange = {digest for digest in refused.values() if not self._laws.knows(digest)}
        if not strange:
            return
        try:
            await self._laws.acquaint(lane, strange)
        except asyncpg.PostgresError as error:
            if isinstance(error, DATABASE_DOWN):
                raise
            self._log.error("the agents of a network can't be read", exc_info=error)
            return
        for entry, digest in refused.items():
            if digest in strange:
                self._decide(entry)

    async def _count(self, lane: Lane, decided: Sequence[LedgerUpdate]) -> None:
        """Decide again, knowing the counters, what rests on limited rules."""
        limited = [entry for entry in decided if entry.step.counted or entry.step.rated]
        if not limited:
            return
        keys = sorted({(entry.counter, rule) for entry in limited for rule in entry.step.counted})
        timed = sorted({(_project_of(entry), rate) for entry in limited for rate in entry.step.rated})
        base = await read_counts(lane, keys) if keys else {}
        used = dict(base)
        rates = await read_rates(lane, timed) if timed else {}
        for entry in limited:
            if entry.picture is not None:
                rules, project = entry.step.counted, _project_of(entry)
                entry.picture.used = {rule: used[entry.counter, rule] for rule in rules}
                entry.picture.rates = {rate.rule: rates[project, rate.rule] for rate in entry.step.rated}
                entry.base = {rule: base[entry.counter, rule] for rule in rules}
                self._decide(entry)
                for rule in entry.step.counted:
                    used[entry.counter, rule] += 1  # the next call of this batch comes after this one
                for rate in entry.step.rated:
                    rates[project, rate.rule] += 1

    async def _write(self, lane: Lane, entries: Sequence[LedgerUpdate]) -> set[LedgerUpdate]:
        settled, opens, others = set[LedgerUpdate](), list[LedgerUpdate](), list[LedgerUpdate]()
        for entry in entries:
            call = entry.step.call
            if call is None and not entry.step.notes:
                settled.add(entry)
            elif call is not None and call.revision == 1:
                opens.append(entry)
            else:
                others.append(entry)
        for group in (opens, others):
            if group:
                settled |= await self._write_group(lane, group)
        return settled

    async def _write_group(self, lane: Lane, group: Sequence[LedgerUpdate]) -> set[LedgerUpdate]:
        """Write a group; what Postgres refuses must not take the others with it."""
        try:
            written = await self._store(lane, group)
        except (asyncpg.PostgresError, ValueError, OverflowError) as error:
            if isinstance(error, DATABASE_DOWN) and not isinstance(
                error, ValueError
            ):  # asyncpg's own DataError is both
                raise
            if len(group) == 1:
                if not isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError):
                    group[0].error = f"{type(error).__name__}: {error}"[:500]
                return set()
        else:
            return self._took(group, written)
        settled: set[LedgerUpdate] = set()
        for entry in group:
            settled |= await self._write_group(lane, [entry])
        return settled

    async def _store(self, lane: Lane, group: Sequence[LedgerUpdate]) -> WriteResult:
        began = time.perf_counter()
        steps = [entry.step for entry in group]
        first = steps[0].call
        if first is not None and first.revision == 1:
            crash_point("tas.before_open")
            written = await open_calls(lane, steps, _limit_uses(group), _seen_versions(group))
            crash_point("tas.opened")
        else:
            crash_point("tas.before_change")
            written = await change_calls(lane, steps, _seen_versions(entry for entry in group if entry.step.decides))
            crash_point("tas.changed")
        self._metrics.write_seconds.observe(time.perf_counter() - began)
        self.clock.set(written.at)
        for project in written.stale:
            self._laws.forget(project)
        return written

    def _took(self, group: Sequence[LedgerUpdate], written: WriteResult) -> set[LedgerUpdate]:
        settled = set()
        for entry in group:
            call = entry.step.call
            if call is None or call.execution_id in written.calls:
                settled.add(entry)
                if call is not None:
                    self._remember(call)
            else:
                self._calls.pop(entry.execution_id, None)
        return settled

    def _remember(self, call: LedgerCall) -> None:
        self._calls.pop(call.execution_id, None)
        if call.status in FINAL or len(call.args) > MAX_CACHED_ARGS_CHARS:
            return
        while len(self._calls) >= self._cache_calls:
            del self._calls[next(iter(self._calls))]
        self._calls[call.execution_id] = call


def _denied_call(entry: LedgerUpdate) -> LedgerCall | None:
    call = entry.step.call
    return call if call is not None and call.status is CallStatus.DENIED and entry.step.decides else None


def _project_of(entry: LedgerUpdate) -> str:
    call = entry.picture.call if entry.picture is not None else None
    return entry.project if call is None else call.project


def _decision_context(
    call: LedgerCall | None, found: StoredCall | None, now: datetime, law: PolicyBundle
) -> DecisionContext:
    if found is None:
        return DecisionContext(call=call, approval=None, fence=0, now=now, law=law)
    return DecisionContext(call=call, approval=found.approval, fence=found.fence, now=now, law=law)


def _limit_uses(group: Iterable[LedgerUpdate]) -> list[LimitUse]:
    """Every use of a limited rule. All calls of a batch share the base that was read: Postgres adds them up."""
    counts = []
    for entry in group:
        run_id, execution_id = entry.counter, entry.execution_id
        counts += [LimitUse(run_id, rule, execution_id, entry.base.get(rule, 0)) for rule in entry.step.counted]
        counts += [
            LimitUse(run_id, rate.rule, execution_id, 0, _project_of(entry), rate.per_s, rate.calls)
            for rate in entry.step.rated
        ]
    return counts


def _seen_versions(entries: Iterable[LedgerUpdate]) -> list[SeenVersions]:
    laws = {_project_of(entry): entry.picture.law for entry in entries if entry.picture is not None}
    return [seen_versions(project, law) for project, law in laws.items()]
