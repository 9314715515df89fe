"""Finds what the stream lost, and reads it from the run log (design §4: readers never trust the stream alone).

Law: every run that the orchestrator moved is in history within seconds, or is asked for again at every sweep. The time
until which all is known to be there is stored, and moves only when it is true.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from towpath_contracts.problems import ProblemError
from towpath_contracts.rpc import EVENTS_SINCE, SWEEP_RUNS
from towpath_contracts.views import EventsSince, RunSeq, SweepRuns, SweptRuns
from towpath_fabric.bus import Bus
from towpath_fabric.db import DATABASE_DOWN
from towpath_fabric.logs import Logger
from towpath_log_writer.adapters.tables import HistoryTables
from towpath_log_writer.core.sequence import EntryPage, EventBatch
from towpath_log_writer.writing import Writer

SWEEP_ROWS = 2_000
"""Runs a sweep asks for at once; their answer stays well below the broker's 1 MiB."""

OVERLAP = timedelta(seconds=10)
"""A transaction that began earlier may commit later: sweeps look back as long as a commit may take."""

PAGE_SIZES = (200, 50, 10, 1)
"""Events asked for at once, largest first: a page of large results may not fit into one answer."""

REPAIRS_AT_ONCE = 4
"""The run log is read for the runs' own sake first."""


class Repairer:
    """Reads what is missing. `ask_for` names a run with a gap; sweeps find those of which nothing arrived."""

    def __init__(
        self, bus: Bus, tables: HistoryTables, writer: Writer, log: Logger, *, behind: Callable[[], bool]
    ) -> None:
        """*behind* says whether the stream has much to deliver yet: then what is missing mostly comes by itself."""
        self._bus = bus
        self._tables = tables
        self._writer = writer
        self._log = log
        self._behind = behind
        self._wanted: dict[UUID, str] = {}
        self._asked = asyncio.Event()
        self._suspects: dict[UUID, int] = {}

    def ask_for(self, runs: dict[UUID, str]) -> None:
        """Have the logs of *runs* (with project) read."""
        if runs:
            self._wanted.update(runs)
            self._asked.set()

    async def repair(self) -> None:
        """Read the logs of wanted runs, for ever."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._wanted:
                runs = [self._wanted.popitem() for _ in range(min(REPAIRS_AT_ONCE, len(self._wanted)))]
                await asyncio.gather(*(self._read(run, project) for run, project in runs))

    async def sweep(self, every_s: float) -> None:
        """Compare with the orchestrator every *every_s* seconds, for ever."""
        while True:
            try:
                more = await self._sweep_once()
            except ProblemError as error:
                self._log.warning("no sweep: the orchestrator does not answer", problem=error.problem.code)
                more = False
            except DATABASE_DOWN as error:
                self._log.warning("no sweep: postgres is away", error=type(error).__name__)
                more = False
            if not more:
                await asyncio.sleep(every_s)

    async def _sweep_once(self) -> bool:
        """Look at runs that moved; True when there are more to look at now."""
        since = await self._tables.swept_until()
        swept: SweptRuns = await self._bus.ask(SWEEP_RUNS, SweepRuns(since=since, limit=SWEEP_ROWS))
        held = await self._writer.held(run.run_id for run in swept.runs)
        late = [run for run in swept.runs if held[run.run_id] < run.seq]
        if not self._behind():
            self._repair_what_did_not_move(late, held)
        if late:
            await self._tables.set_swept(min(run.updated_at for run in late) - OVERLAP)
            return False
        full = len(swept.runs) == SWEEP_ROWS and swept.until > since
        await self._tables.set_swept(swept.until if full else swept.until - OVERLAP)
        return full

    def _repair_what_did_not_move(self, late: list[RunSeq], held: dict[UUID, int]) -> None:
        """Ask for runs that were late at the last sweep and have not moved since: nothing of them is on its way."""
        stuck = {run.run_id: run.project for run in late if self._suspects.get(run.run_id) == held[run.run_id]}
        self._suspects = {run.run_id: held[run.run_id] for run in late}
        self.ask_for(stuck)

    async def _read(self, run: UUID, project: str) -> None:
        size = 0
        while True:
            after = (await self._held(run)) or 0
            try:
                page = await self._bus.ask_subject(
                    EVENTS_SINCE.subject,
                    EventsSince(run_id=run, after=after, limit=PAGE_SIZES[size]),
                    EntryPage,
                )
            except ProblemError as error:
                if error.problem.code == "unavailable" and size + 1 < len(PAGE_SIZES):
                    size += 1
                    continue
                self._log.warning("a log can't be read", run_id=str(run), problem=error.problem.code)
                return  # the next sweep finds it again
            if not page.entries:
                return
            await self._writer.add([EventBatch(run_id=run, project=project, entries=page.entries)])
            if page.entries[-1].seq >= page.seq:
                return

    async def _held(self, run: UUID) -> int:
        while True:
            try:
                return (await self._writer.held([run]))[run]
            except DATABASE_DOWN:
                await asyncio.sleep(1)
