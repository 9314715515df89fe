"""`tool.request`: may this call happen? One commit per batch, then the invocations go out.

A request is acknowledged after its decision is stored and sent, never before. A request for a call that is not
known is taken for new, and Postgres says so if it is not.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.problems.registry import describe_validation_error
from towpath_contracts.tools.calls import ToolRequest
from towpath_fabric.clock import wall_ns
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.dead_letters import About, DeadLetters, about_of
from towpath_fabric.nats.pull_consumer import ack, age_s, deliveries, nak
from towpath_fabric.ports import Feed
from towpath_fabric.postgres.pinned_connection import Lane
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import Telemetry
from towpath_readings.spans import authorization_span
from towpath_tas.app.calls.dispatcher import CallDispatcher
from towpath_tas.app.calls.ledger_store import DecisionContext, LedgerStore, LedgerUpdate
from towpath_tas.core.authorization import AuthorizationQuery, query_of_request
from towpath_tas.core.calls.call import LedgerChange
from towpath_tas.core.calls.switch_holds import on_held_request
from towpath_tas.core.policy.policy_comparison import with_shadow_note
from towpath_tas.metrics import TasMetrics

DATABASE_WAIT_S = 0.25
CONTESTED_S = 0.2


@dataclass(slots=True)
class PendingRequest:
    """One request on its way."""

    message: Msg
    request: ToolRequest
    asked: AuthorizationQuery
    args_digest: str

    def decide(self, picture: DecisionContext) -> LedgerChange:
        """Ask the core; where it first decides a call, a shadow has its say beside it."""
        step = on_held_request(
            picture.call,
            self.request,
            self.asked,
            self.args_digest,
            picture.authorize,
            picture.holding(self.asked.who, self.asked.tool),
            now=picture.now,
            fence=picture.fence,
            approval=picture.approval,
        )
        if picture.law.shadow is None or picture.call is not None:
            return step
        return with_shadow_note(step, picture.traced(self.asked), picture.law)

    def entry(self) -> LedgerUpdate:
        """Return what the book has to do."""
        request = self.request
        again = deliveries(self.message) > 1 or request.attempt > 1
        return LedgerUpdate(
            run_id=request.run_id,
            execution_id=request.execution_id,
            project=request.project,
            counted_for=request.root_run_id,
            decide=self.decide,
            fresh=not again,
            read=again,
        )


class ToolRequestConsumer:
    """The loop of tool requests. One per process; `run` never returns."""

    def __init__(
        self,
        consumer: Feed,
        lane: Lane,
        book: LedgerStore,
        sender: CallDispatcher,
        dead: DeadLetters,
        metrics: TasMetrics,
        log: Logger,
        *,
        batch_size: int,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._consumer = consumer
        self._lane = lane
        self._book = book
        self._sender = sender
        self._dead = dead
        self._metrics = metrics
        self._log = log
        self._batch_size = batch_size

    async def run(self) -> None:
        """Handle requests for ever."""
        while True:
            messages = await self._consumer.take(self._batch_size)
            self._metrics.batch.labels("request").observe(len(messages))
            crash_point("tas.request_taken")
            items = [item for message in messages if (item := await self._parsed(message)) is not None]
            while items:
                try:
                    await self._handle(items)
                    items = []
                except DATABASE_DOWN as error:
                    self._log.warning("postgres is away, requests wait", error=str(error))
                    self._consumer.paused = True
                    await asyncio.sleep(DATABASE_WAIT_S)
            self._consumer.paused = False

    async def _parsed(self, message: Msg) -> PendingRequest | None:
        try:
            request = ToolRequest.model_validate_json(message.data)
            text = canonical_json(request.args)
        except ValidationError as error:
            reason = f"not a tool request: {describe_validation_error(error)}"
            await self._dead.set_aside(message, reason, about_of(message.data))
            return None
        except ValueError as error:  # NaN is not JSON, and a lone surrogate is not text
            await self._dead.set_aside(message, f"arguments that are not JSON: {error}", about_of(message.data))
            return None
        return PendingRequest(message, request, query_of_request(request, text), digest_text(text))

    async def _handle(self, items: list[PendingRequest]) -> None:
        entries = [item.entry() for item in items]
        start_ns = wall_ns()
        await self._book.apply(self._lane, entries)
        crash_point("tas.request_written")
        for item, entry in zip(items, entries, strict=True):
            await self._finish(item, entry)
        if self._telemetry is not None and self._telemetry.enabled:
            self._trace(self._telemetry, zip(items, entries, strict=True), start_ns)

    @staticmethod
    def _trace(telemetry: Telemetry, handled: Iterable[tuple[PendingRequest, LedgerUpdate]], start_ns: int) -> None:
        for item, entry in handled:
            for note in entry.step.notes:
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

    async def _finish(self, item: PendingRequest, entry: LedgerUpdate) -> None:
        if entry.error:
            await self._dead.failed(item.message, entry.error, about_of(item.message.data))
            return
        if entry.contested:
            await nak(item.message, CONTESTED_S)
            return
        await self._sender.send(entry.step, entry.counted_for)
        self._metrics.stay_seconds.labels("request").observe(age_s(item.message))
        await crash_point_sent("tas.request_before_ack")
        if entry.step.dead:
            known = About(run_id=entry.run_id, project=item.request.project)  # the step itself tells the run
            await self._dead.set_aside(item.message, entry.step.dead, known)
        else:
            await ack(item.message)
            await crash_point_sent("tas.request_acked")
