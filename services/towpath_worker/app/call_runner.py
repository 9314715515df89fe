"""The way of one call through the worker: ticket, claim, function, outcome.

Each step either leads on or ends the call for a stated reason; the envelope is believed only as far as its ticket
confirms it.
"""

from typing import Literal
from uuid import uuid4

from nats.aio.msg import Msg

from towpath.tools.declaration import AnyTool
from towpath.tools.toolbox import Toolbox
from towpath_contracts.canonical import digest
from towpath_contracts.rpc import DEAD_LETTER_CALLS
from towpath_contracts.subjects import for_toolset
from towpath_contracts.tools.calls import ClaimStart, EffectClass, TicketClaims, ToolOutcome
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.dead_letter_reports import report_dead
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import ack, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketFault, TicketRefusedError
from towpath_worker.app.call import Call, Stage
from towpath_worker.app.call_execution import TOO_LATE, Performer, cancelled, unsure
from towpath_worker.app.outcome_outbox import LateOutcomes, Outbox
from towpath_worker.app.registration import Registration
from towpath_worker.app.start_claims import Claim, claim_start
from towpath_worker.core.results import CutOffError, failure_of
from towpath_worker.metrics import WorkerMetrics

MALFORMED = "malformed"
"""Why a delivery that can't be read is refused: the one reason of which its run should hear."""

UNKNOWN_TOOL_DELAY_S = 2.0
"""Another worker of the toolset may have the tool, e.g. during a rolling upgrade."""


class CallServer:
    """Serves calls one by one; many at once."""

    def __init__(
        self,
        bus: Bus,
        toolbox: Toolbox,
        *,
        worker: str,
        project: str,
        registration: Registration,
        performer: Performer,
        outbox: Outbox,
        metrics: WorkerMetrics,
        log: Logger,
    ) -> None:
        self._bus = bus
        self._toolbox = toolbox
        self._worker = worker
        self._project = project
        self._registration = registration
        self._performer = performer
        self._outbox = outbox
        self._late = LateOutcomes(outbox, log)
        self._metrics = metrics
        self._log = log

    async def serve(self, call: Call, toolset: str) -> None:
        """Take a call from its ticket to its outcome."""
        claims = await self._permitted(call, toolset)
        if isinstance(claims, ToolOutcome):
            return await self.report(call, claims)
        if claims is None:
            return None
        crash_point("worker.verified")
        tool = self._toolbox.find(call.invocation.tool, toolset)
        if tool is None:
            self._metrics.refused.labels("tool_unknown").inc()
            return await nak(call.deliveries[-1], UNKNOWN_TOOL_DELAY_S)
        timeout_s = min(call.invocation.timeout_ms, tool.spec.timeout_ms) / 1000
        if claims.effect_class is not EffectClass.PURE or tool.spec.effect_class is not EffectClass.PURE:
            crash_point("worker.before_claim")
            claim = await self._claim(call, claims)
            crash_point("worker.claim_answered")
            if claim.expired:
                return await self.report(call, self._performer.expired(call))
            if not claim.granted:
                return await self._stand_down(call, claim)
            late = self._too_late(call, claim)
            if late is not None:
                return await self.report(call, late)
            call.lease_until_s = claim.lease_until_s
            call.probing = claim.probe or _probing(call, claims, tool)
        return await self.report(call, await self._performer.perform(call, tool, timeout_s))

    async def report(self, call: Call, outcome: ToolOutcome) -> None:
        """Hand the outcome to the outbox; of a call that was reported as hung before it ended, as a late one."""
        if call.stage is Stage.ABANDONED:
            self._late.tell(call, outcome)
            return
        crash_point("worker.outcome_made")
        call.stage = Stage.REPORTING
        await self._outbox.post(call.key, outcome.model_dump_json().encode(), call.deliveries)

    def report_overrun(self, call: Call) -> None:
        """Report what a plain function came to that ran over its time; call it when its thread has ended."""
        if call.thread is not None and not call.thread.cancelled():
            succeeded, value = call.thread.result()
            self._late.tell(call, self._performer.ended_late(call, value if succeeded else failure_of(value)))

    def close(self) -> None:
        """Tell nothing any more."""
        self._late.close()

    async def report_hung(self, call: Call) -> None:
        """Report a call whose function ignores that it was cut off; what it may return later is told later."""
        error = CutOffError("the tool did not end in time and ignores that it was cut off")
        call.stage = Stage.ABANDONED
        tool = self._toolbox.find(call.invocation.tool, call.invocation.toolset)
        failure = failure_of(error) if tool is None else unsure(tool, failure_of(error))
        self._log.warning("a tool ignores its timeout", tool=call.invocation.tool, execution_id=call.key)
        outcome = self._performer.failed(call, failure)
        await self._outbox.post(call.key, outcome.model_dump_json().encode(), call.deliveries)

    async def refuse(self, message: Msg, reason: str, *, detail: str = "") -> None:
        """Take a delivery out of the stream for good, once TAS keeps it as a dead letter: it must never run."""
        self._metrics.refused.labels(reason).inc()
        self._log.warning("delivery refused", reason=reason, subject=message.subject, detail=detail)
        said = f"{reason}: {detail}" if detail else reason
        toolset = message.subject.rpartition(".")[2]  # a delivery comes on tool.exec.<project>.<toolset>
        await report_dead(
            *(self._bus, DEAD_LETTER_CALLS, "TOOLEXEC", message, said, self._log),
            tells=reason == MALFORMED,
            asked_on=for_toolset(DEAD_LETTER_CALLS.subject, self._project, toolset),
        )

    async def _permitted(self, call: Call, toolset: str) -> TicketClaims | ToolOutcome | None:
        """Return what the ticket says, the outcome for an expired one, or None for a call that must never run."""
        said = call.invocation
        if (said.project, said.toolset) != (self._project, toolset):
            detail = f"{call.key}: of {said.project}, {said.toolset}"
            await self.refuse(call.deliveries[-1], "misdirected", detail=detail)
            return None
        try:
            claims = self._verified(call)
        except TicketRefusedError as error:
            if error.reason is TicketFault.FORGED and await self._registration.learn_keys():
                return await self._permitted(call, toolset)  # TAS may have a new key; asked at most every few seconds
            if error.reason in {TicketFault.EXPIRED, TicketFault.OUTDATED}:
                return self._performer.expired(call)
            await self.refuse(call.deliveries[-1], f"ticket_{error.reason}", detail=f"{call.key}: {error}")
            return None
        if claims.project != said.project:
            await self.refuse(call.deliveries[-1], "ticket_mismatch", detail=f"{call.key}: of another project")
            return None
        return claims

    def _verified(self, call: Call) -> TicketClaims:
        said = call.invocation
        return self._registration.verifier.verify(
            said.ticket,
            execution_id=said.execution_id,
            attempt=said.attempt,
            run_id=said.run_id,
            tool=said.tool,
            args_digest=digest(said.args),
            now=self._registration.now_s(),
        )

    async def _claim(self, call: Call, claims: TicketClaims) -> Claim:
        call.claim_id = uuid4()
        question = ClaimStart(
            execution_id=call.invocation.execution_id,
            run_id=call.invocation.run_id,
            claim_id=call.claim_id,
            attempt=call.invocation.attempt,
            worker=self._worker,
            ticket=call.invocation.ticket,
        )
        return await claim_start(self._bus, question, claims.expires_at, self._registration.now_s)

    async def _stand_down(self, call: Call, claim: Claim) -> None:
        """TAS said no: somebody else has it, or nobody may have it. The call's deadline decides the rest."""
        self._metrics.refused.labels("claim").inc()
        self._log.info("claim refused", execution_id=call.key, tool=call.invocation.tool, reason=claim.reason)
        for delivery in call.deliveries:
            await ack(delivery)

    def _too_late(self, call: Call, claim: Claim) -> ToolOutcome | None:
        """Return the outcome of a call that certainly did not begin: cancelled, or frozen past its time to start."""
        if call.cancel_reason is not None:
            return self._performer.failed(call, cancelled(call))
        if monotonic() >= min(claim.start_by_s, claim.lease_until_s):
            return self._performer.failed(call, TOO_LATE)
        return None


def _probing(call: Call, claims: TicketClaims, tool: AnyTool) -> Literal["", "required"]:
    """Return what to do where TAS does not say: an older one can't, and a later attempt may follow a start."""
    reconcilable = claims.effect_class is tool.spec.effect_class is EffectClass.RECONCILABLE
    return "required" if reconcilable and call.invocation.attempt > 1 else ""
