"""Applies messages about calls to the ledger: read or guess the row, decide, write; again if the row has changed.

The cache holds guesses; Postgres decides. A decision made from a cached row counts only if its change was stored under
the revision that it expects. A decision that changes nothing counts only if it was made from a row that was just read.
So the cache saves queries and never decides anything, and replicas need not know of each other.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg

from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.fair_queue import take_in_turns
from towpath_tas.adapters.ledger_tables import (
    QUERIES,
    AuthorizationVersions,
    LedgerWriteResult,
    change_calls,
    open_calls,
    read_calls,
    read_counts,
    read_rates,
)
from towpath_tas.app.calls.call_update import NO_CHANGE, CallUpdate
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.limited_rules import BatchUse, denied_call, limit_uses, postpone_on_top
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.calls.value_origins import RunProvenanceCache
from towpath_tas.app.loaded_policies import PolicyNotLoadedError
from towpath_tas.app.policy_cache import PolicyCache, seen_versions
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.call import FINAL, LedgerCall
from towpath_tas.core.calls.restore_doubts import ask_first, without_guess
from towpath_tas.metrics import TasMetrics

MAX_ROUNDS = 8
"""Rounds before a call is given back as contested; each lost round means that another replica made progress."""

ROUNDS_S = 0.15
"""How long the calls of a batch are decided again; then they come again. Whoever registers tools without end makes all
decisions of its project outdated, each of which would have the rest of the batch wait for its policy eight times."""

MAX_CACHED_ARGS_CHARS = 4_096
"""Calls with longer arguments are not cached: memory stays bounded, and such calls are slow anyway."""

SLICE_S = 0.05
"""How long decisions are made before other tasks may run: a batch has up to hundreds, and each may take as long."""

LOAD_S = 0.1
"""How long a batch waits for policies that are being built; the calls of those projects come again."""

SEARCH_S = 0.25
"""How long results are read and looked through for one batch, but for what is under way; other calls come again."""


class LedgerStore:
    """The ledger as the handlers use it."""

    def __init__(
        self, policy_cache: PolicyCache, clock: PostgresClock, metrics: TasMetrics, log: Logger, *, cache_calls: int
    ) -> None:
        self._policy_cache = policy_cache
        self.clock = clock
        self._metrics = metrics
        self._log = log
        self._cache_calls = cache_calls
        self._calls: dict[UUID, LedgerCall] = {}
        self._origins = RunProvenanceCache()

    async def read_time(self, source: Any) -> None:
        """Read the time once, before any decision needs it."""
        row = await source.fetchrow(QUERIES.now)
        self.clock.set(row[0])

    def cached_call(self, execution_id: UUID) -> LedgerCall | None:
        """Return the cached row of a call, which may be outdated."""
        return self._calls.get(execution_id)

    async def apply(self, lane: PinnedDatabaseConnection, updates: Sequence[CallUpdate]) -> None:
        """Apply *updates*, in order where they are about the same call.

        Raises what `DATABASE_DOWN` lists. Then it is unknown which of them were stored, and all may be applied again.
        """
        left = list(updates)
        while left:
            distinct: dict[UUID, CallUpdate] = {}
            rest = []
            for update in left:
                if distinct.setdefault(update.execution_id, update) is not update:
                    update.read = True
                    rest.append(update)
            await self._apply_distinct(lane, list(distinct.values()))
            left = rest

    async def _apply_distinct(self, lane: PinnedDatabaseConnection, distinct: Iterable[CallUpdate]) -> None:
        todo, until = list(distinct), math.inf
        for _ in range(MAX_ROUNDS):
            if not todo:
                return
            if monotonic() > until:
                break
            await self._read_contexts(lane, todo)
            todo = [update for update in todo if not (update.erased or update.error or update.contested)]
            crash_point("tas.looked")
            decided = await self._decide_with_origins(lane, await self._decide_all(todo))
            await self._decide_with_usage(lane, decided)
            await self._decide_with_directories(lane, decided)
            crash_point("tas.decided")
            settled = await self._write(lane, [update for update in decided if not update.error])
            todo = [update for update in todo if update not in settled and not update.error and not update.contested]
            for update in todo:
                update.read = True
            self._metrics.redone.inc(len(todo))
            until = min(until, monotonic() + ROUNDS_S)
        for update in todo:
            update.contested = True

    async def _read_contexts(self, lane: PinnedDatabaseConnection, todo: Sequence[CallUpdate]) -> None:
        guessed: dict[UUID, LedgerCall | None] = {}
        unread = []
        for update in todo:
            known = self._calls.get(update.execution_id)
            if update.read or (known is None) is not update.fresh:
                update.read = True
                unread.append((update.run_id, update.execution_id))
            else:
                guessed[update.execution_id] = known
        stored = await read_calls(lane, unread) if unread else {}
        until, late = monotonic() + LOAD_S, set[str]()
        for update in todo:
            found = stored.get(update.execution_id)
            if found is not None:
                self.clock.set(found.at)
                update.erased, update.error, update.change = found.erased, found.damage, NO_CHANGE
                if found.damage:
                    self._log.error("a call was changed in the ledger", call=str(update.execution_id), why=found.damage)
            call = found.call if found is not None else guessed[update.execution_id]
            project = call.project if call is not None else update.project
            bundle = await self._bundle_within(lane, project, until, late)
            if bundle is None:
                update.contested = not (update.erased or update.error)  # given back, so that others do not wait
            else:
                update.context = update.context_of(call, found, self.clock.now(), bundle)

    async def _bundle_within(
        self, lane: PinnedDatabaseConnection, project: str, until: float, late: set[str]
    ) -> ProjectAuthorizer | None:
        """Return what decides in *project*; None if it takes too long to be loaded, then *project* is in *late*."""
        if project in late:
            return None
        try:
            return await self._policy_cache.of(lane, project, max(until - monotonic(), 0))
        except PolicyNotLoadedError:
            late.add(project)
            return None

    async def _decide_all(self, updates: Collection[CallUpdate]) -> list[CallUpdate]:
        """Decide *updates*; returns those that need not be decided again from a row that was read.

        Other tasks run after each SLICE_S. That changes no decision: each is made from its own context, and what other
        tasks or replicas store meanwhile is found when this batch is written.
        """
        decided = []
        began, working = monotonic(), time.thread_time()
        for update in updates:
            if self._decide(update):
                decided.append(update)
            if monotonic() - began >= SLICE_S:
                self._metrics.count_decisions(0, time.thread_time() - working)
                await asyncio.sleep(0)
                began, working = monotonic(), time.thread_time()
        self._metrics.count_decisions(len(updates), time.thread_time() - working)
        return decided

    def _decide(self, update: CallUpdate) -> bool:
        """Decide one update; False if it must be decided again from a row that was read."""
        if update.context is None:
            return False
        try:
            context = update.context
            change = ask_first(context.call, update.decide(context), context.lost_since)
            update.change = without_guess(context.call, change, context.lost_since)
        except Exception as error:  # noqa: BLE001 - a bug in one decision must not fail the whole batch
            self._log.error("a call can't be handled", execution_id=str(update.execution_id), exc_info=error)
            update.error = f"{type(error).__name__}: {error}"[:500]
            return False
        return update.read or update.change.call is not None

    async def _decide_with_origins(
        self, lane: PinnedDatabaseConnection, decided: Sequence[CallUpdate]
    ) -> list[CallUpdate]:
        """Decide again, with the origin of values, where the decision depends on it.

        Without it, a condition that asks for the origin is unclear, and so restricts.
        """
        contexts = ((update, update.context) for update in decided)
        wanting = {update: context for update, context in contexts if context is not None and context.needs_origin}
        if not wanting:
            return list(decided)
        until = monotonic() + SEARCH_S
        try:
            readers = {update.run_id for update, context in wanting.items() if context.asks_readers}
            known = await self._origins.of(lane, {update.run_id: update.owner for update in wanting}, readers)
        except asyncpg.PostgresError as error:
            if isinstance(error, DATABASE_DOWN):
                raise
            self._log.error("where values come from can't be read", exc_info=error)
            return list(decided)
        late = {update for update in wanting if update.run_id not in known}
        for update, context in wanting.items():
            context.known = known.get(update.run_id)
        late |= await self._find_origins({update: wanting[update] for update in wanting if update not in late}, until)
        for update in late:
            update.contested = True  # given back, so that the decisions of others do not wait
            del wanting[update]
        left_out = late | set(wanting).difference(await self._decide_all(wanting))
        return [update for update in decided if update not in left_out]

    async def _find_origins(self, wanting: Mapping[CallUpdate, LedgerContext], until: float) -> set[CallUpdate]:
        """Look up what takes long, in a thread; returns the calls that there was no time for.

        Projects take turns, each with its least work first. One is always looked up, so each is decided in the end.
        """
        work: dict[CallUpdate, int] = {}
        for update, context in wanting.items():
            chars = 0 if context.needs_origin is None else len(context.needs_origin.args_text)
            if context.known is not None and context.known.takes_long(chars):
                work[update] = context.known.search_work(chars)
        waiting = deque(sorted(work, key=lambda update: work[update]))
        in_turns = take_in_turns(waiting, len(work), len(work), lambda update: update.owner)
        for place, update in enumerate(in_turns):
            if place and monotonic() >= until:
                return set(in_turns[place:])
            await self._origins.threads.run(partial(self._find_origin, wanting[update]))  # others go on meanwhile
        return set()

    def _find_origin(self, context: LedgerContext) -> None:
        began = time.thread_time()
        if context.needs_origin is not None:
            context.with_origin(context.needs_origin)
        self._metrics.count_decisions(0, time.thread_time() - began)

    async def _decide_with_directories(self, lane: PinnedDatabaseConnection, decided: Sequence[CallUpdate]) -> None:
        """Decide denials again, with the agents of their network: the denial names agents that may do it."""
        refused = {update: call.snapshot_digest for update in decided if (call := denied_call(update)) is not None}
        strange = {digest for digest in refused.values() if not self._policy_cache.has_directory(digest)}
        if not strange:
            return
        try:
            await self._policy_cache.load_directories(lane, strange)
        except asyncpg.PostgresError as error:
            if isinstance(error, DATABASE_DOWN):
                raise
            self._log.error("the agents of a network can't be read", exc_info=error)
            return
        await self._decide_all([update for update, digest in refused.items() if digest in strange])

    async def _decide_with_usage(self, lane: PinnedDatabaseConnection, decided: Sequence[CallUpdate]) -> None:
        """Decide again, with the counters, where the decision depends on limited rules."""
        limited = [update for update in decided if update.change.counted or update.change.rated]
        for update in decided:
            update.stored_use = None
        if not limited:
            return
        keys = sorted({(update.usage_key, rule) for update in limited for rule in update.change.counted})
        timed = sorted({(update.owner, rate) for update in limited for rate in update.change.rated})
        base = await read_counts(lane, keys) if keys else {}
        rates = await read_rates(lane, timed) if timed else {}
        use = BatchUse(base, rates)
        for update in limited:
            if update.context is not None:
                use.show(update)
                await self._decide_all([update])
                use.count(update)

    async def _write(self, lane: PinnedDatabaseConnection, updates: Sequence[CallUpdate]) -> set[CallUpdate]:
        settled, opens, others = set[CallUpdate](), list[CallUpdate](), list[CallUpdate]()
        for update in updates:
            call = update.change.call
            if call is None and not update.change.notes:
                settled.add(update)
            elif call is not None and call.revision == 1:
                opens.append(update)
            else:
                others.append(update)
        first = [update for update in opens if update.stored_use is None]
        for group in (first, others):
            if group:
                settled |= await self._write_group(lane, group)
        again = {update.owner for update in first if update not in settled}  # what is on top of these is not known yet
        on_top = [update for update in opens if update.stored_use is not None and update.owner not in again]
        if on_top:
            postponed = postpone_on_top(on_top, opens, self._decide)
            self._metrics.postponed.inc(len(postponed))
            denied = [update for update in on_top if update not in postponed]
            settled |= postponed | (await self._write_group(lane, denied) if denied else set())
        return settled

    async def _write_group(self, lane: PinnedDatabaseConnection, group: Sequence[CallUpdate]) -> set[CallUpdate]:
        """Write a group; if Postgres rejects one row, the others are written one by one."""
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
            return self._stored_updates(group, written)
        settled: set[CallUpdate] = set()
        for update in group:
            settled |= await self._write_group(lane, [update])
        return settled

    async def _store(self, lane: PinnedDatabaseConnection, group: Sequence[CallUpdate]) -> LedgerWriteResult:
        began = time.perf_counter()
        changes = [update.change for update in group]
        first = changes[0].call
        if first is not None and first.revision == 1:
            crash_point("tas.before_open")
            written = await open_calls(lane, changes, limit_uses(group), _seen_versions(group))
            crash_point("tas.opened")
        else:
            crash_point("tas.before_change")
            written = await change_calls(
                lane, changes, _seen_versions(update for update in group if update.change.policy_bound)
            )
            crash_point("tas.changed")
        self._metrics.write_seconds.observe(time.perf_counter() - began)
        self.clock.set(written.at)
        for project in written.stale:
            self._policy_cache.forget(project)
        return written

    def _stored_updates(self, group: Sequence[CallUpdate], written: LedgerWriteResult) -> set[CallUpdate]:
        settled = set()
        for update in group:
            call = update.change.call
            if (until := written.postponed.get(update.execution_id)) is not None:
                update.postpone(until)
                self._metrics.postponed.inc()
                settled.add(update)
            elif call is None or call.execution_id in written.calls:
                settled.add(update)
                if call is not None:
                    self._cache(call)
            else:
                self._calls.pop(update.execution_id, None)
        return settled

    def _cache(self, call: LedgerCall) -> None:
        self._calls.pop(call.execution_id, None)
        if call.status in FINAL or len(call.args) > MAX_CACHED_ARGS_CHARS:
            return
        while len(self._calls) >= self._cache_calls:
            del self._calls[next(iter(self._calls))]
        self._calls[call.execution_id] = call


def _seen_versions(updates: Iterable[CallUpdate]) -> list[AuthorizationVersions]:
    policy_cache = {update.owner: update.context.bundle for update in updates if update.context is not None}
    return [seen_versions(project, bundle) for project, bundle in policy_cache.items()]
