"""Everybody around the services: models that decide, workers that act, clients and the people at the gates.

What a worker does to the outside is in `OutsideWorld`, which no service can see: the judge compares.
"""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.simulation.goals import goal
from tests.simulation.objectives import objective
from tests.simulation.outside.message_bus import Delivery, MessageFeed, SimBus

from towpath_contracts import rpc, subjects
from towpath_contracts.canonical import digest
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import ActionDone, ListGates, ResolveGate
from towpath_contracts.streams import decide_consumer, exec_consumer
from towpath_contracts.switches import PAUSED
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_contracts.tools.calls import (
    CancelTool,
    ClaimStart,
    EffectClass,
    OutcomeConfirmed,
    ToolFailure,
    ToolInvocation,
    ToolOutcome,
)
from towpath_fabric.clock import monotonic, wall
from towpath_fabric.nats.pull_consumer import ack, in_progress, nak
from towpath_fabric.tickets import TicketFault, TicketRefusedError, TicketVerifier
from towpath_orchestrator.app.api.client_requests import ClientCancel
from towpath_worker.app.start_claims import claim_start

PROJECT = "default"
RESEND_S, BEAT_S = 3.0, 6.0
REPEATABLE = (EffectClass.PURE, EffectClass.IDEMPOTENT)


@dataclass(frozen=True, slots=True)
class OutsideEffect:
    """One thing that a worker did to the outside. `stale`: it had been stopped between its start and this."""

    execution_id: UUID
    run_id: UUID
    effect_class: EffectClass
    worker: str
    began: datetime
    at: datetime
    decided: bool
    instructed: bool
    stale: bool
    args_digest: str


@dataclass(slots=True)
class OutsideWorld:
    """What really happened."""

    acts: list[OutsideEffect] = field(default_factory=list)
    retries: dict[UUID, int] = field(default_factory=dict)

    def happened(self, execution_id: UUID) -> bool:
        """Return whether anything came of the call."""
        return any(act.execution_id == execution_id for act in self.acts)


class SimDecider:
    """Answers decision requests with whatever comes to its mind."""

    def __init__(self, bus: SimBus, chance: random.Random, answers: Any) -> None:
        self._bus = bus
        self._chance = chance
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        feed = MessageFeed(self._bus, decide_consumer(subjects.DEFAULT_POOL), window=16)
        while True:
            for message in await feed.take(4):
                task = asyncio.create_task(self._decide(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _decide(self, message: Delivery) -> None:
        request = DecisionRequest.model_validate_json(message.data)
        await asyncio.sleep(self._chance.choice((0.005, 0.02, 0.3, 2.0)))
        name: dict[str, Any] = {"run_id": request.run_id, "request_id": request.request_id, "attempt": request.attempt}
        fact: Any = (
            DecisionFailedFact(**name, code="invalid_output", message="it said nothing")
            if self._chance.random() < 0.03
            else DecisionMadeFact(**name, decision=self._answers(request))
        )
        subject = subjects.run_inbox("decider", request.run_id)
        for _ in range(3):
            if await self._bus.store(subject, fact.model_dump_json().encode()):
                await ack(message)
                return
            await asyncio.sleep(0.3)
        await nak(message, 1.0)


@dataclass(slots=True)
class HeldCall:
    """An outcome that the ledger has not confirmed."""

    body: bytes
    deliveries: list[Delivery]


class SimWorker:
    """Claims, acts, reports; keeps an outcome until it is confirmed. `world` kills it in the middle of things."""

    def __init__(self, bus: SimBus, chance: random.Random, world: Any, verifier: TicketVerifier) -> None:
        self._bus = bus
        self._chance = chance
        self._world = world
        self._verifier = verifier
        self._held: dict[str, HeldCall] = {}
        self._running: dict[str, list[Delivery]] = {}
        self._cancelled: dict[UUID, asyncio.Event] = {}
        self._confirm = subjects.tool_confirm(PROJECT, "sim", bus.new_inbox().rpartition(".")[2])
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self._bus.subscribe(self._confirm, self._on_confirmed)
        await self._bus.subscribe(subjects.TOOL_CANCEL_ALL, self._on_cancel)
        feed = MessageFeed(self._bus, exec_consumer(PROJECT, "sim"), window=8)
        while True:
            for message in await feed.take(8):
                self._begin(message)

    def _begin(self, message: Delivery) -> None:
        call = ToolInvocation.model_validate_json(message.data)
        key = f"{call.execution_id}:{call.attempt}"
        if key in self._held:
            self._held[key].deliveries.append(message)
        elif key in self._running:
            self._running[key].append(message)
        else:
            self._running[key] = [message]
            self._spawn(self._serve(key, call))

    def _spawn(self, coro: Any) -> None:
        task = asyncio.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._bus.process.dead:
            self._world.complain(f"worker: {task.exception()!r}")

    async def _serve(self, key: str, call: ToolInvocation) -> None:
        self._spawn(self._beat(key))
        try:
            outcome = await self._outcome(call)
        finally:
            deliveries = self._running.pop(key, [])
        if outcome is None:
            await asyncio.gather(*map(ack, deliveries))
            return
        held = self._held[key] = HeldCall(outcome.model_dump_json().encode(), deliveries)
        headers = {rpc.CONFIRM_HEADER: self._confirm, rpc.OUTCOME_HEADER: f"{outcome.key} {outcome.ticket}"}
        while self._held.get(key) is held:
            await self._bus.publish(subjects.TOOL_OUTCOME, held.body, headers)
            await asyncio.sleep(RESEND_S)
            if self._held.get(key) is held:
                self._world.seen.note("outcome_resent")

    async def _beat(self, key: str) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            messages = self._running.get(key) or (self._held[key].deliveries if key in self._held else [])
            if not messages:
                return
            await in_progress(messages[-1])

    async def _outcome(self, call: ToolInvocation) -> ToolOutcome | None:
        """Return the outcome, or None where the call must not run here."""
        try:
            ticket = self._verifier.verify(
                call.ticket,
                execution_id=call.execution_id,
                attempt=call.attempt,
                run_id=call.run_id,
                tool=call.tool,
                args_digest=digest(call.args),
                run_digest=call.run_digest,
                now=wall().timestamp(),
            )
        except TicketRefusedError as error:
            self._world.seen.note(f"ticket_{error.reason}")
            if error.reason is not TicketFault.EXPIRED:
                self._world.complain(f"a ticket is {error.reason}")
            return self._make(call, None, status="ticket_expired")
        if call.effect_class is EffectClass.PURE:
            return await self._act(call, None, call.timeout_ms / 1000)
        claim_id = UUID(int=self._chance.getrandbits(128), version=4)
        question = ClaimStart(
            execution_id=call.execution_id,
            run_id=call.run_id,
            claim_id=claim_id,
            attempt=call.attempt,
            worker=self._bus.process.name,
            ticket=call.ticket,
        )
        claim = await claim_start(self._bus, question, ticket.expires_at)  # type: ignore[arg-type]
        if claim.expired:
            return self._make(call, claim_id, status="ticket_expired")
        if not (claim.granted or claim.unanswered):
            return None
        await self._world.disasters.perhaps_stop(self._bus.process)
        if not claim.granted or monotonic() >= min(claim.start_by_s, claim.lease_until_s):
            self._world.seen.note("late_start_refused" if claim.granted else "grant_perhaps_lost")
            failure = ToolFailure(code="not_started", message="too late to start", retryable=True, began=False)
            return self._make(call, claim_id, status="failed", failure=failure)
        if call.effect_class is EffectClass.RECONCILABLE and self._world.outside.happened(call.execution_id):
            self._world.seen.note("probe_found_it")
            return self._make(call, claim_id, status="succeeded", result={"probed": True})
        return await self._act(call, claim_id, call.timeout_ms / 1000)

    async def _act(self, call: ToolInvocation, claim_id: UUID | None, timeout_s: float) -> ToolOutcome:
        """Run the tool: nothing, the effect, nothing; cut off where it takes too long or is cancelled."""
        world, began, thaws = self._world, self._world.now(), self._bus.process.thaws
        cancel = self._cancelled[call.execution_id] = asyncio.Event()
        fate = self._chance.random()
        before = self._chance.choice((0.0, 0.01, 0.5, timeout_s * 1.1 if fate < 0.1 else 0.1))
        if await self._wait(cancel, min(before, timeout_s)) or before > timeout_s:
            return self._cut_off(call, claim_id)
        await world.disasters.perhaps_stop(self._bus.process)
        lost = 0.04 if call.attempt == 1 else 0.15  # once more, and lost once more: what a person's retry has to bear
        if 0.1 < fate < 0.1 + lost:
            world.seen.note("worker_lost")
            world.lose(self._bus.process)
            await asyncio.sleep(3600)
        if fate > 0.94:
            failure = ToolFailure(code="tool_exception", message=self._chance.choice(("row 7", "timeout", "no")))
            return self._make(call, claim_id, status="failed", failure=failure)
        stale = self._bus.process.thaws != thaws
        world.acted(call, self._bus.process.name, began, stale=stale)
        await world.disasters.perhaps_silence(self._bus.process)
        if 0.5 < fate < 0.5 + lost:
            world.seen.note("worker_lost")
            world.lose(self._bus.process)
            await asyncio.sleep(3600)
        if await self._wait(cancel, self._chance.choice((0.0, 0.0, 0.05, 1.0))):
            return self._cut_off(call, claim_id)
        return self._make(call, claim_id, status="succeeded", result={"done": call.tool}, duration_ms=5)

    @staticmethod
    async def _wait(cancel: asyncio.Event, seconds: float) -> bool:
        if seconds:
            try:
                await asyncio.wait_for(cancel.wait(), seconds)
            except TimeoutError:
                return False
        return cancel.is_set()

    def _cut_off(self, call: ToolInvocation, claim_id: UUID | None) -> ToolOutcome:
        uncertain = call.effect_class not in REPEATABLE
        failure = ToolFailure(code="timeout", message="cut off", uncertain=uncertain, external=True)
        return self._make(call, claim_id, status="failed", failure=failure)

    def _make(self, call: ToolInvocation, claim_id: UUID | None, **more: Any) -> ToolOutcome:
        return ToolOutcome(
            execution_id=call.execution_id,
            run_id=call.run_id,
            attempt=call.attempt,
            claim_id=claim_id,
            tool=call.tool,
            worker=self._bus.process.name,
            ticket=call.ticket,
            **more,
        )

    async def _on_confirmed(self, message: Any) -> None:
        for key in OutcomeConfirmed.model_validate_json(message.data).keys:
            held = self._held.pop(key, None)
            if held is not None:
                self._world.judge.on_confirmed(ToolOutcome.model_validate_json(held.body))
            for delivery in held.deliveries if held is not None else ():
                await ack(delivery)

    async def _on_cancel(self, message: Any) -> None:
        running = self._cancelled.get(CancelTool.model_validate_json(message.data).execution_id)
        if running is not None:
            running.set()


class SimClient:
    """Submits tasks until they are accepted, and cancels some of them."""

    def __init__(self, bus: SimBus, chance: random.Random, world: Any) -> None:
        self._bus = bus
        self._chance = chance
        self._world = world

    def task(self, number: int, key: str) -> SubmitTask:
        """Return what is submitted."""
        aim = {"background": objective(number)} if self._world.objectives else {"user_message": f"Do {number}."}
        aim = {"goal": goal(number)} if self._world.goals else aim
        return SubmitTask.model_validate({"network": "desk", "idempotency_key": key, **aim})

    async def submit(self, number: int) -> UUID:
        """Return the run, once it is accepted; a repetition must give the same one."""
        key = f"task-{number}"
        subject, task = subjects.task_submit("alice"), self.task(number, key)
        while True:
            try:
                accepted = await self._bus.request_subject(subject, task, RunAccepted, timeout_s=12, repeatable=True)
            except ProblemError as error:
                if not error.problem.retryable:
                    self._world.complain(f"a task was refused: {error.problem}")
                await asyncio.sleep(0.5)
                continue
            if accepted.duplicate:
                self._world.seen.note("repeated_submit")
            self._world.accepted(key, accepted.run_id)
            if self._chance.random() > 0.1:
                return accepted.run_id

    async def cancel(self, run_id: UUID) -> None:
        """Ask until there is an answer."""
        while True:
            try:
                request = ClientCancel(run_id=str(run_id), reason="enough")
                await self._bus.request_subject(subjects.task_cancel("alice"), request, ActionDone, repeatable=True)
            except ProblemError as error:
                if error.problem.code == "run_finished":
                    return
                await asyncio.sleep(1.0)
            else:
                self._world.judge.on_cancel_answered(run_id)
                return

    async def live(self, number: int) -> None:
        """One task from its beginning; perhaps it is cancelled later."""
        await asyncio.sleep(self._chance.random() * 3)
        run_id = await self.submit(number)
        if self._chance.random() < self._world.cancels:
            await asyncio.sleep(self._chance.choice((0.0, 0.1, 1.0, 6.0)))
            await self.cancel(run_id)


class SimPerson:
    """Settles every gate: approvals by mood, doubts by looking at what really happened, if badly at times."""

    def __init__(self, bus: SimBus, chance: random.Random, world: Any) -> None:
        self._bus = bus
        self._chance = chance
        self._world = world

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.choice((0.3, 1.0, 4.0)))
            if self._world.anything_waits():
                await self._look()

    async def _look(self) -> None:
        try:
            page = await self._bus.request(rpc.LIST_GATES, ListGates(project=PROJECT))
        except ProblemError:
            return
        for gate in page.gates:
            if gate.gate_type != PAUSED and self._chance.random() < 0.8:
                await self._settle(gate)

    async def _settle(self, gate: Any) -> None:
        vote: dict[str, Any] = {"project": PROJECT, "gate_id": gate.gate_id, "actor": "bob", "reason": "looked"}
        if gate.gate_type == "approval":
            verdict = self._chance.choice(("approved", "approved", "denied"))
            vote |= {"approval_id": gate.approval_id, "roles": ("approver",), "verdict": verdict}
            method = rpc.RESOLVE_APPROVAL
        elif gate.execution_id is None:
            verdict = self._chance.choice(("approved", "denied", "denied", "stop"))
            vote |= {"roles": ("operator",), "verdict": verdict}
            method = rpc.RESOLVE_GATE
        else:
            verdict = "happened"
            mistaken = self._chance.random() < 0.2
            if mistaken or not self._world.outside.happened(gate.execution_id):
                verdict = self._chance.choice(("did_not_happen", "retry")) if not mistaken else "retry"
            vote |= {"roles": ("operator",), "verdict": verdict}
            method = rpc.RESOLVE_GATE
        if verdict == "retry":  # counted before it is sent: it may count although no answer comes
            retries = self._world.outside.retries
            retries[gate.execution_id] = retries.get(gate.execution_id, 0) + 1
        try:
            await self._bus.request(method, ResolveGate(**vote))
        except ProblemError as error:
            self._world.seen.note(f"word_refused_{error.problem.code}")
        else:
            self._world.seen.note("retried" if verdict == "retry" else verdict)
