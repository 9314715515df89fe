"""States of runs kept in memory, and requests that wait for a run to change.

The cache is a guess: a transition is committed only where its run is still at the seq that it was made from.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
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
    """Lets requests wait until a run moves; a hint only, whoever was woken looks again."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[_Waiter]] = {}

    def run_ids(self) -> Iterable[UUID]:
        """Return the runs that requests wait for."""
        return self._waiting.keys()

    def wake(self, run_id: UUID) -> None:
        """Wake everybody who waits for this run."""
        for waiter in self._waiting.pop(run_id, ()):
            waiter.wake()

    def wake_if_over(self, run_id: UUID, found: Any) -> None:
        """Wake whoever waits no longer for this run, now that *found* is what is stored of it."""
        for waiter in self._waiting.get(run_id, ()):
            if waiter.is_over(found):
                waiter.wake()

    async def wait(self, run_id: UUID, timeout_s: float, is_over: Callable[[Any], bool]) -> None:
        """Wait until the run moves here, or *is_over* is true of what is found of it, at most *timeout_s*."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), is_over)
        waiters = self._waiting.setdefault(run_id, set())
        waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.woken
        except TimeoutError:
            return
        finally:
            waiters.discard(waiter)
            if not waiters and self._waiting.get(run_id) is waiters:
                del self._waiting[run_id]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    woken: "asyncio.Future[None]"
    is_over: Callable[[Any], bool]

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
