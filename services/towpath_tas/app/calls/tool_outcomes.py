"""Handles `tool.outcome`: one commit per batch, then facts to the runs and confirmations to the workers.

A worker deletes an outcome when TAS confirms it, so a confirmation never leaves before the commit. An
outcome that is only kept as evidence, or belongs to no call, is confirmed too: sending it again would change nothing.
It is confirmed to workers of the project and toolset that the ledger has, or of the project of a good ticket. Without a
good ticket it has to name a start that was granted, where one was, and an unreadable one is nobody's: no worker is told
by another one, through this service, to forget what it has not reported. An outcome that ended the service each time it
was read is confirmed without being read, by the key and the ticket in its header.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.base import Message
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.rpc import CONFIRM_HEADER, OUTCOME_HEADER
from towpath_contracts.tools.calls import OutcomeConfirmed, ToolOutcome, outcome_key
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.dead_letters import UNKNOWN_OWNER, DeadLetterOwner, DeadLetters
from towpath_fabric.nats.pull_consumer import age_s, deliveries
from towpath_fabric.ports import MessageBus, MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.redelivery.poison_messages import PoisonGuard
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketRefusedError
from towpath_tas.app.calls.dead_letters import confirmed
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import CallUpdate, LedgerStore
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.outcomes import may_forget, on_outcome
from towpath_tas.core.calls.switch_holds import hold
from towpath_tas.metrics import TasMetrics

DATABASE_WAIT_S = 0.25
CONTESTED_S = 0.2


class OutcomeIdentity(Message):
    """The fields that identify an outcome to its worker; the rest may be unreadable."""

    execution_id: UUID
    attempt: int
    run_id: UUID | None = None
    late: bool = False
    ticket: str = ""


@dataclass(slots=True)
class PendingOutcome:
    """An outcome in progress; `fault` says what is wrong with its ticket.

    `project` and `toolset` are whose workers it may be confirmed to; without a toolset, to all of the project.
    """

    message: Msg
    outcome: ToolOutcome
    fault: str
    project: str = ""
    toolset: str = ""

    def decide(self, context: LedgerContext) -> LedgerChange:
        if context.call is not None:
            known = not self.fault or may_forget(context.call, self.outcome)
            self.project, self.toolset = (context.call.project, context.call.toolset) if known else ("", "")
        change = on_outcome(
            context.call,
            self.outcome,
            self.fault,
            context.authorize,
            now=context.now,
            approval=context.approval,
            fence=context.fence,
        )
        return hold(context.call, change, context.active_switch())

    def update(self) -> CallUpdate:
        again = deliveries(self.message) > 1 or self.outcome.status == "ticket_expired"
        return CallUpdate(
            run_id=self.outcome.run_id, execution_id=self.outcome.execution_id, decide=self.decide, read=again
        )


class ToolOutcomeConsumer:
    """Consumes tool outcomes. One per process; `run` never returns."""

    def __init__(
        self,
        consumer: MessageConsumer,
        lane: PinnedDatabaseConnection,
        ledger: LedgerStore,
        dispatcher: LedgerEffectPublisher,
        tickets: TicketIssuer,
        bus: MessageBus,
        dead: DeadLetters,
        guard: PoisonGuard,
        metrics: TasMetrics,
        log: Logger,
        *,
        batch_size: int,
    ) -> None:
        self._consumer = consumer
        self._lane = lane
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._tickets = tickets
        self._bus = bus
        self._dead = dead
        self._guard = guard
        self._metrics = metrics
        self._log = log
        self._batch_size = batch_size

    async def run(self) -> None:
        while True:
            messages = await self._consumer.take(self._batch_size)
            self._metrics.batch.labels("outcome").observe(len(messages))
            crash_point("tas.outcome_taken")
            together, watched = self._guard.apart(messages)
            if together:
                await self._handle_until_stored(together)
            for message in watched:
                async with self._guard.alone(message, self._refuse) as admitted:
                    if admitted:
                        await self._handle_until_stored([message])

    async def _handle_until_stored(self, messages: Iterable[Msg]) -> None:
        items = [item for message in messages if (item := await self._parsed(message)) is not None]
        while items:
            try:
                await self._handle(items)
                items = []
            except DATABASE_DOWN as error:
                self._log.warning("postgres is away, outcomes wait", error=str(error))
                self._consumer.paused = True
                await asyncio.sleep(DATABASE_WAIT_S)
        self._consumer.paused = False

    async def _parsed(self, message: Msg) -> PendingOutcome | None:
        try:
            outcome = ToolOutcome.model_validate_json(message.data)
        except ValidationError as error:
            await self._refuse(message, f"not a tool outcome: {describe_validation_error(error)}")
            return None
        fault = self._tickets.fault(
            outcome.ticket, outcome.execution_id, outcome.attempt, outcome.run_id, at_start=False
        )
        project = "" if fault else self._tickets.read(outcome.ticket).project
        return PendingOutcome(message, outcome, fault, project)

    async def _refuse(self, message: Msg, reason: str, reads: bool = True) -> None:
        """Set an outcome aside and confirm it, so that its worker forgets it. The run's next request for it decides."""
        named = _named_by(message) if reads else _named_in_header(message, self._tickets)
        owner = await self._owner_of(message, named)
        if await self._dead.set_aside(message, reason, owner) and named is not None:  # else nobody could be told
            subject = confirm_subject(message, owner.project or "")
            if subject:
                await self._confirm(subject, outcome_key(named.execution_id, named.attempt, late=named.late))

    async def _owner_of(self, message: Msg, named: OutcomeIdentity | None) -> DeadLetterOwner:
        """Return the run and project of an unreadable outcome if it has the ticket of a call that the ledger has.

        Anybody may name a call.
        """
        if named is None or named.run_id is None:
            return UNKNOWN_OWNER
        if self._tickets.fault(named.ticket, named.execution_id, named.attempt, named.run_id, at_start=False):
            return UNKNOWN_OWNER
        try:
            return await confirmed(
                self._dead.pool,
                DeadLetterOwner(run_id=named.run_id, effect_id=named.execution_id, attempt=named.attempt),
            )
        except DATABASE_DOWN:
            return UNKNOWN_OWNER  # the dead letter can't be stored now either, so the message is redelivered

    async def _confirm(self, subject: str, *keys: str) -> None:
        await self._bus.publish(subject, OutcomeConfirmed(keys=keys).model_dump_json().encode())

    def _update(self, item: PendingOutcome) -> CallUpdate:
        """The cache has no resolution of the call's approval, which the run may have missed: then read the row."""
        update = item.update()
        known = self._ledger.cached_call(item.outcome.execution_id)
        update.read = update.read or (known is not None and known.approval_id is not None)
        return update

    async def _handle(self, items: list[PendingOutcome]) -> None:
        updates = [self._update(item) for item in items]
        await self._ledger.apply(self._lane, updates)
        crash_point("tas.outcome_written")
        confirmed: dict[str, list[str]] = defaultdict(list)
        for item, update in zip(items, updates, strict=True):
            if await self._finish(item, update) and (
                subject := confirm_subject(item.message, item.project, item.toolset)
            ):
                confirmed[subject].append(item.outcome.key)
        for subject, keys in confirmed.items():
            await self._confirm(subject, *keys)
            await crash_point_after_flush("tas.outcome_confirmed")

    async def _finish(self, item: PendingOutcome, update: CallUpdate) -> bool:
        """Send and acknowledge; return whether the outcome was stored or set aside."""
        if update.error:
            # A set-aside outcome is confirmed too: otherwise the worker would send it forever.
            return await self._dead.failed(item.message, update.error, DeadLetterOwner(run_id=update.run_id))
        if update.contested:
            await self._guard.give_back(item.message, CONTESTED_S)
            return False
        await self._dispatcher.send(update.change)
        self._metrics.stay_seconds.labels("outcome").observe(age_s(item.message))
        await crash_point_after_flush("tas.outcome_before_ack")
        if update.change.dead_letter_reason:
            await self._dead.set_aside(
                item.message, update.change.dead_letter_reason, DeadLetterOwner(run_id=update.run_id)
            )
        else:
            await self._guard.settle(item.message)
            await crash_point_after_flush("tas.outcome_acked")
        return True


def confirm_subject(message: Msg, project: str, toolset: str = "") -> str:
    """Return the subject on which the worker waits, or an empty string if it is no allowed one.

    It must be one of *toolset* of *project*; of any toolset where that is empty, and of no project where that is. A
    worker names the subject itself: with any other it could make this service publish for it.
    """
    subject: str = (message.headers or {}).get(CONFIRM_HEADER, "")
    own = ".".join(filter(None, ("tool.confirm", project, toolset)))
    places = ("_INBOX", f"{own}.") if project else ("_INBOX",)
    allowed = subject.startswith(places) and not any(sign in subject for sign in " *>\r\n\t")
    return subject if allowed else ""


def _named_by(message: Msg) -> OutcomeIdentity | None:
    """Return what an unreadable outcome says it is the outcome of; None where even that can't be read."""
    try:
        return OutcomeIdentity.model_validate_json(message.data)
    except ValidationError:
        return None


def _named_in_header(message: Msg, tickets: TicketIssuer) -> OutcomeIdentity | None:
    """Return what the header says the message is the outcome of, as far as a ticket vouches for it."""
    key, _, ticket = (message.headers or {}).get(OUTCOME_HEADER, "").partition(" ")
    try:
        claims = tickets.read(ticket)
    except TicketRefusedError:
        return None
    late = key == outcome_key(claims.execution_id, claims.attempt, late=True)
    if not late and key != outcome_key(claims.execution_id, claims.attempt):
        return None
    return OutcomeIdentity(
        execution_id=claims.execution_id, attempt=claims.attempt, run_id=claims.run_id, late=late, ticket=ticket
    )


def outcome_number(message: Msg) -> int:
    """Return the number of a message that copies of it share: a worker sends an outcome until it is confirmed."""
    named = (message.headers or {}).get(OUTCOME_HEADER)
    if named is None:
        return delivery_number(message)
    return int.from_bytes(hashlib.sha256(named.encode("utf-8", "replace")).digest()[:8], "big", signed=True)
