"""Keeps child processes running: starts them, restarts what ends, stops all in order.

A child that ends without being asked is restarted for ever, with a growing pause; only the first start may fail. A held
child stays down until it is released.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from subprocess import TimeoutExpired

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.processes.child_process import (
    ChildProcess,
    ManagedProcess,
    log_end,
    log_tail,
    said_cause,
    wait_exit,
)
from towpath_embedded.start_progress import Working, untold
from towpath_fabric.clock import monotonic

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
MOST_LEAVING = 3  # former processes of one name that still do their work: each takes memory as long as its longest call
STEADY_AFTER_S = 10.0  # after this long a child counts as well again, and its next pause is the first
BUSY = "unavailable"
"""The code of a process that can't be replaced yet."""

READY_POLL_S = 0.1
KILL_TIMEOUT_S = 10.0  # a killed process may hang in the disk for a while

Notice = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class SupervisedProcess:
    """A child and what happened to it."""

    unit: ManagedProcess
    restarts: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """What is known of one child; `pid` is None while it is down."""

    pid: int | None
    restarts: int


class Supervisor:
    """Watches children by name. *notice* gets one line per event for people; *changed* follows every restart."""

    def __init__(
        self,
        notice: Notice,
        changed: Callable[[], None],
        *,
        longest_pause_s: float = LONGEST_PAUSE_S,
        working: Working = untold,
    ) -> None:
        self._notice = notice
        self._working = working
        self._longest_pause_s = longest_pause_s
        self._changed = changed
        self._watched: dict[str, SupervisedProcess] = {}
        self._leaving: dict[asyncio.Task[None], ManagedProcess] = {}

    @property
    def processes(self) -> dict[str, ProcessInfo]:
        """Every child by name."""
        return {
            name: ProcessInfo(pid=_pid(watched.unit), restarts=watched.restarts)
            for name, watched in self._watched.items()
        }

    async def start(self, units: Iterable[ManagedProcess], tell: Notice | None = None) -> None:
        """Start *units* together and watch each from its readiness on; raise ProblemError when one can't be started.

        *tell* is told of their readiness instead of whoever is told everything.
        """
        starts = [asyncio.create_task(self._start(unit, tell or self._notice)) for unit in units]
        try:
            await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def wait_ready(self, *, timeout_s: float) -> None:
        """Wait until every child that is not held is ready; raise TimeoutError naming those that are not."""
        late: list[str] = []
        try:
            async with asyncio.timeout(timeout_s):
                # Polled, because a child does not report when it becomes ready.
                while late := [name for name, watched in self._watched.items() if not await _is_ready_or_held(watched)]:  # noqa: ASYNC110
                    await asyncio.sleep(READY_POLL_S)
        except TimeoutError:
            raise TimeoutError(f"not ready after {timeout_s} s: {', '.join(late)}") from None

    async def replace(self, unit: ManagedProcess, leave: signal.Signals) -> None:
        """Start *unit* in the place of the child of its name; raise ProblemError where it can't be: that one goes on.

        That one is then asked by the signal *leave* to end once it has done its work, for which it has any time.
        """
        watched = self._watched[unit.name]
        if (count := sum(one.name == unit.name for one in self._leaving.values())) >= MOST_LEAVING:
            detail = f"{count} former processes of {unit.name} still finish their calls"
            raise ProblemError(problem(BUSY, detail, remedy="It is tried again; wait until one has ended."))
        try:
            await unit.start()
            if watched.task is not None:
                watched.task.cancel()
                await asyncio.gather(watched.task, return_exceptions=True)
        except (asyncio.CancelledError, OSError):
            await unit.stop()
            raise
        former, watched.unit = watched.unit, unit
        watched.task = asyncio.create_task(self._watch(watched), name=f"watch {unit.name}")
        if former.process is not None:
            former.process.send_signal(leave)
            leaving = asyncio.create_task(_ended(former.process), name=f"wait for the former {unit.name}")
            self._leaving[leaving] = former
            leaving.add_done_callback(lambda done: self._leaving.pop(done, None))

    def kill(self, name: str) -> None:
        """Kill the child *name* as a crash would; it is started again unless it is held. Raises KeyError."""
        process = self._watched[name].unit.process
        if process is not None:
            process.kill()
            with contextlib.suppress(TimeoutExpired):
                process.wait(KILL_TIMEOUT_S)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send *number* to the child *name*, SIGSTOP for example. Raises KeyError."""
        process = self._watched[name].unit.process
        if process is not None:
            process.send_signal(number)

    async def hold(self, name: str, *, gracefully: bool = False) -> None:
        """End the child *name*, by a kill unless *gracefully*, and keep it down. Raises KeyError."""
        watched = self._watched[name]
        watched.released.clear()
        if gracefully:
            await watched.unit.stop()
        else:
            self.kill(name)
        self._changed()

    def release(self, name: str) -> None:
        """Start the held child *name* again, without waiting for its readiness. Raises KeyError."""
        self._watched[name].released.set()

    async def stop(self, order: Sequence[Sequence[str]]) -> None:
        """Stop the children of *order*, group after group; then whatever is left."""
        for watched in self._watched.values():
            if watched.task is not None:
                watched.task.cancel()
        tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
        former = [*self._leaving.values()]
        for leaving in self._leaving:
            leaving.cancel()
        await asyncio.gather(*tasks, *self._leaving, return_exceptions=True)
        for group in (*order, tuple(self._watched)):
            units = [self._watched.pop(name).unit for name in group if name in self._watched]
            units += [unit for unit in former if unit.name in group]
            await asyncio.gather(*(unit.stop() for unit in units))

    async def _start(self, unit: ManagedProcess, tell: Notice) -> None:
        watched = self._watched[unit.name] = SupervisedProcess(unit=unit)
        watched.released.set()
        began = monotonic()
        with self._working("Starting", unit.name):
            await unit.start()
        tell(f"{unit.name} is ready after {monotonic() - began:.1f} s")
        watched.task = asyncio.create_task(self._watch(watched), name=f"watch {unit.name}")

    async def _watch(self, watched: SupervisedProcess) -> None:
        pause, told, since = FIRST_PAUSE_S, "", None
        while True:
            began = monotonic()
            if watched.unit.process is not None:
                await wait_exit(watched.unit.process)
            if watched.released.is_set():
                line = f"{watched.unit.name} {_how_it_ended(watched.unit, since)}; it is started again"
                if line != told:  # one that can't start says the same every few seconds
                    self._notice(line)
                told = line
                pause = FIRST_PAUSE_S if monotonic() - began > STEADY_AFTER_S else pause
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._longest_pause_s)
            await watched.released.wait()
            since = log_end(watched.unit.log)
            if await self._restart(watched):
                told, since = "", None

    async def _restart(self, watched: SupervisedProcess) -> bool:
        """Start the process again; returns whether it became ready."""
        watched.restarts += 1
        ended = monotonic()
        try:
            watched.unit.spawn()
        except (OSError, ProblemError) as error:  # a full disk, a removed file: it may come back
            self._notice(f"{watched.unit.name} can't be started: {error}")
            return False
        self._changed()
        while watched.unit.process is not None and watched.unit.process.poll() is None:
            if await watched.unit.ready():
                self._notice(f"{watched.unit.name} is back after {monotonic() - ended:.1f} s")
                return True
            await asyncio.sleep(READY_POLL_S)
        return False


async def _ended(process: ChildProcess) -> None:
    await wait_exit(process)


async def _is_ready_or_held(watched: SupervisedProcess) -> bool:
    if not watched.released.is_set():
        return True
    return _pid(watched.unit) is not None and await watched.unit.ready()


def _pid(unit: ManagedProcess) -> int | None:
    return unit.process.pid if unit.process is not None and unit.process.poll() is None else None


def _how_it_ended(unit: ManagedProcess, since: int | None) -> str:
    """Return how it ended; with the cause that it gave *since* it was started, where it did not become ready."""
    status = unit.process.returncode if unit.process is not None else None
    if status is not None and status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    said = "" if since is None else said_cause(log_tail(unit.log, since=since))
    return f"ended with status {status}{f': {said}' if said else ''}"
