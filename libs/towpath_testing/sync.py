"""The harness without asyncio: the same words, each of which returns when it is done.

The platform takes steps only while a word is being waited for, in the thread that says it; between two it stands still.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Never, Protocol, Unpack, overload

from towpath.tasks.outputs import Output
from towpath.tasks.task import TaskKeywords
from towpath_contracts.base import JsonObject
from towpath_testing.clock import HarnessClock
from towpath_testing.runs import HarnessGate, HarnessRun, RunResult, no_result_yet

Wait = Callable[[Coroutine[Any, Any, Any]], Any]

IN_ASYNC_TEST = (
    "this harness is for tests without asyncio, and an event loop runs here: in an async test open one with "
    "async with harness(…) as h, and await what it does"
)


def waiting_in(runner: asyncio.Runner) -> Wait:
    """Return what waits in *runner* for a coroutine; raises RuntimeError within a coroutine, where it can't wait."""

    def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
        if _is_within_loop():
            coroutine.close()  # else Python warns as well that nobody awaited it
            raise RuntimeError(IN_ASYNC_TEST)
        return runner.run(coroutine)

    return wait


def _is_within_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class AsyncHarness(Protocol):
    """What `SyncHarness` stands for."""

    clock: HarnessClock

    async def run(self, message: str = "", **options: Unpack[TaskKeywords]) -> HarnessRun: ...

    async def next_gate(self, timeout: str | float = "10s") -> HarnessGate: ...

    async def open_gates(self) -> list[HarnessGate]: ...


class SyncClock:
    """The clock of the harness."""

    def __init__(self, clock: HarnessClock, wait: Wait) -> None:
        self._clock, self._wait = clock, wait

    def advance(self, duration: str | float) -> None:
        """Let *duration* be over."""
        self._wait(self._clock.advance(duration))


class SyncGate:
    """A gate that waits; its fields are those of `HarnessGate`."""

    def __init__(self, gate: HarnessGate, wait: Wait) -> None:
        self._gate, self._wait = gate, wait

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def approve(self, reason: str = "", *, edit: JsonObject | None = None, by: str = "reviewer") -> None:
        """Let it happen; with *edit* as it is but for these arguments."""
        self._wait(self._gate.approve(reason, edit=edit, by=by))

    def deny(self, reason: str, *, by: str = "reviewer") -> None:
        """Refuse it; the model sees *reason*."""
        self._wait(self._gate.deny(reason, by=by))

    def resolve(self, verdict: str, reason: str = "", *, by: str = "reviewer") -> None:
        """Settle a gate that takes another verdict."""
        self._wait(self._gate.resolve(verdict, reason, by=by))


class SyncRun:
    """A run that was begun."""

    def __init__(self, run: HarnessRun, wait: Wait) -> None:
        self.run_id = run.run_id
        self._run, self._wait = run, wait

    if not TYPE_CHECKING:  # a type checker tells of a name that there is not

        def __getattr__(self, name: str) -> Never:
            raise no_result_yet(name, "")

    @overload
    def result(self, timeout: str | float = "10s", *, as_: type[Output]) -> Output: ...

    @overload
    def result(self, timeout: str | float = "10s") -> RunResult: ...

    def result(self, timeout: str | float = "10s", *, as_: type[Output] | None = None) -> RunResult | Output:
        """Return what it came to, once it has ended; raises RunTimeoutError that says what it waits for.

        With *as_* its answer alone is returned, as `RunResult.as_` does.
        """
        found: RunResult = self._wait(self._run.result(timeout))
        return found if as_ is None else found.as_(as_)

    def cancel(self, reason: str = "") -> None:
        """Ask it to stop."""
        self._wait(self._run.cancel(reason))


class SyncHarness:
    """A platform in memory, which `with harness(...) as h` opens."""

    def __init__(self, harness: AsyncHarness, runner: asyncio.Runner) -> None:
        self._harness, self._wait = harness, waiting_in(runner)
        self.clock = SyncClock(harness.clock, self._wait)

    def run(self, message: str = "", **options: Unpack[TaskKeywords]) -> SyncRun:
        """Begin a run."""
        return SyncRun(self._wait(self._harness.run(message, **options)), self._wait)

    def next_gate(self, timeout: str | float = "10s") -> SyncGate:
        """Return the next gate that opens, or has opened and was not returned yet.

        Raises NoGateError, a TimeoutError: at once where every run has ended, else after *timeout*.
        """
        return SyncGate(self._wait(self._harness.next_gate(timeout)), self._wait)

    def open_gates(self) -> list[SyncGate]:
        """Return every gate that waits, the oldest first."""
        return [SyncGate(gate, self._wait) for gate in self._wait(self._harness.open_gates())]
