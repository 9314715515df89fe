"""Writes events into history, from the stream or from the run log.

`add` returns when everything that could be stored is stored. While Postgres is unavailable it waits. An event that
Postgres refuses is set aside alone, with the reason, so that the history of its run goes on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from uuid import UUID

import asyncpg

from towpath_contracts.runs.raw_events import RawEntry, RawTransitionEvents
from towpath_fabric.clock import wall
from towpath_fabric.crash_points import crash_point
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_log_writer.adapters.history_tables import INVALID_DATA, CursorsMovedError, HistoryStore
from towpath_log_writer.core.changes import HistoryChanges, UnreadableEvent
from towpath_log_writer.core.projection import project
from towpath_log_writer.core.sequence import ContiguousEvents, continue_from, halves

CURSORS_KEPT = 20_000
"""Cursors in memory, a few MB; that of another run is read again."""

WAITS_S = (0.1, 0.5, 1.0, 2.0)
"""Between attempts while Postgres is away or busy; the last one is repeated."""

UNREAD_TYPE = "unread"
"""The type under which an event is set aside whose own type could not be read."""


class HistoryWriter:
    """History as it is written. Batches are written one after another."""

    def __init__(self, tables: HistoryStore, log: Logger) -> None:
        self._tables = tables
        self._log = log
        self._held: OrderedDict[UUID, int] = OrderedDict()
        self._writing = asyncio.Lock()
        self.waiting_for_database = False

    async def held(self, runs: Iterable[UUID]) -> dict[UUID, int]:
        """Return how far the history of each of *runs* goes."""
        wanted = list(runs)
        unknown = [run for run in wanted if run not in self._held]
        if unknown:
            for run, seq in (await self._tables.held(unknown)).items():
                self._keep(run, seq)
        return {run: self._held.get(run, 0) for run in wanted}

    def forget_ahead(self, stored: Mapping[UUID, int]) -> None:
        """Forget cursors beyond the *stored* ones: a crash of Postgres took the commits that moved them."""
        for run, seq in stored.items():
            if self._held.get(run, 0) > seq:
                del self._held[run]

    async def add(self, batches: Iterable[RawTransitionEvents]) -> dict[UUID, str]:
        """Store what continues the histories; return the runs (with project) of which something is missing."""
        entries: dict[UUID, list[RawEntry]] = {}
        projects: dict[UUID, str] = {}
        for batch in batches:
            entries.setdefault(batch.run_id, []).extend(batch.entries)
            projects[batch.run_id] = batch.project
        async with self._writing:
            return await self._until_stored(entries, projects)

    async def skip_event(self, run: UUID, project: str, seq: int, error: Exception) -> None:
        """Set event *seq* aside, the next of *run*, of which nothing can be read; waits while Postgres is away."""
        tries = 0
        entry = RawEntry(seq=seq, at=wall(), event={"type": UNREAD_TYPE})
        async with self._writing:
            while True:
                try:
                    if (await self.held([run]))[run] == seq - 1:
                        segment = ContiguousEvents(run_id=run, project=project, held=seq - 1, entries=(entry,))
                        await self._skip(segment, error)
                except CursorsMovedError:
                    self._held.pop(run, None)
                except (*DATABASE_DOWN, asyncpg.PostgresError) as fault:
                    await self._wait_for_database(fault, tries)
                    tries += 1
                else:
                    self.waiting_for_database = False
                    return  # it is set aside, or somebody else went on meanwhile

    async def _until_stored(self, entries: dict[UUID, list[RawEntry]], projects: dict[UUID, str]) -> dict[UUID, str]:
        tries = 0
        begun = {run for run, found in entries.items() if min((entry.seq for entry in found), default=0) == 1}
        while True:
            try:
                missing = await self._store(entries, projects, begun)
            except CursorsMovedError as error:
                begun -= error.runs  # so they were not new
                for run in error.runs:
                    self._held.pop(run, None)
            except (*DATABASE_DOWN, asyncpg.PostgresError) as error:
                await self._wait_for_database(error, tries)
                tries += 1
            else:
                self.waiting_for_database = False
                return missing

    async def _wait_for_database(self, error: Exception, tries: int) -> None:
        # Commits are not waited for on disk, so after a crash cursors may stand further back than believed.
        self._held.clear()
        self.waiting_for_database = True
        self._log.warning("history waits for postgres", error=type(error).__name__)
        await asyncio.sleep(WAITS_S[min(tries, len(WAITS_S) - 1)])

    async def _store(
        self, entries: dict[UUID, list[RawEntry]], projects: dict[UUID, str], begun: set[UUID]
    ) -> dict[UUID, str]:
        # A log that arrives from its first event on is most likely new; if not, moving its cursor will say so.
        for run in begun:
            if run not in self._held:
                self._keep(run, 0)
        held = await self.held(entries)
        segments: list[ContiguousEvents] = []
        missing: dict[UUID, str] = {}
        for run, found in entries.items():
            segment, gap = continue_from(run, projects[run], held[run], found)
            if segment.entries:
                segments.append(segment)
            if gap:
                missing[run] = projects[run]
        if segments:
            await self._write(segments)
        return missing

    async def _write(self, segments: list[ContiguousEvents]) -> None:
        try:
            crash_point("log_writer.before_write")
            await self._tables.write(segments, project(segments))
            crash_point("log_writer.written")
        except INVALID_DATA as error:
            parts = halves(segments)
            if not parts:
                await self._skip(segments[0], error)
            for part in parts:
                await self._write(part)
            return
        for segment in segments:
            self._keep(segment.run_id, segment.seq)

    async def _skip(self, segment: ContiguousEvents, error: Exception) -> None:
        """Set one event aside; its place is taken, so the history goes on behind it."""
        (entry,) = segment.entries
        kind = str(entry.event.get("type"))
        self._log.error("an event can't be stored", run_id=str(segment.run_id), seq=entry.seq, error=str(error)[:500])
        fault = UnreadableEvent(run_id=segment.run_id, seq=entry.seq, type=kind, error=str(error)[:1_000])
        await self._tables.write([segment], HistoryChanges(unreadable=[fault]))
        self._keep(segment.run_id, segment.seq)

    def _keep(self, run: UUID, seq: int) -> None:
        self._held[run] = seq
        self._held.move_to_end(run)
        while len(self._held) > CURSORS_KEPT:
            self._held.popitem(last=False)
