"""Sends the effects of committed transitions, each to whoever carries it out.

Nothing here is waited for: an effect that was not sent is still pending in the state of its run and is sent again.
Answers to questions of this process (a fence, an outcome) come back as local facts.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.facts import FenceRaisedFact, InternalOutcomeRecordedFact
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import RAISE_FENCE, RECORD_OUTCOME
from towpath_contracts.runs.children import AskChildStatus
from towpath_contracts.tools.access import FencedCalls, RaiseFence
from towpath_contracts.tools.internal_outcomes import InternalOutcomeAnswer, RecordInternalOutcome
from towpath_engine.requests.effects import OutgoingEffect, TextToStore, message_of, resendable_effects
from towpath_engine.state.run import RunState
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ports import MessageBus
from towpath_orchestrator.app.dispatch.child_messenger import ChildRunReporter
from towpath_orchestrator.app.dispatch.dispatch_windows import WindowedDispatcher
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.core.transitions import Transition
from towpath_orchestrator.metrics import OrchestratorMetrics

NEVER_ACCEPTED = frozenset({"request_too_large", "request_invalid", "request_malformed"})
"""Problems of a request that would be the same at every repeat of it."""


class EffectDispatcher:
    """Knows for each kind of effect who carries it out. One per process."""

    def __init__(
        self,
        bus: MessageBus,
        local_facts: LocalFactQueue,
        windows: WindowedDispatcher,
        children: ChildRunReporter,
        metrics: OrchestratorMetrics,
    ) -> None:
        self._bus = bus
        self._local_facts = local_facts
        self._windows = windows
        self._children = children
        self._metrics = metrics
        self._asking: set[asyncio.Task[None]] = set()

    async def dispatch_batch(self, committed: Iterable[Transition]) -> None:
        """Send what a batch of transitions wants sent; held requests go first into the room that it leaves."""
        committed = list(committed)
        for transition in committed:
            self._windows.settle(transition.before, transition.state)
        for transition in committed:
            await self.dispatch(transition)
        await self._windows.pump()

    async def dispatch(self, transition: Transition) -> None:
        """Send what one transition wants sent."""
        for effect in transition.effects:
            if effect.effect.attempt > 1:
                self._metrics.resent.inc()
            await self.send(effect, transition.state)

    async def send_pending_again(self, state: RunState) -> None:
        """Send what is pending in *state* once more, in the same attempt: whoever has it already ignores the repeat."""
        for pending in resendable_effects(state):
            await self.send(message_of(state, pending), state)

    async def send(self, effect: OutgoingEffect, state: RunState) -> None:
        """Send one effect of a run in *state*; a request may have to wait for its turn."""
        match effect.message:
            case RaiseFence() as message:
                self._begin(self._raise_fence(message))
            case RecordInternalOutcome() as message:
                self._begin(self._record_outcome(message))
            case TextToStore():
                pass  # it was stored with its transition, and nobody waits for it
            case AskChildStatus() as message:
                if message.cancel or effect.effect.attempt > 1:
                    self._children.ask(message)
            case _:
                await self._windows.offer(effect, state)

    def _begin(self, asking: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _raise_fence(self, request: RaiseFence) -> None:
        crash_point("orchestrator.before_fence")
        try:
            answer: FencedCalls = await self._bus.request(RAISE_FENCE, request)
        except ProblemError:
            return  # the fence stays pending, and is asked for again when its run is woken
        crash_point("orchestrator.fence_answered")
        self._local_facts.add(
            FenceRaisedFact(run_id=request.run_id, fence=answer.fence, voided=answer.voided, live=answer.live)
        )

    async def _record_outcome(self, request: RecordInternalOutcome) -> None:
        crash_point("orchestrator.before_outcome")
        answer = await record_outcome(self._bus, request)
        if answer is None:
            return  # the outcome stays pending, and is sent again when its run is woken
        crash_point("orchestrator.outcome_answered")
        self._local_facts.add(
            InternalOutcomeRecordedFact(
                run_id=request.run_id, execution_id=request.execution_id, refused=answer.refused
            )
        )


async def record_outcome(bus: MessageBus, request: RecordInternalOutcome) -> InternalOutcomeAnswer | None:
    """Let the ledger record the outcome of a call that the run applied itself; None where it has to be sent again.

    The ledger's row of every such call must end. An outcome that the ledger can't take as it is goes without its
    contents, which stand in the run's log.
    """
    try:
        return await _ask_ledger(bus, request)
    except ProblemError as error:
        if error.problem.code not in NEVER_ACCEPTED:
            return None
    try:
        return await _ask_ledger(bus, without_contents(request))
    except ProblemError:
        return None


def without_contents(request: RecordInternalOutcome) -> RecordInternalOutcome:
    """Return *request* with size and digest in the place of a result, and a failure by its code alone."""
    if request.failure is not None:
        return request.model_copy(update={"failure": request.failure.model_copy(update={"message": "", "hint": ""})})
    text = canonical_json(request.result)
    size = len(text.encode("utf-8", "surrogatepass"))
    return request.model_copy(update={"result": {"left_out": True, "bytes": size, "digest": digest_text(text)}})


async def _ask_ledger(bus: MessageBus, request: RecordInternalOutcome) -> InternalOutcomeAnswer:
    answer: InternalOutcomeAnswer = await bus.request(RECORD_OUTCOME, request)
    return answer
