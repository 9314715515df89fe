"""Timers of held requests: the time to a resend does not run before a request is sent.

A resend is due a fixed time after the *sending*. While a request is held its run is not woken for it: `wake_at` is
moved in the row of a run that nobody else has moved, and whatever else the run is to be woken for stays due. Where this
process ends, or can't reach Postgres, the moved time comes by itself, and any replica sends the request again.
"""

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from towpath_engine.advance import wake_at
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.ports import Database
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.app.dispatch.dispatch_windows import WindowedDispatcher
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.core.dispatch_choice import LateDispatch, WaitingRequest

LOOK_S = 1.0
"""How late a request that nobody wants any more is noticed, where another replica ended its run."""

SOON_S = 3.0
"""A run that would be woken within this time is put off."""

AHEAD_S = 10.0
"""How far: a request whose process has died is asked for again after this time at the latest."""


class WaitingRequestMonitor:
    """Looks after what *windows* hold, once a second while they do. One per process."""

    def __init__(
        self, pool: Database, store: RunStore, cache: StateCache, windows: WindowedDispatcher, log: Logger
    ) -> None:
        self._pool = pool
        self._store = store
        self._cache = cache
        self._windows = windows
        self._log = log
        self._late: dict[UUID, LateDispatch] = {}
        """What was sent late and is not due yet: the due time in its run's log is over, and doesn't count."""

    async def run(self) -> None:
        """Look for ever; a database that is away only delays the next look."""
        while True:
            await self._windows.wait_held()
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, requests are held on", error=str(error))

    async def look(self) -> None:
        """Drop what is not wanted any more, and put off the waking of runs whose requests wait or were sent late."""
        held: dict[UUID, list[WaitingRequest]] = {}
        for one in self._windows.held():
            held.setdefault(one.effect.message.run_id, []).append(one)
        new, late = self._sent_late()
        wanted = [*held, *(run_id for run_id in new if run_id not in held)]
        if not wanted:
            return
        rows = await self._pool.fetch(QUERIES.times, wanted)
        now: datetime = rows[0]["now"]
        put_off = []
        for row in rows:
            state = await self._state(row)
            waiting = _current(held.get(row["run_id"], []), state)
            for one in held.get(row["run_id"], []):
                if one not in waiting:
                    self._windows.drop(one.effect.effect.effect_id)
            if state is None:
                continue
            sent = _sent(late.get(row["run_id"], {}), state)
            wait_s = _wait_s(waiting, sent.values() if row["run_id"] in new else ())
            if wait_s is not None:
                unhurried = sent.keys() | {one.effect.effect.effect_id for one in waiting}
                times = [wait_s, *(due - monotonic() for due in sent.values())]
                put_off.append((state.run_id, state.seq, next_wake(state, now, min(times), unhurried)))
        if put_off:
            await self._pool.execute(QUERIES.move_wake, *(list(column) for column in zip(*put_off, strict=True)))

    def _sent_late(self) -> tuple[set[UUID], dict[UUID, dict[UUID, LateDispatch]]]:
        """Return the runs of which something was sent late since the last look, and all such requests by their run."""
        new = self._windows.take_late()
        now = monotonic()
        self._late = {key: one for key, one in (self._late | new).items() if one.due > now}
        by_run: dict[UUID, dict[UUID, LateDispatch]] = {}
        for key, one in self._late.items():
            by_run.setdefault(one.run_id, {})[key] = one
        return {one.run_id for one in new.values()}, by_run

    async def _state(self, row: Any) -> RunState | None:
        if row["run_id"] is None:
            return None
        cached = self._cache.get(row["run_id"])
        if cached is not None and cached.seq == row["seq"]:
            return cached
        try:
            return await self._store.load(row["run_id"])
        except DATABASE_DOWN:
            raise
        except Exception as error:  # noqa: BLE001 - a log that can't be read is the commit loop's business
            self._log.warning("a held request is dropped", run_id=str(row["run_id"]), error=type(error).__name__)
            return None


def _current(held: list[WaitingRequest], state: RunState | None) -> list[WaitingRequest]:
    """Return those requests that are still what the run waits for; one that was asked for anew is not."""
    attempts = {} if state is None else _attempts_under_way(state)
    return [one for one in held if attempts.get(one.effect.effect.effect_id) == one.effect.effect.attempt]


def _attempts_under_way(state: RunState) -> dict[UUID, int]:
    """Return the attempts that have no answer yet; one that a provider has put off is due when it said."""
    return {pending.effect_id: pending.attempt for pending in state.pending if not pending.postponed}


def _sent(late: dict[UUID, LateDispatch], state: RunState) -> dict[UUID, float]:
    """Return when those requests that were sent late are due, as far as the run still waits for that attempt."""
    attempts = _attempts_under_way(state)
    return {key: one.due for key, one in late.items() if attempts.get(key) == one.attempt}


def _wait_s(waiting: list[WaitingRequest], late: Collection[float]) -> float | None:
    """Return in how many seconds the run is to be woken, None where its time is right as it is."""
    now = monotonic()
    if any(one.wake <= now + SOON_S for one in waiting):
        for one in waiting:
            one.wake = now + AHEAD_S
        return AHEAD_S
    return min(late) - now if late and not waiting else None


def next_wake(state: RunState, now: datetime, wait_s: float, unhurried: Collection[UUID]) -> datetime:
    """Return when a run is to be woken whose *unhurried* requests aren't due before *wait_s*: for whatever else is.

    Any other request may have been lost on its way, however long ago it was due.
    """
    others = tuple(pending for pending in state.pending if pending.effect_id not in unhurried)
    times = [now + timedelta(seconds=wait_s)]
    times += [pending.deadline for pending in state.pending if pending.deadline is not None]
    other = wake_at(replace(state, pending=others))
    return min(times if other is None else [*times, other])
