"""Windows: a bounded number of requests is on its way to one destination, and the others are held here.

Nothing of this is stored. A request that is held is pending like any other: when this process ends, its run asks again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from uuid import UUID

from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.turns.fair_queue import FairQueue
from towpath_orchestrator.core.dispatch_choice import (
    DispatchDestination,
    DispatchWindow,
    LateDispatch,
    WaitingRequest,
    destination_of,
    destination_of_request,
    occupying_requests,
    owner_of,
    resend_interval_s,
)
from towpath_orchestrator.core.window_policy import FLOOR, WindowWidth
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings

LOOK_S = 0.05
"""How often the broker is asked what waits there, while something waits here."""

STALL_S = 1.0
"""Where for so long nothing came back, and nothing waits at the broker, more may be sent."""

SENT_KEPT = 20_000
"""Requests known to be on their way; of more, the oldest are forgotten, and a repeat of one may wait again."""

QUICK = 16
"""The first width where answers are likely to take milliseconds: tools and scripts."""

DESTINATIONS_KEPT = 2_048

FORGET_S = 600.0
"""A window from which something is on its way is kept for so long: another replica may get the news of its end."""

Backlog = Callable[[str, str], Awaitable[int | None]]
"""Returns how many messages of a stream's consumer are not taken yet; None where there is no consumer."""


class WindowedDispatcher:
    """Sends requests through *send*, in turns where there are too many. One per process."""

    def __init__(
        self,
        send: Callable[[OutgoingEffect], Awaitable[None]],
        settings: OrchestratorSettings,
        metrics: OrchestratorMetrics,
        backlog: Backlog | None = None,
    ) -> None:
        """Without *backlog* windows stay as wide as they are set."""
        self._send = send
        self._settings = settings
        self._metrics = metrics
        self._backlog = backlog
        self._windows: OrderedDict[DispatchDestination, DispatchWindow] = OrderedDict()
        self._sent: OrderedDict[UUID, DispatchDestination] = OrderedDict()
        self._held: dict[UUID, DispatchDestination] = {}
        self._some = asyncio.Event()
        self._late: dict[UUID, LateDispatch] = {}

    async def offer(self, effect: OutgoingEffect, state: RunState) -> None:
        """Send a request, or hold it until its turn comes; one that was sent before goes at once."""
        destination = destination_of_request(effect)
        window = self._window(destination)
        key = effect.effect.effect_id
        if key in self._held:
            self._replace_held(window, effect)
        elif key in self._sent:
            await self._send(effect)
        elif window.credits > 0 and not window.turns:
            self._spend(window, key, destination)
            await self._send(effect)
        else:
            now = monotonic()
            held = WaitingRequest(
                effect=effect, destination=destination, since=now, wake=now + resend_interval_s(effect)
            )
            window.turns.put(key, held, owner_of(state), now)
            self._held[key] = destination
            self._metrics.held.inc()
            self._some.set()

    def _replace_held(self, window: DispatchWindow, effect: OutgoingEffect) -> None:
        """A held request is asked for again: the newer attempt takes its place, and nothing is sent twice."""
        held = window.turns.get(effect.effect.effect_id)
        if held is not None and effect.effect.attempt >= held.effect.effect.attempt:
            held.effect, held.wake = effect, monotonic() + resend_interval_s(effect)

    def _spend(self, window: DispatchWindow, key: UUID, destination: DispatchDestination) -> None:
        window.spend(monotonic())
        self._sent[key] = destination
        while len(self._sent) > SENT_KEPT:
            self._sent.popitem(last=False)

    def settle(self, before: RunState | None, after: RunState) -> None:
        """Take back what requests held that have ended, or now wait for a person."""
        if before is None or before.pending is after.pending:
            return
        busy = occupying_requests(after)
        for key, pending in occupying_requests(before).items():
            if key in busy:
                continue
            if key in self._held:
                self.drop(key)
                continue
            destination = self._sent.pop(key, None) or destination_of(before, pending)
            self._window(destination).give_back(monotonic())

    async def pump(self) -> None:
        """Send whatever may be sent now, in turns."""
        for destination in self._awaited() if self._held else ():
            await self._drain(destination)

    async def _drain(self, destination: DispatchDestination) -> None:
        window = self._windows.get(destination)
        if window is None:  # forgotten meanwhile, so nothing waits for it
            return
        while window.credits > 0 and window.turns:
            now = monotonic()
            held = window.turns.next(now)
            key = held.effect.effect.effect_id
            del self._held[key]
            self._spend(window, key, destination)
            self._metrics.held.dec()
            self._metrics.held_seconds.observe(now - held.since)
            if now - held.since > held.interval_s / 2:
                self._late[key] = LateDispatch(
                    run_id=held.effect.message.run_id, attempt=held.effect.effect.attempt, due=now + held.interval_s
                )
            await self._send(held.effect)
        if not window.turns:
            window.width.rest()

    def holds(self, caller: str) -> bool:
        """Return whether a request of *caller* waits."""
        return bool(self._held) and any(window.turns.holds(caller) for window in self._windows.values())

    async def wait_held(self) -> None:
        """Return when something waits, or was sent late and not taken yet (`take_late`)."""
        if not self._held and not self._late:
            await self._some.wait()

    def held(self) -> list[WaitingRequest]:
        """Return everything that waits."""
        return [held for destination in self._awaited() for held in self._windows[destination].turns.items()]

    def take_late(self) -> dict[UUID, LateDispatch]:
        """Return the requests that were sent late since the last call."""
        late, self._late = self._late, {}
        return late

    def drop(self, key: UUID) -> None:
        """Forget a request that waits: nobody wants its answer any more."""
        destination = self._held.pop(key, None)
        if destination is not None:
            self._windows[destination].turns.drop(key)
            self._metrics.held.dec()

    async def run(self) -> None:
        """Find out how wide windows have to be, while something waits; for ever."""
        while True:
            if not self._held:
                self._some.clear()
                await self._some.wait()
            await asyncio.sleep(LOOK_S)
            for destination in self._awaited():
                await self._look(destination)

    def _awaited(self) -> tuple[DispatchDestination, ...]:
        """Return what requests wait for, in the order in which they came: a set's order differs between processes."""
        return tuple(dict.fromkeys(self._held.values()))

    async def _look(self, destination: DispatchDestination) -> None:
        window = self._windows.get(destination)
        if window is None:
            return
        if self._backlog is not None:
            waiting = await self._backlog(destination.stream, destination.durable)
            window.adjust(monotonic(), waiting)
        else:
            waiting = None
        if not window.credits and not waiting and monotonic() - window.moved > STALL_S:
            window.credits += FLOOR  # other replicas may have committed the ends of what was sent here
        await self._drain(destination)

    def _window(self, destination: DispatchDestination) -> DispatchWindow:
        window = self._windows.get(destination)
        if window is None:
            size = self._first_width(destination)
            turns: FairQueue[WaitingRequest] = FairQueue(self._settings.priority_ageing_s)
            window = DispatchWindow(width=WindowWidth(size), credits=size, debt=0, turns=turns)
            self._windows[destination] = window
            self._forget_destinations()
        self._windows.move_to_end(destination)
        return window

    def _first_width(self, destination: DispatchDestination) -> int:
        models = self._settings.message_window
        return models if destination.stream == "DECIDE" and not destination.scripted else min(models, QUICK)

    def _forget_destinations(self) -> None:
        """Models and tools are named by networks, so there is no other end to them."""
        if len(self._windows) > DESTINATIONS_KEPT:
            busy, since = set(self._held.values()), monotonic() - FORGET_S
            idle = [key for key, window in self._windows.items() if key not in busy and window.is_idle(since)]
            for key in idle[: len(self._windows) - DESTINATIONS_KEPT]:
                del self._windows[key]
