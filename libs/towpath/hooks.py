"""Hooks of tool workers and agents: the user's own code around what they do.

A hook watches and never decides. One that fails or hangs is contained, counted and reported, and the call goes on. It
gets only what is recorded anyway: no secret that a worker adds to a call, no text of a failure.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from towpath.declared_places import checks_call
from towpath.errors import DeclarationError
from towpath.tools.context import ToolContext
from towpath.user_code import ThreadResult, in_thread
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Usage
from towpath_contracts.tools.calls import ToolFailure

HOOK_TIMEOUT_S = 5.0
"""A hook that takes longer is cut off; it watches, it does not work."""

HOOK_EVENTS = (
    "start",
    "finished",
    "error",
    "pre_model_call",
    "post_model_call",
    "pre_tool_call",
    "post_tool_call",
    "run_finished",
)
"""start and finished: of the process; error: a call or an answer failed; pre and post: around every call of a tool or
model; run_finished: a run has ended that used a tool of this worker, to give back what the tools kept for it.

In a worker a tool call is its execution. In an agent a model call is every request that the platform asks it, and
every model that it asks itself under `request.model_call`; a tool call is what it proposes, and what comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook gets about one event. Fields that do not belong to the event are empty."""

    name: str
    worker: str = ""
    tool: str = ""
    args: JsonObject | None = None
    context: ToolContext | None = None
    status: str = ""
    failure: ToolFailure | None = None
    duration_ms: int = 0
    agent: str = ""
    model: str = ""
    run_id: UUID | None = None
    step: int = 0
    kind: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A function and the name of the event it is called at."""

    event: str
    function: Callable[[HookEvent], Any]

    def __call__(self, event: HookEvent) -> Any:
        """Call the function itself."""
        return self.function(event)


@checks_call
def hook(event: str) -> Callable[[Callable[[HookEvent], Any]], Hook]:
    """Declare a hook, beside the tools of a module: `@hook("post_tool_call")` over a function of one HookEvent."""
    if event not in HOOK_EVENTS:
        msg = f"there is no hook event {event!r}; use one of {', '.join(HOOK_EVENTS)}"
        raise DeclarationError(msg)
    return lambda function: Hook(event, function)


class Hooks:
    """The hooks of one process, called in the order of their declaration; `failed` is called with each that failed."""

    def __init__(self, hooks: Iterable[Hook], failed: Callable[[Hook, BaseException], None]) -> None:
        self._by_event: dict[str, list[Hook]] = {}
        for one in hooks:
            self._by_event.setdefault(one.event, []).append(one)
        self._failed = failed
        self._cut_off: dict[Hook, threading.Thread] = {}

    def has(self, name: str) -> bool:
        """Return whether a hook listens to the event *name*; where none does, callers need not build the event."""
        return name in self._by_event

    async def notify(self, event: HookEvent) -> None:
        """Call the hooks of *event* one after another, in the order they were declared."""
        for one in self._by_event.get(event.name, ()):
            error = await self._call(one, event)
            if error is not None:
                self._failed(one, error)

    async def _call(self, one: Hook, event: HookEvent) -> BaseException | None:
        """Return what went wrong with the hook; raises CancelledError alone, where the caller itself is cancelled."""
        earlier = self._cut_off.get(one)
        if earlier is not None and earlier.is_alive():  # else every further call would leave a thread behind
            return TimeoutError("an earlier call of this hook still runs")
        try:
            async with asyncio.timeout(HOOK_TIMEOUT_S):
                if inspect.iscoroutinefunction(one.function):
                    await one.function(event)
                    return None
                succeeded, result = await asyncio.wrap_future(self._in_thread(one, event))
                return None if succeeded else result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the process stops, or the call is cut off; a hook that cancels itself has failed
            return error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what a hook raises must not reach the call
            return error

    def _in_thread(self, one: Hook, event: HookEvent) -> ThreadResult:
        """Run a plain function; one that is cut off is remembered for as long as it runs."""
        thread, found = in_thread(f"hook {one.event}", one.function, event)

        def remember_cut_off(ended: ThreadResult) -> None:
            if ended.cancelled():
                self._cut_off[one] = thread

        found.add_done_callback(remember_cut_off)
        return found
