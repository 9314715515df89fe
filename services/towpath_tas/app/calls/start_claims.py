"""Answers `svc.tas.claim_start`: may a worker start a call now? Claims that arrive together share one commit.

An answer is sent only after its claim is stored. If it can't be stored the answer is `unavailable`, and the worker asks
again with the same claim id.

Claims of all projects come one after another, and a worker may ask as often as it likes. So few are handled at once,
the ledger is asked about few of these that no ticket vouches for or that are of one call, and copies of one claim are
handled as one. What is too much is `unavailable` as well: an honest worker asks again.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.rpc import CLAIM_START, PROBLEM_HEADER
from towpath_contracts.tools.calls import ClaimAnswer, ClaimStart
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.nats.replies import problem_from_validation
from towpath_fabric.ports import MessageBus, Subscription
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import refusal_reason, store_or_refuse
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketFault
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.claims import on_claim
from towpath_tas.core.calls.restore_doubts import ask_before_start
from towpath_tas.core.calls.switch_holds import hold_claim
from towpath_tas.metrics import TasMetrics

MAX_WAITING = 4_096
"""Claims in memory; more are dropped without an answer, and their workers ask again."""

MAX_CLAIM_BYTES = 16 * 1024
"""A claim has one kilobyte; what is much longer is no honest worker's, and is refused unread."""

MAX_BATCH = 256
"""Claims that are handled together; others wait."""

MAX_UNVOUCHED = 32
"""Claims without a good ticket that the ledger is asked about in one batch: after a change of keys all come so."""

MAX_OF_CALL = 4
"""Different claims of one call that are handled in one batch, each by statements of its own."""

REFUSED = ClaimAnswer(granted=False, reason="unavailable")


@dataclass(slots=True)
class PendingClaim:
    """A claim that waits for its answer."""

    message: Msg
    claim: ClaimStart
    fault: str
    answer: ClaimAnswer = field(default=REFUSED)
    copies: list[Msg] = field(default_factory=list)

    @property
    def is_vouched(self) -> bool:
        """Whether the service has signed its ticket for this very call, however long ago."""
        return self.fault in ("", TicketFault.EXPIRED)

    def decide(self, context: LedgerContext) -> LedgerChange:
        """Call the core, and keep its answer until the change is stored."""
        change, answer = on_claim(context.call, self.claim, self.fault, now=context.now, fence=context.fence)
        change, answer = hold_claim(context.call, change, answer, context.active_switch())
        change, self.answer = ask_before_start(context.call, change, answer, context.lost_since)
        return change


class StartClaimServer:
    """Answers claims. One per process; `run` never returns."""

    def __init__(
        self,
        bus: MessageBus,
        lane: PinnedDatabaseConnection,
        ledger: LedgerStore,
        dispatcher: LedgerEffectPublisher,
        tickets: TicketIssuer,
        metrics: TasMetrics,
        log: Logger,
    ) -> None:
        self._bus = bus
        self._lane = lane
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._tickets = tickets
        self._metrics = metrics
        self._log = log
        self._waiting: deque[Msg] = deque()
        self._arrived = asyncio.Event()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Subscribe; replicas share the claims. Without FastStream: every effect waits for this answer."""
        self._subscription = await self._bus.subscribe(CLAIM_START.subject, self._on_claim, shared=True)

    async def stop(self) -> None:
        if self._subscription is not None:
            await self._subscription.stop()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            messages = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            self._metrics.batch.labels("claim").observe(len(messages))
            crash_point("tas.claim_taken")
            items = [item for message in messages if (item := await self._parsed(message)) is not None]
            items, surplus = without_surplus(items)
            for item in surplus:
                await self._reply(item, item.answer)
            try:
                await store_or_refuse(items, self._handle, self._refuse_value)
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, claims are not granted", error=str(error))
                for item in items:
                    await self._reply(item, problem("unavailable", "the ledger can't be reached"))
            await asyncio.sleep(0)  # a batch of which nothing is handled waits for nothing else

    async def _on_claim(self, message: Msg) -> None:
        if len(message.data) > MAX_CLAIM_BYTES:
            size = f"a claim has {len(message.data)} bytes; the limit is {MAX_CLAIM_BYTES}"
            await self._answer(message, problem("request_too_large", size))
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(message)
            self._arrived.set()

    async def _parsed(self, message: Msg) -> PendingClaim | None:
        try:
            claim = ClaimStart.model_validate_json(message.data)
        except ValidationError as error:
            await self._answer(message, problem_from_validation(error, "ClaimStart"))
            return None
        fault = self._tickets.fault(claim.ticket, claim.execution_id, claim.attempt, claim.run_id, at_start=True)
        return PendingClaim(message, claim, fault)

    async def _refuse_value(self, item: PendingClaim, error: Exception) -> None:
        """Answer a claim that holds what Postgres can't store: its call does not begin."""
        self._log.error("a claim can't be stored", call=str(item.claim.execution_id), error=refusal_reason(error))
        await self._reply(item, problem("request_invalid", refusal_reason(error)))

    async def _handle(self, items: Sequence[PendingClaim]) -> None:
        updates = [
            CallUpdate(run_id=item.claim.run_id, execution_id=item.claim.execution_id, decide=item.decide)
            for item in items
        ]
        await self._ledger.apply(self._lane, updates)
        crash_point("tas.claim_before_reply")
        for item, update in zip(items, updates, strict=True):
            if update.error or update.contested:
                await self._reply(item, problem("unavailable", update.error or "the call is contested"))
            else:
                await self._dispatcher.send(update.change)
                await self._reply(item, item.answer)
                await crash_point_after_flush("tas.claim_replied")

    async def _reply(self, item: PendingClaim, answer: Message) -> None:
        for message in (item.message, *item.copies):
            await self._answer(message, answer)

    async def _answer(self, message: Msg, answer: Message) -> None:
        headers = {PROBLEM_HEADER: answer.code} if isinstance(answer, Problem) else None
        if message.reply:
            await self._bus.publish(message.reply, answer.model_dump_json().encode(), headers)


def without_surplus(items: Sequence[PendingClaim]) -> tuple[list[PendingClaim], list[PendingClaim]]:
    """Return the claims of a batch that are handled, and those that are too many; both with their copies."""
    distinct: dict[bytes, PendingClaim] = {}
    for item in items:
        same = distinct.setdefault(item.message.data, item)
        if same is not item:
            same.copies.append(item.message)
    handled: list[PendingClaim] = []
    surplus: list[PendingClaim] = []
    of_call: Counter[tuple[UUID, bool]] = Counter()  # what is forged takes no room from what a worker asks
    unvouched = 0
    for item in distinct.values():
        unvouched += not item.is_vouched
        call = (item.claim.execution_id, item.is_vouched)
        of_call[call] += 1
        too_many = of_call[call] > MAX_OF_CALL or (not item.is_vouched and unvouched > MAX_UNVOUCHED)
        (surplus if too_many else handled).append(item)
    return handled, surplus
