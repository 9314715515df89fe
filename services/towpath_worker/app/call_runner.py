"""Takes one call through the worker: ticket, claim, function, outcome.

Each step either leads on or ends the call with a stated reason. The message is believed only as far as its ticket
confirms it, because anybody who can write to the stream can write a message.
"""

from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from nats.aio.msg import Msg

from towpath.toolbox import WorkerTools
from towpath.tools.declaration import AnyTool
from towpath_contracts.canonical import digest
from towpath_contracts.rpc import DEAD_LETTER_CALLS
from towpath_contracts.subjects import for_toolset
from towpath_contracts.tools.calls import ClaimStart, EffectClass, ToolOutcome
from towpath_contracts.tools.tickets import TicketClaims
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.dead_letter_reports import report_dead_letter
from towpath_fabric.nats.pull_consumer import ack, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.tickets import TicketFault, TicketRefusedError
from towpath_worker.app.call import CallStage, WorkerCall
from towpath_worker.app.call_execution import NOT_STARTED, CallExecutor, cancelled_failure, mark_uncertain
from towpath_worker.app.outcome_outbox import LateOutcomeReporter, OutcomeSender
from towpath_worker.app.registration import ToolsetRegistrar
from towpath_worker.app.start_claims import StartClaimResult, claim_start
from towpath_worker.core.results import CallCutOffError, failure_of
from towpath_worker.metrics import WorkerMetrics

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

MALFORMED = "malformed"
"""Why a delivery that can't be read is refused: the only reason that is reported to its run."""

UNKNOWN_TOOL_DELAY_S = 2.0
"""Another worker of the toolset may have the tool, e.g. during a rolling upgrade."""


class CallRunner:
    """Runs calls, many at once. `report_hung` and `report_overrun` are for calls that outlast their timeout."""

    def __init__(
        self,
        bus: "Bus",
        toolbox: WorkerTools,
        *,
        worker: str,
        project: str,
        registration: ToolsetRegistrar,
        executor: CallExecutor,
        outbox: OutcomeSender,
        metrics: WorkerMetrics,
        log: Logger,
    ) -> None:
        self._bus = bus
        self._toolbox = toolbox
        self._worker = worker
        self._project = project
        self._registration = registration
        self._executor = executor
        self._outbox = outbox
        self._late_outcomes = LateOutcomeReporter(outbox, log)
        self._metrics = metrics
        self._log = log
        self._lacking: set[str] = set()

    async def run(self, call: WorkerCall, toolset: str) -> None:
        """Take a call from its ticket to its outcome."""
        claims = await self._check_ticket(call, toolset)
        if isinstance(claims, ToolOutcome):
            return await self.report(call, claims)
        if claims is None:
            return None
        crash_point("worker.verified")
        tool = self._toolbox.find(call.invocation.tool, toolset)
        if tool is None:
            self._metrics.refused.labels("tool_unknown").inc()
            self._note_lacking(call.invocation.tool, toolset)
            return await nak(call.deliveries[-1], UNKNOWN_TOOL_DELAY_S)
        timeout_s = min(call.invocation.timeout_ms, tool.spec.timeout_ms) / 1000
        if claims.effect_class is not EffectClass.PURE or tool.spec.effect_class is not EffectClass.PURE:
            crash_point("worker.before_claim")
            claim = await self._claim(call, claims)
            crash_point("worker.claim_answered")
            if claim.expired:
                return await self.report(call, self._executor.expired(call))
            if not claim.granted:
                return await self._end_refused(call, claim, claims.effect_class)
            late = self._not_started(call, claim)
            if late is not None:
                return await self.report(call, late)
            call.lease_until_s = claim.lease_until_s
            call.probing = claim.probe or _default_probing(call, claims, tool)
        return await self.report(call, await self._executor.execute(call, tool, timeout_s))

    def _note_lacking(self, tool: str, toolset: str) -> None:
        """Warn once of each tool: its calls come again and again, and there are no more names than registered tools."""
        if tool not in self._lacking:
            self._lacking.add(tool)
            self._log.warning("this worker lacks a tool that is called", tool=tool, toolset=toolset)

    async def report(self, call: WorkerCall, outcome: ToolOutcome) -> None:
        """Hand the outcome to the outbox; where the call was reported as hung before, as a late outcome."""
        if call.stage is CallStage.ABANDONED:
            self._late_outcomes.report(call, outcome)
            return
        crash_point("worker.outcome_made")
        call.stage = CallStage.REPORTING
        await self._outbox.post(outcome, call.invocation.toolset, call.deliveries)

    def report_overrun(self, call: WorkerCall) -> None:
        """Report the late outcome of a plain function that outlasted its timeout; call it when its thread has ended."""
        if call.thread is not None and not call.thread.cancelled():
            succeeded, value = call.thread.result()
            self._late_outcomes.report(
                call, self._executor.late_outcome(call, value if succeeded else failure_of(value))
            )

    def close(self) -> None:
        """Report nothing any more."""
        self._late_outcomes.close()

    async def report_hung(self, call: WorkerCall) -> None:
        """Report a call whose function ignores that it was cut off; what it returns later becomes a late outcome."""
        error = CallCutOffError("the tool did not end in time and ignores that it was cut off")
        call.stage = CallStage.ABANDONED
        tool = self._toolbox.find(call.invocation.tool, call.invocation.toolset)
        failure = failure_of(error) if tool is None else mark_uncertain(tool, failure_of(error))
        self._log.warning("a tool ignores its timeout", tool=call.invocation.tool, execution_id=call.key)
        outcome = self._executor.failed(call, failure)
        await self._outbox.post(outcome, call.invocation.toolset, call.deliveries)

    async def refuse(self, message: Msg, reason: str, *, detail: str = "") -> None:
        """Take a delivery out of the stream for good, once TAS keeps it as a dead letter: it must never run."""
        self._metrics.refused.labels(reason).inc()
        self._log.warning("delivery refused", reason=reason, subject=message.subject, detail=detail)
        full_reason = f"{reason}: {detail}" if detail else reason
        toolset = message.subject.rpartition(".")[2]  # a delivery comes on tool.exec.<project>.<toolset>
        await report_dead_letter(
            *(self._bus, DEAD_LETTER_CALLS, "TOOLEXEC", message, full_reason, self._log),
            tells=reason == MALFORMED,
            subject=for_toolset(DEAD_LETTER_CALLS.subject, self._project, toolset),
        )

    async def _check_ticket(self, call: WorkerCall, toolset: str) -> TicketClaims | ToolOutcome | None:
        """Return what the ticket says, the outcome for an expired one, or None for a call that must never run."""
        invocation = call.invocation
        if (invocation.project, invocation.toolset) != (self._project, toolset):
            detail = f"{call.key}: of {invocation.project}, {invocation.toolset}"
            await self.refuse(call.deliveries[-1], "misdirected", detail=detail)
            return None
        try:
            claims = self._verify(call)
        except TicketRefusedError as error:
            if error.reason is TicketFault.FORGED and await self._registration.learn_keys():
                # TAS may sign with a new key; it is asked for keys at most every few seconds.
                return await self._check_ticket(call, toolset)
            if error.reason in {TicketFault.EXPIRED, TicketFault.OUTDATED}:
                return self._executor.expired(call)
            await self.refuse(call.deliveries[-1], f"ticket_{error.reason}", detail=f"{call.key}: {error}")
            return None
        if claims.project != invocation.project:
            await self.refuse(call.deliveries[-1], "ticket_mismatch", detail=f"{call.key}: of another project")
            return None
        return claims

    def _verify(self, call: WorkerCall) -> TicketClaims:
        invocation = call.invocation
        return self._registration.verifier.verify(
            invocation.ticket,
            execution_id=invocation.execution_id,
            attempt=invocation.attempt,
            run_id=invocation.run_id,
            tool=invocation.tool,
            args_digest=digest(invocation.args),
            run_digest=invocation.run_digest,
            now=self._registration.now_s(),
        )

    async def _claim(self, call: WorkerCall, claims: TicketClaims) -> StartClaimResult:
        call.claim_id = uuid4()
        request = ClaimStart(
            execution_id=call.invocation.execution_id,
            run_id=call.invocation.run_id,
            claim_id=call.claim_id,
            attempt=call.invocation.attempt,
            worker=self._worker,
            ticket=call.invocation.ticket,
        )
        return await claim_start(self._bus, request, claims.expires_at, self._registration.now_s)

    async def _end_refused(self, call: WorkerCall, claim: StartClaimResult, effect_class: EffectClass) -> None:
        """Drop a call whose start TAS refused: another worker has it, or nobody may run it.

        The broker does not deliver it again. If the other worker has died, the engine still sends its request again,
        and TAS decides about the call once the lease of that worker is over. A claim that TAS granted without being
        able to answer, and refuses now, is this worker's own: it reports that nothing began, since nobody else knows.
        """
        self._metrics.refused.labels("claim").inc()
        self._log.info("claim refused", execution_id=call.key, tool=call.invocation.tool, reason=claim.reason)
        if claim.unanswered and effect_class is not EffectClass.PURE:  # a pure call has no claim to give back
            return await self.report(call, self._executor.failed(call, NOT_STARTED))
        for delivery in call.deliveries:
            await ack(delivery)
        return None

    def _not_started(self, call: WorkerCall, claim: StartClaimResult) -> ToolOutcome | None:
        """Return the outcome of a call that certainly did not begin: cancelled, or frozen past its time to start."""
        if call.cancel_reason is not None:
            return self._executor.failed(call, cancelled_failure(call))
        if monotonic() >= min(claim.start_by_s, claim.lease_until_s):
            return self._executor.failed(call, NOT_STARTED)
        return None


def _default_probing(call: WorkerCall, claims: TicketClaims, tool: AnyTool) -> Literal["", "required"]:
    """Return whether to probe where TAS does not say: an older TAS can't, and a later attempt may follow a start."""
    reconcilable = claims.effect_class is tool.spec.effect_class is EffectClass.RECONCILABLE
    return "required" if reconcilable and call.invocation.attempt > 1 else ""
