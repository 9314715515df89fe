"""The clocks of requests that are held: they do not run before a request is sent.

Law: a request's resend is due so long after its *sending*. While it waits here its run is not woken for it, by moving
`wake_at` in the row of a run that nobody else has moved; whatever else the run is to be woken for stays due. Where this
process ends, or can't reach Postgres, that lapses by itself and any replica asks again.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from towpath_engine.advance import wake_at
from towpath_engine.change import but
from towpath_engine.state import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.db import DATABASE_DOWN
from towpath_fabric.logs import Logger
from towpath_fabric.ports import Database
from towpath_orchestrator.adapters.run_tables import QUERIES, RunTables
from towpath_orchestrator.cache import StateCache
from towpath_orchestrator.windows import Held, Windows

LOOK_S = 1.0
"""How late a request that nobody wants any more is noticed, where another replica ended its run."""

SOON_S = 3.0
"""A run that would be woken within this time is put off."""

AHEAD_S = 10.0
"""How far: a request whose process has died is asked for again after this time at the latest."""


class Holding:
    """Looks after what *windows* hold, once a second. One per process."""

    def __init__(self, pool: Database, tables: RunTables, cache: StateCache, windows: Windows, log: Logger) -> None:
        self._pool = pool
        self._tables = tables
        self._cache = cache
        self._windows = windows
        self._log = log

    async def run(self) -> None:
        """Look for ever; a database that is away only delays the next look."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except DATABASE_DOWN as error:
                self._log.info("postgres is away, requests are held on", error=str(error))

    async def look(self) -> None:
        """Drop what is not wanted any more, and put off the waking of runs whose requests wait or were sent late."""
        held: dict[UUID, list[Held]] = {}
        for one in self._windows.held():
            held.setdefault(one.effect.message.run_id, []).append(one)
        late, self._windows.late = self._windows.late, {}
        wanted = [*held, *(run_id for run_id in late if run_id not in held)]
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
            wait_s = _wait_s(waiting, late.get(row["run_id"]))
            if state is not None and wait_s is not None:
                put_off.append((state.run_id, state.seq, _next_wake(state, now, wait_s)))
        if put_off:
            await self._pool.execute(QUERIES.move_wake, *(list(column) for column in zip(*put_off, strict=True)))

    async def _state(self, row: Any) -> RunState | None:
        if row["run_id"] is None:
            return None
        cached = self._cache.get(row["run_id"])
        if cached is not None and cached.seq == row["seq"]:
            return cached
        try:
            return await self._tables.load(row["run_id"])
        except DATABASE_DOWN:
            raise
        except Exception as error:  # noqa: BLE001 - a log that can't be read is the commit loop's business
            self._log.warning("a held request is dropped", run_id=str(row["run_id"]), error=type(error).__name__)
            return None


def _current(held: list[Held], state: RunState | None) -> list[Held]:
    """Return those requests that are still what the run waits for; one that was asked for anew is not."""
    attempts = {} if state is None else {pending.effect_id: pending.attempt for pending in state.pending}
    return [one for one in held if attempts.get(one.effect.effect.effect_id) == one.effect.effect.attempt]


def _wait_s(waiting: list[Held], late_s: float | None) -> float | None:
    """Return in how many seconds the run is to be woken, None where its time is right as it is."""
    now = monotonic()
    if any(one.wake <= now + SOON_S for one in waiting):
        for one in waiting:
            one.wake = now + AHEAD_S
        return AHEAD_S
    return late_s if not waiting else None


def _next_wake(state: RunState, now: datetime, wait_s: float) -> datetime:
    """Return when a run is to be woken whose requests are not due before *wait_s*: for anything else that is due."""
    others = tuple(pending for pending in state.pending if pending.resend_at > now + timedelta(seconds=SOON_S))
    times = [now + timedelta(seconds=wait_s)]
    times += [pending.deadline for pending in state.pending if pending.deadline is not None]
    other = wake_at(but(state, pending=others))
    return min(times if other is None else [*times, other])
