"""Handles `tool.outcome`: one commit per batch, then facts to the runs and confirmations to the workers.

A worker deletes an outcome when TAS confirms it, so a confirmation never leaves before the commit. An
outcome that is only kept as evidence, or belongs to no call, is confirmed too: sending it again would change nothing.
It is confirmed to workers of the project and toolset that the ledger has, or of the project of a good ticket. Without a
good ticket it has to name a start that was granted, where one was, and an unreadable one is nobody's: no worker is told
by another one, through this service, to forget what it has not reported. An outcome that ended the service each time it
was read is confirmed without being read, by the key and the ticket in its header.

Outcomes of all projects come one after another, and a worker may send anything, as often as it likes. So the ledger is
asked about few of a batch that have no good ticket or are of one call, copies of one outcome are handled as one, and
the rest is set aside by one statement. That is not confirmed: an honest worker sends it again.
"""

import asyncio
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.base import Message
from towpath_contracts.rpc import CONFIRM_HEADER, OUTCOME_HEADER
from towpath_contracts.tools.calls import OutcomeConfirmed, ToolOutcome, outcome_key
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.dead_letter_reports import delivery_number
from towpath_fabric.dead_letters import (
    MAX_BODY,
    MAX_REPORTED_BODY,
    UNKNOWN_OWNER,
    DeadLetterOwner,
    DeadLetters,
    UndeliverableMessage,
)
from towpath_fabric.nats.pull_consumer import age_s, deliveries
from towpath_fabric.ports import MessageBus, MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import refusal_reason, store_or_refuse
from towpath_fabric.redelivery.poison_messages import PoisonGuard
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketRefusedError
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher, TicketIssuer
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.outcome_reader import MAX_OF_CALL, OutcomeFault, OutcomeReader
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.outcomes import may_forget, on_outcome
from towpath_tas.core.calls.switch_holds import hold
from towpath_tas.metrics import TasMetrics

DATABASE_WAIT_S = 0.25
CONTESTED_S = 0.2

MAX_UNVOUCHED = 32
"""Outcomes without a good ticket that the ledger is asked about in one batch: after a change of keys all come so."""

READ_S = 0.01
"""How long outcomes are read before other tasks may run."""


_DIGEST = re.compile("sha256:[0-9a-f]{64}")


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
    owner: DeadLetterOwner = UNKNOWN_OWNER
    copies: list[Msg] = field(default_factory=list)

    @property
    def kept_bytes(self) -> int:
        """How much of it a dead letter keeps: a result that nothing vouches for may be of any length."""
        return MAX_REPORTED_BODY if self.owner is UNKNOWN_OWNER else MAX_BODY

    def decide(self, context: LedgerContext) -> LedgerChange:
        if context.call is not None:
            self.owner = DeadLetterOwner(run_id=context.call.run_id, project=context.call.project)
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
        redelivered = any(deliveries(message) > 1 for message in (self.message, *self.copies))
        again = redelivered or self.outcome.status == "ticket_expired"
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
        items: list[PendingOutcome] = []
        unreadable: dict[bool, list[tuple[Msg, str]]] = {True: [], False: []}
        reader, began = OutcomeReader(self._tickets), monotonic()
        for message in messages:
            read = reader.read(message)
            if isinstance(read, OutcomeFault):
                unreadable[not read.is_unread].append((message, read.reason))
            else:
                items.append(self._pending(message, *read))
            if monotonic() - began >= READ_S:
                await asyncio.sleep(0)
                began = monotonic()
        for reads, refused in unreadable.items():
            await self._refuse_all(refused, reads=reads)
        items, surplus = without_surplus(items)
        await self._dead.set_aside_all(surplus)
        while items:
            try:
                await store_or_refuse(items, self._handle, self._refuse_value)
                items = []
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, outcomes wait", error=str(error))
                self._consumer.paused = True
                await asyncio.sleep(DATABASE_WAIT_S)
        self._consumer.paused = False

    async def _refuse_value(self, item: PendingOutcome, error: Exception) -> None:
        """Set an outcome aside that holds what Postgres can't store; the run's next request for one decides."""
        await self._give_back(*item.copies)
        if await self._dead.set_aside(item.message, refusal_reason(error), item.owner):
            await self._confirm_all({confirm_subject(item.message, item.project, item.toolset): [item.outcome.key]})

    def _pending(self, message: Msg, outcome: ToolOutcome, fault: str) -> PendingOutcome:
        if fault:
            return PendingOutcome(message, outcome, fault)
        project = self._tickets.read(outcome.ticket).project
        owner = DeadLetterOwner(run_id=outcome.run_id, project=project)
        return PendingOutcome(message, outcome, fault, project, owner=owner)

    async def _refuse(self, message: Msg, reason: str, reads: bool) -> None:
        await self._refuse_all([(message, reason)], reads=reads)

    async def _refuse_all(self, refused: Sequence[tuple[Msg, str]], *, reads: bool = True) -> None:
        """Set outcomes aside and confirm them, so that workers forget them. The run's next request for one decides."""
        letters: list[UndeliverableMessage] = []
        identities: list[OutcomeIdentity | None] = []
        for message, reason in refused:
            named = _named_by(message) if reads else _named_in_header(message, self._tickets)
            owner = self._owner_of(named)
            kept = MAX_REPORTED_BODY if owner is UNKNOWN_OWNER else MAX_BODY
            letters.append(UndeliverableMessage(message=message, reason=reason, owner=owner, kept_bytes=kept))
            identities.append(named)
        keys: dict[str, list[str]] = defaultdict(list)
        done = await self._dead.set_aside_all(letters)
        for letter, named, is_kept in zip(letters, identities, done, strict=True):
            if is_kept and named is not None:  # else nobody could be told
                subject = confirm_subject(letter.message, letter.owner.project or "")
                keys[subject].append(outcome_key(named.execution_id, named.attempt, late=named.late))
        await self._confirm_all(keys)

    def _owner_of(self, named: OutcomeIdentity | None) -> DeadLetterOwner:
        """Return whose an unreadable outcome is if it has the ticket of its call: anybody may name one."""
        if named is None or named.run_id is None:
            return UNKNOWN_OWNER
        if self._tickets.fault(named.ticket, named.execution_id, named.attempt, named.run_id, at_start=False):
            return UNKNOWN_OWNER
        return DeadLetterOwner(
            run_id=named.run_id,
            effect_id=named.execution_id,
            attempt=named.attempt,
            project=self._tickets.read(named.ticket).project,
        )

    async def _confirm_all(self, keys: dict[str, list[str]]) -> None:
        """Confirm outcomes by subject; those without an allowed one, under an empty subject, to nobody."""
        for subject, confirmed in keys.items():
            if subject:
                await self._bus.publish(subject, OutcomeConfirmed(keys=tuple(confirmed)).model_dump_json().encode())
                await crash_point_after_flush("tas.outcome_confirmed")

    def _update(self, item: PendingOutcome) -> CallUpdate:
        """The cache has no resolution of the call's approval, which the run may have missed: then read the row."""
        update = item.update()
        known = self._ledger.cached_call(item.outcome.execution_id)
        update.read = update.read or (known is not None and known.approval_id is not None)
        return update

    async def _handle(self, items: Sequence[PendingOutcome]) -> None:
        updates = [self._update(item) for item in items]
        if named := named_blobs(items):
            projects, digests = map(list, zip(*named, strict=True))
            await self._lane.fetch(QUERIES.use_blobs, projects, digests)
        await self._ledger.apply(self._lane, updates)
        crash_point("tas.outcome_written")
        pairs = list(zip(items, updates, strict=True))
        finished = [item for item, update in pairs if await self._finish(item, update)]
        refused = [(item, update) for item, update in pairs if _is_refused(update)]
        letters = [_letter(item, update.change.dead_letter_reason) for item, update in refused]
        done = await self._dead.set_aside_all(letters)
        finished += [item for (item, _), is_kept in zip(refused, done, strict=True) if is_kept]
        keys: dict[str, list[str]] = defaultdict(list)
        for item in finished:
            keys[confirm_subject(item.message, item.project, item.toolset)].append(item.outcome.key)
        await self._confirm_all(keys)

    async def _finish(self, item: PendingOutcome, update: CallUpdate) -> bool:
        """Send and acknowledge what is not refused; return whether the outcome was stored or set aside."""
        if update.error:
            # A set-aside outcome is confirmed too: otherwise the worker would send it forever.
            is_kept = await self._dead.failed(item.message, update.error, item.owner)
            await self._give_back(*item.copies)
            return is_kept
        if update.contested:
            await self._give_back(item.message, *item.copies)
            return False
        await self._dispatcher.send(update.change)
        self._metrics.stay_seconds.labels("outcome").observe(age_s(item.message))
        await crash_point_after_flush("tas.outcome_before_ack")
        refused = _is_refused(update)
        for message in item.copies if refused else (item.message, *item.copies):
            await self._guard.settle(message)
            await crash_point_after_flush("tas.outcome_acked")
        return not refused

    async def _give_back(self, *messages: Msg) -> None:
        for message in messages:
            await self._guard.give_back(message, CONTESTED_S)


def without_surplus(items: Sequence[PendingOutcome]) -> tuple[list[PendingOutcome], list[UndeliverableMessage]]:
    """Return the outcomes of a batch that are handled, with their copies, and those that are too many."""
    distinct: dict[tuple[bytes, str], PendingOutcome] = {}
    for item in items:
        same = distinct.setdefault((item.message.data, _confirm_to(item.message)), item)
        if same is not item:
            same.copies.append(item.message)
    handled: list[PendingOutcome] = []
    surplus: list[UndeliverableMessage] = []
    of_call: Counter[tuple[UUID, bool]] = Counter()  # what is forged takes no room from what a worker reports
    unvouched = 0
    for item in distinct.values():
        unvouched += bool(item.fault)
        call = (item.outcome.execution_id, bool(item.fault))
        of_call[call] += 1
        if item.fault and unvouched > MAX_UNVOUCHED:
            surplus += _letters(item, f"one of many outcomes at once with a ticket that is {item.fault}")
        elif of_call[call] > MAX_OF_CALL:
            surplus += _letters(item, f"one of more than {MAX_OF_CALL} outcomes of its call at once")
        else:
            handled.append(item)
    return handled, surplus


def named_blobs(items: Iterable[PendingOutcome]) -> list[tuple[str, str]]:
    """Return the blobs, as project and digest, that outcomes with a good ticket name; a worker may name any text."""
    named = (
        (item.project, digest)
        for item in items
        if not item.fault
        for digest in (item.outcome.blob and item.outcome.result_digest, *(one.digest for one in item.outcome.changes))
        if digest and _DIGEST.fullmatch(digest)
    )
    return list(dict.fromkeys(named))


def _is_refused(update: CallUpdate) -> bool:
    return not update.error and not update.contested and bool(update.change.dead_letter_reason)


def _letter(item: PendingOutcome, reason: str) -> UndeliverableMessage:
    return UndeliverableMessage(message=item.message, reason=reason, owner=item.owner, kept_bytes=item.kept_bytes)


def _letters(item: PendingOutcome, reason: str) -> list[UndeliverableMessage]:
    letter = _letter(item, reason)
    return [letter, *(replace(letter, message=copied) for copied in item.copies)]


def _confirm_to(message: Msg) -> str:
    named: str = (message.headers or {}).get(CONFIRM_HEADER, "")
    return named


def confirm_subject(message: Msg, project: str, toolset: str = "") -> str:
    """Return the subject on which the worker waits, or an empty string if it is no allowed one.

    It must be one that the login of a worker of *toolset* of *project* may listen to, of any toolset where that is
    empty; there is none without a project. A worker names the subject itself: with any other, also the place where a
    service waits for an answer, it could make this service publish for it.
    """
    subject = _confirm_to(message)
    match subject.split("."):
        case ["tool", "confirm", named, tools, place] if project and named == project and toolset in ("", tools):
            return subject if place and not any(sign in subject for sign in " *>\r\n\t") else ""
    return ""


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
