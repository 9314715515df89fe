"""Reads the states of the runs of a batch, and Postgres's time.

While no other replica moves our runs, cached states are used without a look at the tables: the commit refuses what is
stale, and facts that were ignored on a cached state are checked before they are acknowledged.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import RunStore, read_times
from towpath_orchestrator.app.commit.budget_accounting import BudgetAccounting
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.metrics import OrchestratorMetrics

CAUTIOUS_BATCHES = 64
"""After another replica moved one of our runs, this many batches read the tables before they use cached states."""

CLOCK_CARRY_S = 1.0
"""How long Postgres's time is carried forward: two clocks drift less than 0.1 ms in it."""

CLOCK_DOUBT = timedelta(milliseconds=50)
"""How far the carried time may be ahead of Postgres's; an answer takes some milliseconds, the first one longer."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LoadedRuns(NamedTuple):
    """States as they were read, and Postgres's time; `cached` says that the tables were not looked at."""

    states: dict[UUID, RunState]
    now: datetime
    cached: bool


class BatchRunReader:
    """Reads runs for the commit loop. One per process."""

    def __init__(
        self,
        lane: PinnedDatabaseConnection,
        store: RunStore,
        cache: StateCache,
        accounting: BudgetAccounting,
        metrics: OrchestratorMetrics,
        log: Logger,
    ) -> None:
        self._lane = lane
        self._store = store
        self._cache = cache
        self._accounting = accounting
        self._metrics = metrics
        self._log = log
        self._clock = DatabaseClock()
        self._cautious = 0
        self._unreadable: dict[UUID, str] = {}

    async def read(self, run_ids: list[UUID]) -> LoadedRuns:
        """Return the states of those runs that exist and can be read, and Postgres's time, at most a second old."""
        cached = {run_id: state for run_id in run_ids if (state := self._cache.get(run_id)) is not None}
        now = self._clock.read()
        if now is not None and self._cautious == 0 and len(cached) == len(run_ids):
            return LoadedRuns(cached, now, cached=True)
        self._cautious = max(0, self._cautious - 1)
        asked = monotonic()
        answered, limits_version, seqs = await read_times(self._lane, run_ids)
        now = self._clock.synchronize(answered, asked)
        await self._accounting.use_version(limits_version)
        return LoadedRuns(await self._states(run_ids, seqs), now, cached=False)

    async def find_stale(self, runs: LoadedRuns, idle: list[UUID]) -> set[UUID]:
        """Return those *idle* runs whose facts were ignored on a cached state that was not the newest."""
        if not runs.cached or not idle:
            return set()
        _now, _limits_version, seqs = await read_times(self._lane, idle)
        stale = {run_id for run_id in idle if seqs.get(run_id) != runs.states[run_id].seq}
        for run_id in stale:
            self.mark_stale(run_id)
        return stale

    def mark_stale(self, run_id: UUID) -> None:
        """Forget a cached state: another replica has moved the run."""
        self._metrics.reloads.inc()
        self._cautious = CAUTIOUS_BATCHES
        self._cache.drop(run_id)

    def why_missing(self, run_id: UUID) -> str:
        """Return why the last read did not return a run."""
        return self._unreadable.pop(run_id, "there is no such run")

    async def _states(self, run_ids: list[UUID], seqs: dict[UUID, int]) -> dict[UUID, RunState]:
        found: dict[UUID, RunState] = {}
        behind: list[RunState] = []
        for run_id in run_ids:
            stored = seqs.get(run_id)
            if stored is None:
                continue
            cached = self._cache.get(run_id)
            if cached is not None and cached.seq == stored:
                found[run_id] = cached
                continue
            if cached is None:
                self._metrics.loads.inc()
            else:
                self.mark_stale(run_id)
            # A state that was kept is one of its log: what another replica added to it is all that is missing.
            older = cached if cached is not None and cached.seq < stored else await self._load_snapshot(run_id)
            if older is not None:
                behind.append(older)
        if behind:
            for run_id, state in (await self._catch_up(behind)).items():
                self._cache.put(state)
                found[run_id] = state
        return found

    async def _catch_up(self, behind: list[RunState]) -> dict[UUID, RunState]:
        """Fold what was stored since; where that fails each run is read alone, and the one at fault is parked."""
        try:
            return await self._store.catch_up(behind)
        except DATABASE_DOWN:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one log must not stop the loop
            if len(behind) == 1:
                await self._park(behind[0].run_id, error)
                return {}
        found: dict[UUID, RunState] = {}
        for state in behind:
            found |= await self._catch_up([state])
        return found

    async def _load_snapshot(self, run_id: UUID) -> RunState | None:
        """Load where a run's log is folded from; a run for which that can't be done is parked."""
        try:
            return await self._store.load_snapshot(run_id)
        except DATABASE_DOWN:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one log must not stop the loop
            await self._park(run_id, error)
            return None

    async def _park(self, run_id: UUID, error: Exception) -> None:
        """Keep a run out of the way whose log can't be folded; the others go on."""
        self._log.error("a run's log can't be read, it is parked", run_id=str(run_id), exc_info=error)
        self._unreadable[run_id] = f"the run's log can't be read: {type(error).__name__}"
        await self._store.park(run_id, "log_unreadable")


class DatabaseClock:
    """Postgres's clock between two looks at it, carried forward on the monotonic clock for at most a second.

    It is never behind Postgres, or the end of a run could be dated before what it waited for. An answer bounds
    how far Postgres is ahead: it was written at some moment between question and answer. The bounds of all answers are
    combined, until one contradicts the others: somebody has set a clock. Where none was quick nothing is carried.
    Nor does it go back by as little as it may be ahead, or a run's log would.
    """

    def __init__(self) -> None:
        self._bounds: tuple[timedelta, timedelta] | None = None
        self._seen = 0.0
        self._latest = _EPOCH

    def synchronize(self, now: datetime, asked: float) -> datetime:
        """Return the time by Postgres's answer *now* to a question of the moment *asked* (`monotonic()`)."""
        self._seen = monotonic()
        least, most = answer = _ahead(now, self._seen), _ahead(now, asked)
        if self._bounds is not None:
            least, most = max(least, self._bounds[0]), min(most, self._bounds[1])
        self._bounds = (least, most) if least <= most else answer
        return self._not_back(now)

    def read(self) -> datetime | None:
        """Return Postgres's time, or None when it must be asked again."""
        at = monotonic()
        if self._bounds is None or at - self._seen > CLOCK_CARRY_S:
            return None
        least, most = self._bounds
        return self._not_back(_EPOCH + timedelta(seconds=at) + most) if most - least <= CLOCK_DOUBT else None

    def _not_back(self, now: datetime) -> datetime:
        if not now < self._latest <= now + CLOCK_DOUBT:
            self._latest = now
        return self._latest


def _ahead(now: datetime, at: float) -> timedelta:
    """Return how far *now* is ahead of the monotonic clock at the moment *at*."""
    return now - _EPOCH - timedelta(seconds=at)
