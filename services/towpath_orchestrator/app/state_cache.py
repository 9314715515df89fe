"""States of runs kept in memory, and requests that wait for a run to change.

The cache is a guess: a transition is committed only where its run is still at the seq that it was made from.
"""

import asyncio
from collections import OrderedDict
from uuid import UUID

from towpath_engine.state.run import RunState


class StateCache:
    """The most recently used states, at most *most* of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[UUID, RunState] = OrderedDict()

    def get(self, run_id: UUID) -> RunState | None:
        """Return the state as last seen here."""
        return self._states.get(run_id)

    def caller_of(self, run_id: UUID | None) -> str:
        """Return whose run that is; an empty string where it is not remembered."""
        state = None if run_id is None else self._states.get(run_id)
        return "" if state is None else state.created.caller

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


class RunWaiters:
    """Lets requests wait until a run moves; a hint only, whoever waits also looks from time to time."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[asyncio.Event]] = {}

    def wake(self, run_id: UUID) -> None:
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
