"""States kept in memory, and who waits for a run to move.

The cache is a guess. Every batch compares its seq with the stored one before it is believed.
"""

import asyncio
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic

CLOCK_CARRY_S = 1.0
"""How long Postgres's time is carried forward: two clocks drift less than 0.1 ms in it."""

CLOCK_DOUBT = timedelta(milliseconds=50)
"""How far the carried time may be ahead of Postgres's; an answer takes some milliseconds, the first one longer."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StateCache:
    """The most recently used states, at most *most* of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[UUID, RunState] = OrderedDict()

    def get(self, run_id: UUID) -> RunState | None:
        """Return the state as last seen here."""
        return self._states.get(run_id)

    def put(self, state: RunState) -> None:
        """Remember a state; an ended run with nothing pending is forgotten."""
        if state.is_final and not state.pending:
            self._states.pop(state.run_id, None)
            return
        self._states[state.run_id] = state
        self._states.move_to_end(state.run_id)
        while len(self._states) > self._most:
            self._states.popitem(last=False)

    def states(self) -> list[RunState]:
        """Return every state that is remembered."""
        return list(self._states.values())

    def drop(self, run_id: UUID) -> None:
        """Forget a state that proved wrong."""
        self._states.pop(run_id, None)


class DatabaseClock:
    """Postgres's clock between two looks at it, carried forward on the monotonic clock for at most a second.

    It is never behind Postgres, or the end of a run could be dated before what it waited for. An answer bounds
    how far Postgres is ahead: it says what the time was at some moment between question and answer. All of them hold,
    until one contradicts the others: somebody has set a clock. Where none was quick nothing is carried.
    """

    def __init__(self) -> None:
        self._bounds: tuple[timedelta, timedelta] | None = None
        self._seen = 0.0

    def set(self, now: datetime, asked: float) -> None:
        """Remember what Postgres said just now, to a question of the moment *asked* (`monotonic()`)."""
        self._seen = monotonic()
        least, most = said = _ahead(now, self._seen), _ahead(now, asked)
        if self._bounds is not None:
            least, most = max(least, self._bounds[0]), min(most, self._bounds[1])
        self._bounds = (least, most) if least <= most else said

    def read(self) -> datetime | None:
        """Return Postgres's time, or None when it must be asked again."""
        at = monotonic()
        if self._bounds is None or at - self._seen > CLOCK_CARRY_S:
            return None
        least, most = self._bounds
        return _EPOCH + timedelta(seconds=at) + most if most - least <= CLOCK_DOUBT else None


def _ahead(now: datetime, at: float) -> timedelta:
    """Return how far *now* is ahead of the monotonic clock at the moment *at*."""
    return now - _EPOCH - timedelta(seconds=at)


class Waiters:
    """Lets requests wait until a run moves; a hint only, whoever waits also looks from time to time."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[asyncio.Event]] = {}

    def moved(self, run_id: UUID) -> None:
        """Wake everybody who waits for this run."""
        for event in self._waiting.pop(run_id, ()):
            event.set()

    async def wait(self, run_id: UUID, timeout_s: float) -> None:
        """Wait until the run moves here, at most *timeout_s*."""
        event = asyncio.Event()
        self._waiting.setdefault(run_id, set()).add(event)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            left = self._waiting.get(run_id, set())
            left.discard(event)
            if not left:
                self._waiting.pop(run_id, None)
