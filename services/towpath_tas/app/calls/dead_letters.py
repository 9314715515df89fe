"""Dead letters of the streams between this service and the workers.

A worker may report deliveries only, and its report counts only as far as the ledger confirms it, including whose call
it was. The run gets what the ledger has, not what the worker reports. A dead letter is republished only into a stream
that this service writes.
"""

from dataclasses import replace
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.dead_letters import ReportDeadLetter, RepublishDeadLetter
from towpath_contracts.facts import MessageDeadFact
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_fabric.dead_letters import (
    UNKNOWN_OWNER,
    DeadLetterOwner,
    decode_reported_body,
    owner_of_message,
    requeue_id,
    store_reported_dead_letter,
)
from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.dispatcher import MESSAGE_ID, LedgerEffectPublisher
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.outcomes import on_dead_delivery
from towpath_tas.metrics import TasMetrics

DELIVERIES = "TOOLEXEC"
OWN_STREAMS = frozenset({DELIVERIES, "TOOLOUT"})


class WorkerDeadLetters:
    """Stores dead letters that workers report, and republishes them."""

    def __init__(
        self,
        pool: Database,
        bus: MessageBus,
        ledger: LedgerStore,
        dispatcher: LedgerEffectPublisher,
        metrics: TasMetrics,
        log: Logger,
    ) -> None:
        self._pool = pool
        self._bus = bus
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._log = log

    async def send_fact(self, fact: MessageDeadFact) -> bool:
        """Send a fact to its run; False if the broker did not accept it."""
        return await self._bus.store(subjects.run_inbox("tas", fact.run_id), fact.model_dump_json().encode())

    async def report(self, request: ReportDeadLetter) -> ActionDone:
        """Store a delivery that a worker could not read, and send the call again if it waits for that delivery."""
        project, toolset = _addressee(request)
        body = decode_reported_body(request)
        known = await confirmed(self._pool, owner_of_message(body), addressee=(project, toolset))
        if not await store_reported_dead_letter(self._pool, request, body, known):
            self._log.error("too many open dead letters, this one is only counted", stream=DELIVERIES)
        self._metrics.dead.labels(DELIVERIES).inc()
        if request.tells and known.run_id is not None and known.effect_id is not None:
            await self._dispatch_again(known.run_id, known.effect_id, known.attempt, project, toolset, request.reason)
        return ActionDone(detail="kept")

    async def _dispatch_again(
        self, run_id: UUID, execution_id: UUID, attempt: int, project: str, toolset: str, reason: str
    ) -> None:
        times: int = await self._pool.fetchval(QUERIES.dead_deliveries, run_id, execution_id)

        def decide(context: LedgerContext) -> LedgerChange:
            call = context.call if context.call is not None and context.call.project == project else None
            return on_dead_delivery(call, attempt, toolset, reason, times=times)

        update = CallUpdate(run_id=run_id, execution_id=execution_id, project=project, decide=decide, read=True)
        lane = PinnedDatabaseConnection(self._pool)
        try:
            await self._ledger.apply(lane, [update])
        finally:
            await lane.close()
        if update.error or update.contested:
            raise ProblemError(problem("unavailable", update.error or "the call is contested", retry_after_s=1))
        await self._dispatcher.send(update.change)

    async def republish(self, request: RepublishDeadLetter) -> ActionDone:
        """Publish a dead letter again in its stream; raises ProblemError for a stream of another service."""
        row = await self._pool.fetchrow(QUERIES.dead_letter, request.dead_letter_id)
        if row is None or row["stream"] not in OWN_STREAMS:
            detail = f"no dead letter {request.dead_letter_id} of {', '.join(sorted(OWN_STREAMS))}"
            raise ProblemError(problem("not_found", detail))
        headers = {MESSAGE_ID: requeue_id(request.dead_letter_id, row["body"])}
        if not await self._bus.store(row["subject"], row["body"], headers):
            raise ProblemError(problem("unavailable", "the broker did not take the letter", retry_after_s=2))
        return ActionDone(detail=f"sent again on {row['subject']}")


async def confirmed(
    pool: Database, reported: DeadLetterOwner, addressee: tuple[str, str] | None = None
) -> DeadLetterOwner:
    """Return *reported* with the project of its call if the ledger has that call, else UNKNOWN_OWNER.

    *addressee* is the project and toolset that the call must belong to.
    """
    if reported.run_id is None or reported.effect_id is None:
        return UNKNOWN_OWNER
    row = await pool.fetchrow(QUERIES.project_of_call, reported.run_id, reported.effect_id)
    if row is None or addressee not in (None, (row["project"], row["toolset"])):
        return UNKNOWN_OWNER
    return replace(reported, project=row["project"])


def _addressee(request: ReportDeadLetter) -> tuple[str, str]:
    """Return project and toolset of the delivery's subject; raises ProblemError for any other subject."""
    tokens = request.subject.split(".")
    if request.stream != DELIVERIES or len(tokens) != 4 or tokens[:2] != ["tool", "exec"]:
        raise ProblemError(problem("forbidden", "a worker may report deliveries only"))
    return tokens[2], tokens[3]
