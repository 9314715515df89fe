"""An asyncio loop in virtual time that runs several processes, one step at a time, in an order drawn from a seed.

Inside a process callbacks keep the order that asyncio promises; between processes every order is possible. Time
moves only when no task can run, so a simulated minute costs as much as what happens in it. A process that is
killed never runs again, whatever it was waiting for; one that is stopped finds everything waiting when it goes on.
"""

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

PRUNE_AT = 512
"""Tasks remembered per process before the finished ones are dropped."""


class SimProcess:
    """What lives and dies together: callbacks that wait, tasks, and whether it runs at all."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.frozen = False
        self.dead = False
        self.thaws = 0

    def __repr__(self) -> str:
        return self.name


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """The loop. `outside` is the process of the world itself, which is never killed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._moment = 0.0
        self._timers: list[tuple[float, int, SimProcess, asyncio.Handle]] = []
        self._count = 0
        self._runnable: list[SimProcess] = []
        self.outside = SimProcess("outside")
        self.current = self.outside
        self.steps = 0
        self.complaints: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.complaints.append(context))

    def time(self) -> float:
        """Return seconds since the world began."""
        return self._moment

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = events.Handle(callback, args, self, context)
        self._enqueue(self.current, handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, self.current, timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._moment + delay, callback, *args, context=context)

    def call_in(self, process: SimProcess, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call back in *process* after *delay*; it never happens if the process is dead by then."""
        handle = events.Handle(callback, args, self, None)
        self._count += 1
        heapq.heappush(self._timers, (self._moment + delay, self._count, process, handle))

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._own(self.current, task)
        return task

    def spawn(self, process: SimProcess, coro: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Start a task in *process*."""
        before, self.current = self.current, process
        try:
            return self.create_task(coro, name=name)
        finally:
            self.current = before

    def within(self, process: SimProcess, build: Callable[[], Any]) -> Any:
        """Call *build* as if *process* did it."""
        before, self.current = self.current, process
        try:
            return build()
        finally:
            self.current = before

    def freeze(self, process: SimProcess) -> None:
        """SIGSTOP."""
        process.frozen = True
        if process.ready:
            self._runnable.remove(process)

    def thaw(self, process: SimProcess) -> None:
        """SIGCONT."""
        if process.frozen and not process.dead:
            process.frozen = False
            process.thaws += 1
            if process.ready:
                self._runnable.append(process)

    def kill(self, process: SimProcess) -> None:
        """SIGKILL: from here on it does nothing; its memory goes away."""
        if process.ready and not process.frozen:
            self._runnable.remove(process)
        process.dead = True
        process.ready.clear()
        before, self.current = self.current, process
        for task in process.tasks:
            if not task.done():
                task._log_destroy_pending = False
                task.get_coro().close()
        process.ready.clear()
        process.tasks.clear()
        self.current = before

    def run_world(self, life: Coroutine[Any, Any, Any], most_steps: int) -> None:
        """Run until *life*, a task outside, has ended; raises RuntimeError when that takes more than *most_steps*."""
        self._check_closed()
        events._set_running_loop(self)
        try:
            task = self.spawn(self.outside, life, "world")
            while not task.done():
                self._turn()
                self.steps += 1
                if self.steps > most_steps:
                    msg = f"nothing ends: {self.steps} steps, {self._moment:.0f} s"
                    raise RuntimeError(msg)
            task.result()
        finally:
            events._set_running_loop(None)

    def end(self) -> None:
        """Close the loop and everything that is left in it."""
        events._set_running_loop(self)
        processes = {id(process): process for _, _, process, _ in self._timers}
        for process in (*processes.values(), *self._runnable, self.outside):
            if not process.dead:
                self.kill(process)
        self._timers.clear()
        events._set_running_loop(None)
        self.close()

    def _own(self, process: SimProcess, task: "asyncio.Task[Any]") -> None:
        process.tasks.append(task)
        if len(process.tasks) >= PRUNE_AT:
            process.tasks[:] = [one for one in process.tasks if not one.done()]

    def _enqueue(self, process: SimProcess, handle: asyncio.Handle) -> None:
        if process.dead:
            return
        if not process.ready and not process.frozen:
            self._runnable.append(process)
        process.ready.append(handle)

    def _turn(self) -> None:
        runnable = self._runnable
        if not runnable:
            self._pass_time()
            return
        place = int(self._chance.random() * len(runnable)) if len(runnable) > 1 else 0
        process = runnable[place]
        handle = process.ready.popleft()
        if not process.ready:
            del runnable[place]
        if not handle._cancelled:
            self.current = process
            handle._run()
            self.current = self.outside

    def _pass_time(self) -> None:
        """Move to the next timer that still means something, and make everything due at that moment ready."""
        timers = self._timers
        while timers:
            when, _, process, handle = heapq.heappop(timers)
            if process.dead or handle._cancelled:
                continue
            self._moment = max(self._moment, when)
            self._enqueue(process, handle)
            while timers and timers[0][0] <= self._moment:
                _, _, process, handle = heapq.heappop(timers)
                if not handle._cancelled:
                    self._enqueue(process, handle)
            return
        msg = "deadlock: nothing is ready and nothing is due"
        raise RuntimeError(msg)
