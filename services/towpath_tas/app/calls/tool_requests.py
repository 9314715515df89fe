"""Handles `tool.request`: one commit per batch, then the invocations are sent.

A request is acknowledged after its decision is stored and sent, never before. A request for an unknown call is assumed
to be new, and Postgres rejects the row if it is not.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.tools.calls import ToolRequest
from towpath_fabric.clock import wall_ns
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.dead_letters import DeadLetterOwner, DeadLetters, owner_of_message
from towpath_fabric.nats.pull_consumer import age_s, deliveries
from towpath_fabric.ports import MessageConsumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import refusal_reason, store_or_refuse
from towpath_fabric.redelivery.poison_messages import PoisonGuard
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.spans import authorization_span
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.app.calls.dispatcher import LedgerEffectPublisher
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.core.authorization_query import AuthorizationQuery, query_of_request
from towpath_tas.core.call import LedgerChange
from towpath_tas.core.calls.switch_holds import on_held_request
from towpath_tas.core.policy_comparison import with_shadow_note
from towpath_tas.metrics import TasMetrics

DATABASE_WAIT_S = 0.25
CONTESTED_S = 0.2


@dataclass(slots=True)
class ReceivedToolRequest:
    """A request in progress."""

    message: Msg
    request: ToolRequest
    query: AuthorizationQuery
    args_digest: str
    poison: str = ""
    """Why its call is denied without being looked at; empty for any other request."""

    def decide(self, context: LedgerContext) -> LedgerChange:
        """Call the core; on the first decision about a call, the shadow policy is evaluated too."""
        change = on_held_request(
            context.call,
            self.request,
            self.query,
            self.args_digest,
            context.bundle.deny_poison if self.poison else context.authorize,
            context.active_switch(self.query.principal, self.query.tool),
            now=context.now,
            fence=context.fence,
            approval=context.approval,
        )
        if context.bundle.shadow is None or context.call is not None or self.poison:
            return change
        return with_shadow_note(change, context.with_origin(self.query), context.bundle, context.budget)

    def update(self) -> CallUpdate:
        request = self.request
        again = deliveries(self.message) > 1 or request.attempt > 1
        return CallUpdate(
            run_id=request.run_id,
            execution_id=request.execution_id,
            project=request.project,
            usage_run_id=request.counts_run_id or request.root_run_id,
            root_run_id=request.root_run_id,
            decide=self.decide,
            attempt=request.attempt,
            fresh=not again,
            read=again,
        )


class ToolRequestConsumer:
    """Consumes tool requests. One per process; `run` never returns."""

    def __init__(
        self,
        consumer: MessageConsumer,
        lane: PinnedDatabaseConnection,
        ledger: LedgerStore,
        dispatcher: LedgerEffectPublisher,
        dead: DeadLetters,
        guard: PoisonGuard,
        metrics: TasMetrics,
        log: Logger,
        *,
        batch_size: int,
        telemetry: SpanRecorder | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._consumer = consumer
        self._lane = lane
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._dead = dead
        self._guard = guard
        self._metrics = metrics
        self._log = log
        self._batch_size = batch_size

    async def run(self) -> None:
        while True:
            messages = await self._consumer.take(self._batch_size)
            self._metrics.batch.labels("request").observe(len(messages))
            crash_point("tas.request_taken")
            together, watched = self._guard.apart(messages)
            if together:
                await self._handle_until_stored(together)
            for message in watched:
                async with self._guard.alone(message, self._deny) as admitted:
                    if admitted:
                        await self._handle_until_stored([message])

    async def _handle_until_stored(self, messages: Iterable[Msg], poison: str = "") -> None:
        items = [item for message in messages if (item := await self._parsed(message)) is not None]
        for item in items:
            item.poison = poison
        while items:
            try:
                await store_or_refuse(items, self._handle, self._refuse_value)
                items = []
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, requests wait", error=str(error))
                self._consumer.paused = True
                await asyncio.sleep(DATABASE_WAIT_S)
        self._consumer.paused = False

    async def _refuse_value(self, item: ReceivedToolRequest, error: Exception) -> None:
        """Set a request aside that holds what Postgres can't store; its run asks again, or ends as `dead_lettered`."""
        await self._dead.set_aside(item.message, refusal_reason(error), owner_of_message(item.message.data))

    async def _deny(self, message: Msg, reason: str, reads: bool) -> None:
        """Deny the call of a poison message; where even that ends the process, keep the message and nothing else."""
        if reads:
            await self._handle_until_stored([message], reason)
        else:
            await self._dead.set_aside(message, reason)

    async def _parsed(self, message: Msg) -> ReceivedToolRequest | None:
        try:
            request = ToolRequest.model_validate_json(message.data)
            text = canonical_json(request.args)
        except ValidationError as error:
            reason = f"not a tool request: {describe_validation_error(error)}"
            await self._dead.set_aside(message, reason, owner_of_message(message.data))
            return None
        except ValueError as error:  # NaN is not JSON, and a lone surrogate is not text
            await self._dead.set_aside(message, f"arguments that are not JSON: {error}", owner_of_message(message.data))
            return None
        return ReceivedToolRequest(message, request, query_of_request(request, text), digest_text(text))

    async def _handle(self, items: Sequence[ReceivedToolRequest]) -> None:
        updates = [item.update() for item in items]
        start_ns = wall_ns()
        await self._ledger.apply(self._lane, updates)
        crash_point("tas.request_written")
        for item, update in zip(items, updates, strict=True):
            await self._finish(item, update)
        if self._telemetry is not None and self._telemetry.enabled:
            self._trace(self._telemetry, zip(items, updates, strict=True), start_ns)

    @staticmethod
    def _trace(
        telemetry: SpanRecorder, handled: Iterable[tuple[ReceivedToolRequest, CallUpdate]], start_ns: int
    ) -> None:
        for item, update in handled:
            for note in update.change.notes:
                if note.phase == "decision":
                    span = authorization_span(
                        item.request,
                        start_ns=start_ns,
                        end_ns=wall_ns(),
                        verdict=note.verdict,
                        rule=note.call.rule,
                        policy_version=note.call.policy_version,
                        args_digest=item.args_digest,
                    )
                    telemetry.record(item.request.run_id, span)

    async def _finish(self, item: ReceivedToolRequest, update: CallUpdate) -> None:
        if update.error:
            await self._dead.failed(item.message, update.error, owner_of_message(item.message.data))
            return
        if update.contested:
            await self._guard.give_back(item.message, CONTESTED_S)
            return
        await self._dispatcher.send(update.change, item.request.root_run_id or item.request.run_id)
        self._metrics.stay_seconds.labels("request").observe(age_s(item.message))
        await crash_point_after_flush("tas.request_before_ack")
        reason = update.change.dead_letter_reason or item.poison
        if reason:
            known = DeadLetterOwner(
                run_id=update.run_id, project=item.request.project
            )  # the change itself informs the run
            await self._dead.set_aside(item.message, reason, known)
        else:
            await self._guard.settle(item.message)
            await crash_point_after_flush("tas.request_acked")
