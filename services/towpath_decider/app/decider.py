"""Answers the decision requests of one pool.

The fabric's request loop reads each request, has it answered once and acknowledges it when the fact is stored
(`towpath_fabric.request_loop`). Logs, traces and metrics follow after that, and may be lost.
"""

from uuid import UUID

from nats.aio.msg import Msg

from towpath_contracts import subjects
from towpath_contracts.decisions.request import DecisionRequest, RenderPromptAnswer, RenderPromptRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import DEAD_LETTER_RUNS
from towpath_contracts.streams import decide_consumer
from towpath_decider.app.decision_service import DecisionMaker, FinishedDecision, internal_failure, log_calls
from towpath_decider.app.model_readiness import ModelReadiness
from towpath_decider.core.conversation import ModelCallFailure
from towpath_decider.metrics import DeciderMetrics
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.crash_points import crash_point, crash_point_after_flush
from towpath_fabric.dead_letter_reports import report_dead_letter
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.pull_consumer import deliveries
from towpath_fabric.nats.streams import ensure_consumer
from towpath_fabric.prompt_templates import PromptInvalidError
from towpath_fabric.redaction import redact
from towpath_fabric.request_loop import AnswerFact, DecisionAnswer, DecisionJob, DecisionRequestLoop
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.model_responses import NO_RESPONSE
from towpath_readings.spans import decision_key, decision_span

LOG_BYTES = 900_000
"""A log message may be as large as the broker carries; above this its bodies are left out."""

DECIDER = "decider"


class DeciderCrashPoints:
    """The crash points of a decider."""

    def taken(self) -> None:
        """Pass: a request was read."""
        crash_point("decider.taken")

    def stored(self) -> None:
        """Pass: a fact is stored, its request not yet acknowledged."""
        crash_point("decider.stored")

    async def acked(self) -> None:
        """Pass: the request is acknowledged."""
        await crash_point_after_flush("decider.acked")


class Decider:
    """Answers the decision requests of one pool, many at once."""

    def __init__(
        self,
        bus: Bus,
        service: DecisionMaker,
        log: Logger,
        metrics: DeciderMetrics,
        *,
        pool: str,
        concurrency: int,
        telemetry: SpanRecorder | None = None,
        readiness: ModelReadiness | None = None,
    ) -> None:
        """*concurrency* requests are answered at the same time at most; others stay with the broker."""
        self._telemetry = telemetry
        self._readiness = readiness
        self._metrics = metrics
        self._bus = bus
        self._service = service
        self._log = log
        spec = decide_consumer(pool)
        self._loop = DecisionRequestLoop(
            bus,
            spec,
            self,
            log,
            concurrency=concurrency,
            rebind=lambda: ensure_consumer(bus.nc, spec),
            crash_points=DeciderCrashPoints(),
        )
        self.start = self._loop.start
        self.take_requests = self._loop.take_requests
        self.keep_alive = self._loop.keep_alive
        self.hold = self._loop.hold

    async def stop(self) -> None:
        """Fetch no more, let calls end, hand back what did not end in time."""
        await self._loop.stop()
        await self._service.close()

    async def render_prompt(self, request: RenderPromptRequest) -> RenderPromptAnswer:
        """DecisionAnswer `svc.decider.render_prompt`."""
        try:
            prompt = await self._service.shown_prompt(request)
        except PromptInvalidError as error:
            raise ProblemError(problem("prompt_invalid", str(error))) from error
        missing = await self._readiness.missing(request.model) if self._readiness is not None else ""
        return RenderPromptAnswer(prompt=prompt.text, digest=prompt.digest, model_missing=missing)

    async def answer(self, request: DecisionRequest) -> DecisionAnswer:
        """Ask a model; count, trace and log the call once its fact is stored."""
        start_ns = wall_ns()
        crash_point("decider.before_model")
        if self._telemetry is None:
            outcome = await self._service.answer(request)
        else:
            trace = request.trace_id or request.root_run_id
            with self._telemetry.inside(request.run_id, decision_key(request), trace):
                outcome = await self._service.answer(request)
        crash_point("decider.answered")

        async def report(job: DecisionJob, stored: bool) -> None:
            self._count(job, outcome)
            self._trace(job, outcome, start_ns)
            if stored:
                await self._publish_calls(outcome, deliveries(job.messages[0]))
                await crash_point_after_flush("decider.logged")

        return DecisionAnswer(fact=outcome.fact, then=report)

    def defect(self, request: DecisionRequest, error: Exception) -> AnswerFact:
        """Return the fact for a failure that should not be; its log line has the rest."""
        return internal_failure(request, error)

    def inbox(self, run_id: UUID) -> str:
        """Where the facts for a run are stored."""
        return subjects.run_inbox(DECIDER, run_id)

    async def refuse(self, message: Msg, reason: str) -> None:
        """Report what can't be read as a dead letter; where it names its run, the run sends the request again."""
        await report_dead_letter(self._bus, DEAD_LETTER_RUNS, "DECIDE", message, reason, self._log)

    async def _publish_calls(self, outcome: FinishedDecision, delivery: int) -> None:
        for call in log_calls(outcome, delivery):
            body = redact(call.model_dump_json()).encode()
            if len(body) > LOG_BYTES:
                bare = call.model_copy(update={"prompt": None, "raw_text": None})
                body = redact(bare.model_dump_json()).encode()
            await self._bus.publish(subjects.LOG_LLM_CALL, body)

    def _count(self, job: DecisionJob, outcome: FinishedDecision) -> None:
        provider = job.request.model.partition(":")[0]
        result = "made" if isinstance(outcome.fact, DecisionMadeFact) else outcome.fact.code
        if result == "model_unknown":
            provider = "unknown"  # the string comes from a task: it must not become a label
        self._metrics.decisions.labels(provider, result).inc()
        self._metrics.count_spent(provider, outcome.fact.usage, outcome.fact.cost)
        for call in outcome.progress.calls:
            reply, model = call.reply, job.request.model
            error = reply.code if isinstance(reply, ModelCallFailure) else ""
            self._metrics.count_call(model, reply.response, reply.usage, call.duration_ms / 1000, error)
        self._metrics.seconds.labels(provider).observe(monotonic() - job.began)

    def _trace(self, job: DecisionJob, outcome: FinishedDecision, start_ns: int) -> None:
        if self._telemetry is None or not self._telemetry.enabled:
            return
        fact, calls = outcome.fact, outcome.progress.calls
        span = decision_span(
            job.request,
            start_ns=start_ns,
            end_ns=wall_ns(),
            usage=fact.usage,
            cost=fact.cost,
            prompt_digest=fact.prompt_digest,
            raw_digest=fact.raw_digest,
            response=calls[-1].reply.response if calls else NO_RESPONSE,
            error=fact.code if isinstance(fact, DecisionFailedFact) else None,
        )
        self._telemetry.record(fact.run_id, span)
