"""Where requests go, how many may be on their way to one destination, and which run is busy with what.

A window is a stock of credits: sending takes one, the end of a request gives one back, whichever replica had sent it.
So each replica has its own share, and together they have no more than all shares. Where a window has no credit left,
requests wait in it, and the fair queue says whose is next.
"""

from dataclasses import dataclass
from uuid import UUID

from towpath_contracts import streams, subjects
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.reducers.calls import TOOL_RESEND_S
from towpath_engine.requests.effects import OutgoingEffect, model_for
from towpath_engine.state.run import EffectKind, PendingEffect, RunState
from towpath_fabric.turns.fair_queue import FairQueue, QueueOwner
from towpath_orchestrator.core.window_policy import WindowWidth

REQUESTS = frozenset({EffectKind.DECIDE, EffectKind.TOOL})


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDestination:
    """Who answers: a pool of deciders for one model, or a toolset for one tool."""

    stream: str
    durable: str
    name: str

    @property
    def scripted(self) -> bool:
        """Whether no model is asked, and answers come at once."""
        return self.name.startswith("scripted:")


@dataclass(slots=True, kw_only=True)
class WaitingRequest:
    """A request that waits for its turn. Its run is woken at *wake* of the monotonic clock, if nobody moves that."""

    effect: OutgoingEffect
    destination: DispatchDestination
    since: float
    wake: float

    @property
    def interval_s(self) -> float:
        """How long it may take from its sending on, before it is sent again."""
        return resend_interval_s(self.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDispatch:
    """An attempt that was sent long after its run asked for it; it is due at *due*, not before."""

    run_id: UUID
    attempt: int
    due: float


@dataclass(slots=True, kw_only=True)
class DispatchWindow:
    """What may still be sent to a destination, and what waits for that.

    `debt` are credits that were taken away while they were spent; `moved` is when anything was sent or came back.
    """

    width: WindowWidth
    credits: int
    debt: int
    turns: FairQueue[WaitingRequest]
    moved: float = 0.0

    def spend(self, now: float) -> None:
        """Take a credit for a request that is sent."""
        self.credits -= 1
        self.moved = now

    def give_back(self, now: float) -> None:
        """Take back the credit of a request that has ended."""
        self.moved = now
        if self.turns:
            self.width.ended(now)
        if self.debt:
            self.debt -= 1
        else:
            self.credits = min(self.credits + 1, self.width.size)

    def adjust(self, now: float, backlog: int | None) -> None:
        """Widen or narrow the window by what waits at the broker; None where that is not known."""
        change = self.width.look(now, backlog)
        if change > 0:
            self.credits += change
        elif change < 0:
            taken = min(self.credits, -change)
            self.credits -= taken
            self.debt += -change - taken

    def is_idle(self, since: float) -> bool:
        """Return whether nothing is on its way, as far as is known; a window never used is just being opened."""
        out = self.width.size + self.debt - self.credits
        return self.moved > 0 and (out <= 0 or self.moved < since)


def resend_interval_s(effect: OutgoingEffect) -> float:
    """Return the seconds after which a request is sent again where no answer came."""
    message = effect.message
    return message.lease_ms / 1000 if isinstance(message, DecisionRequest) else float(TOOL_RESEND_S)


def owner_of(state: RunState) -> QueueOwner:
    """Return whose turn a request of that run takes."""
    task = state.created
    root = state.run_id if task.parent is None else task.parent.root_id
    return QueueOwner(caller=task.caller, root=root, priority=task.priority, project=task.project)


def occupying_requests(state: RunState) -> dict[UUID, PendingEffect]:
    """Return the requests that somebody is busy with: what waits for people, turns or children keeps nobody busy."""
    idle = {gate.execution_id for gate in state.gates} | state.unasked
    return {p.effect_id: p for p in state.pending if p.kind in REQUESTS and p.effect_id not in idle}


def destination_of(state: RunState, pending: PendingEffect) -> DispatchDestination:
    """Return who answers a pending request."""
    project = state.created.project
    if pending.kind is EffectKind.DECIDE:
        return decision_destination(model_for(state, DecisionKind(state.asked)), project)
    opened = next(c for c in state.calls if c.call.execution_id == pending.effect_id)
    return tool_destination(project, state.snapshot.all_tools[opened.call.tool].toolset, opened.call.tool)


def decision_destination(model: str, project: str) -> DispatchDestination:
    durable = streams.decide_consumer(subjects.pool_of(model, project)).durable
    return DispatchDestination(stream="DECIDE", durable=durable, name=model)


def tool_destination(project: str, toolset: str, tool: str) -> DispatchDestination:
    return DispatchDestination(stream="TOOLEXEC", durable=streams.exec_consumer(project, toolset).durable, name=tool)


def destination_of_request(effect: OutgoingEffect) -> DispatchDestination:
    """Return who answers the request of an effect; raises TypeError where it is none."""
    match effect.message:
        case DecisionRequest() as message:
            return decision_destination(message.model, message.project)
        case ToolRequest() as message:
            return tool_destination(message.project, message.toolset, message.tool)
        case _:
            msg = f"{effect.effect.kind} has no window"
            raise TypeError(msg)
