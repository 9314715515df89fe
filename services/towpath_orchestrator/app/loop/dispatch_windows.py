"""Windows: at most so many requests are on their way to one place, and whose is next is chosen here.

Nothing of this is stored and nothing here is waited for. A request that is held is pending like any other: when
this process ends, its run asks again. A window is a stock of credits: sending takes one, the end of a request gives one
back, whichever replica had sent it. So each replica has its own share, and together they have no more than all shares.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from towpath_contracts import streams, subjects
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.reducers.calls import TOOL_RESEND_S
from towpath_engine.requests.effects import Effect, model_for
from towpath_engine.state.run import EffectKind, PendingEffect, RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.fair_queue import Owner, Turns
from towpath_orchestrator.core.window_policy import FLOOR, Width
from towpath_orchestrator.metrics import Metrics
from towpath_orchestrator.settings import OrchestratorSettings

LOOK_S = 0.05
"""How often the broker is asked what waits there, while something waits here."""

STALL_S = 1.0
"""Where for so long nothing came back, and nothing waits at the broker, more may be sent."""

SENT_KEPT = 20_000
"""Requests that are known to be on their way; of more, the oldest are forgotten, and a repeat of one may wait again."""

QUICK = 16
"""The first width where answers are likely to take milliseconds: tools and scripts."""

PLACES_KEPT = 2_048

FORGET_S = 600.0
"""A window from which something is on its way is kept for so long, since another replica may hear of the end."""

Backlog = Callable[[str, str], Awaitable[int | None]]
"""Says how many messages of a stream's consumer nobody has taken yet; None where there is no such consumer."""

REQUESTS = frozenset({EffectKind.DECIDE, EffectKind.TOOL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who answers: a pool of deciders for one model, or a toolset for one tool."""

    stream: str
    durable: str
    name: str

    @property
    def scripted(self) -> bool:
        """Whether no model is asked, and answers come at once."""
        return self.name.startswith("scripted:")


@dataclass(slots=True, kw_only=True)
class Held:
    """A request that waits for its turn. Its run is woken at *wake* of the monotonic clock, if nobody moves that."""

    effect: Effect
    place: Place
    since: float
    wake: float

    @property
    def interval_s(self) -> float:
        """How long it may take from its sending on, before it is sent again."""
        return interval_of(self.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """An attempt at a request of a run that was sent long after it was asked for; it is due at *due*, not before."""

    run_id: UUID
    attempt: int
    due: float


@dataclass(slots=True, kw_only=True)
class Window:
    """What may still be sent to a place, and what waits for that; `moved` is when anything was sent or came back."""

    width: Width
    credits: int
    debt: int
    turns: Turns[Held]
    moved: float = 0.0


def interval_of(effect: Effect) -> float:
    """Return the seconds after which a request is asked again where nothing is heard of it."""
    message = effect.message
    return message.lease_ms / 1000 if isinstance(message, DecisionRequest) else float(TOOL_RESEND_S)


def owner_of(state: RunState) -> Owner:
    """Return whose turn a request of that run takes."""
    task = state.created
    root = state.run_id if task.parent is None else task.parent.root_id
    return Owner(caller=task.caller, root=root, priority=task.priority)


def occupying(state: RunState) -> dict[UUID, PendingEffect]:
    """Return the requests that somebody is busy with: what waits for people, turns or children keeps nobody busy."""
    idle = {gate.execution_id for gate in state.gates} | state.unasked
    return {p.effect_id: p for p in state.pending if p.kind in REQUESTS and p.effect_id not in idle}


def place_of(state: RunState, pending: PendingEffect) -> Place:
    """Return who answers a pending request."""
    project = state.created.project
    if pending.kind is EffectKind.DECIDE:
        return _decides(model_for(state, DecisionKind(state.asked)), project)
    opened = next(c for c in state.calls if c.call.execution_id == pending.effect_id)
    return _runs(project, state.snapshot.tools[opened.call.tool].toolset, opened.call.tool)


def _decides(model: str, project: str) -> Place:
    durable = streams.decide_consumer(subjects.pool_of(model, project)).durable
    return Place(stream="DECIDE", durable=durable, name=model)


def _runs(project: str, toolset: str, tool: str) -> Place:
    return Place(stream="TOOLEXEC", durable=streams.exec_consumer(project, toolset).durable, name=tool)


class Windows:
    """Sends requests through *send*, in turns where there are too many. One per process."""

    def __init__(
        self,
        send: Callable[[Effect], Awaitable[None]],
        settings: OrchestratorSettings,
        metrics: Metrics,
        backlog: Backlog | None = None,
    ) -> None:
        """Without *backlog* windows stay as wide as they are set."""
        self._send = send
        self._settings = settings
        self._metrics = metrics
        self._backlog = backlog
        self._windows: OrderedDict[Place, Window] = OrderedDict()
        self._sent: OrderedDict[UUID, Place] = OrderedDict()
        self._held: dict[UUID, Place] = {}
        self._some = asyncio.Event()
        self.late: dict[UUID, Late] = {}
        """Requests that were sent late, since somebody took these from here."""

    async def offer(self, effect: Effect, state: RunState) -> None:
        """Send a request, or hold it until its turn comes; one that was sent before goes at once."""
        message = effect.message
        if isinstance(message, DecisionRequest):
            place = _decides(message.model, message.project)
        elif isinstance(message, ToolRequest):
            place = _runs(message.project, message.toolset, message.tool)
        else:
            msg = f"{effect.effect.kind} has no window"
            raise TypeError(msg)
        window = self._window(place)
        key = effect.effect.effect_id
        if key in self._held:
            self._again(window, effect)
        elif key in self._sent:
            await self._send(effect)
        elif window.credits > 0 and not window.turns:
            self._spend(window, key, place)
            await self._send(effect)
        else:
            now = monotonic()
            held = Held(effect=effect, place=place, since=now, wake=now + interval_of(effect))
            window.turns.put(key, held, owner_of(state), now)
            self._held[key] = place
            self._metrics.held.inc()
            self._some.set()

    def _again(self, window: Window, effect: Effect) -> None:
        """A request that waits is asked for again: the newer attempt takes its place, and nothing is sent twice."""
        held = window.turns.get(effect.effect.effect_id)
        if held is not None and effect.effect.attempt >= held.effect.effect.attempt:
            held.effect, held.wake = effect, monotonic() + interval_of(effect)

    def _spend(self, window: Window, key: UUID, place: Place) -> None:
        window.credits -= 1
        window.moved = monotonic()
        self._sent[key] = place
        while len(self._sent) > SENT_KEPT:
            self._sent.popitem(last=False)

    def settle(self, before: RunState | None, after: RunState) -> None:
        """Take back what requests held that have ended, or now wait for a person."""
        if before is None or before.pending is after.pending:
            return
        busy = occupying(after)
        for key, pending in occupying(before).items():
            if key in busy:
                continue
            if key in self._held:
                self.drop(key)
                continue
            place = self._sent.pop(key, None) or place_of(before, pending)
            self._give_back(self._window(place))

    @staticmethod
    def _give_back(window: Window) -> None:
        window.moved = monotonic()
        if window.turns:
            window.width.ended(window.moved)
        if window.debt:
            window.debt -= 1
        else:
            window.credits = min(window.credits + 1, window.width.size)

    async def pump(self) -> None:
        """Send whatever may be sent now, in turns."""
        for place in set(self._held.values()) if self._held else ():
            await self._drain(place)

    async def _drain(self, place: Place) -> None:
        window = self._windows.get(place)
        if window is None:  # forgotten meanwhile, so nothing waits for it
            return
        while window.credits > 0 and window.turns:
            now = monotonic()
            held = window.turns.next(now)
            key = held.effect.effect.effect_id
            del self._held[key]
            self._spend(window, key, place)
            self._metrics.held.dec()
            self._metrics.held_seconds.observe(now - held.since)
            if now - held.since > held.interval_s / 2:
                self.late[key] = Late(
                    run_id=held.effect.message.run_id, attempt=held.effect.effect.attempt, due=now + held.interval_s
                )
            await self._send(held.effect)
        if not window.turns:
            window.width.rest()

    @property
    def holds_any(self) -> bool:
        """Whether anything waits."""
        return bool(self._held)

    def held(self) -> list[Held]:
        """Return everything that waits."""
        return [held for place in set(self._held.values()) for held in self._windows[place].turns.items()]

    def drop(self, key: UUID) -> None:
        """Forget a request that waits: nobody wants its answer any more."""
        place = self._held.pop(key, None)
        if place is not None:
            self._windows[place].turns.drop(key)
            self._metrics.held.dec()

    async def run(self) -> None:
        """Find out how wide windows have to be, while something waits; for ever."""
        while True:
            if not self._held:
                self._some.clear()
                await self._some.wait()
            await asyncio.sleep(LOOK_S)
            for place in set(self._held.values()):
                await self._look(place)

    async def _look(self, place: Place) -> None:
        window = self._windows.get(place)
        if window is None:
            return
        if self._backlog is not None:
            waiting = await self._backlog(place.stream, place.durable)
            change = window.width.look(monotonic(), waiting)
            if change > 0:
                window.credits += change
            elif change < 0:
                taken = min(window.credits, -change)
                window.credits -= taken
                window.debt += -change - taken
        else:
            waiting = None
        if not window.credits and not waiting and monotonic() - window.moved > STALL_S:
            window.credits += FLOOR  # other replicas may have been told what became of what was sent here
        await self._drain(place)

    def _window(self, place: Place) -> Window:
        window = self._windows.get(place)
        if window is None:
            size = self._first_width(place)
            turns: Turns[Held] = Turns(self._settings.priority_ageing_s)
            window = self._windows[place] = Window(width=Width(size), credits=size, debt=0, turns=turns)
            self._forget_places()
        self._windows.move_to_end(place)
        return window

    def _first_width(self, place: Place) -> int:
        models = self._settings.message_window
        return models if place.stream == "DECIDE" and not place.scripted else min(models, QUICK)

    def _forget_places(self) -> None:
        """Models and tools are named by networks, so there is no other end to them."""
        if len(self._windows) > PLACES_KEPT:
            busy, since = set(self._held.values()), monotonic() - FORGET_S
            idle = [place for place, window in self._windows.items() if place not in busy and _is_idle(window, since)]
            for place in idle[: len(self._windows) - PLACES_KEPT]:
                del self._windows[place]


def _is_idle(window: Window, since: float) -> bool:
    """Say whether nothing is on its way, as far as is known here; a window that was never used is just being opened."""
    out = window.width.size + window.debt - window.credits
    return window.moved > 0 and (out <= 0 or window.moved < since)
