"""The process of an agent: takes the requests of its pool, lets the agent answer them, and reports the answers.

The same as a decider's (`towpath_fabric.request_loop`): answered once, kept alive while it is worked on,
handed back when the process ends. Only requests for this very agent are answered.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry, Counter, Histogram

from towpath.agents.base import BaseAgent
from towpath.agents.request import AgentRequest
from towpath.agents.usage_counter import UsageCounter
from towpath.hooks import Hook, Hooks
from towpath.user_code import PROCESS_THREADS
from towpath_agent.app.agent_answers import AgentAnswerFailure, request_answer
from towpath_agent.app.agent_hooks import AgentHookNotifier
from towpath_contracts import subjects
from towpath_contracts.agents import AgentQueueDeclared, DeclareAgentQueue
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import DEAD_LETTER_RUNS, SERVE_AGENT
from towpath_contracts.streams import agent_consumer
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.dead_letter_reports import report_dead_letter
from towpath_fabric.nats.bus import Bus
from towpath_fabric.request_loop import (
    AnswerFact,
    DecisionAnswer,
    DecisionJob,
    DecisionRequestLoop,
    PlatformUnavailableError,
)
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_readings.spans import decision_key, decision_span

DEFAULT_CONCURRENCY = 16

DECLARE_AGAIN_S = 1.0
"""Until an orchestrator that did not answer is asked for the queue again."""

SECONDS = (0.005, 0.025, 0.1, 0.5, 2, 10, 60, 300)
"""From a rule to a chain of model calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServerOptions:
    """How an agent is served. `worker` names this process; `project` is the one whose requests it answers."""

    worker: str
    project: str = "default"
    concurrency: int = DEFAULT_CONCURRENCY


class AgentServer:
    """Serves one agent. `run` until cancelled; `stop` before that for a clean end."""

    def __init__(
        self,
        bus: Bus,
        agent: BaseAgent,
        *,
        options: AgentServerOptions,
        log: Logger,
        registry: CollectorRegistry,
        hooks: Sequence[Hook] = (),
        telemetry: SpanRecorder | None = None,
    ) -> None:
        """Serve *agent* with *hooks* and its own, in this order."""
        self._bus = bus
        self._agent = agent
        self._options = options
        self._log = log
        self._telemetry = telemetry
        self._answers = Counter(
            "towpath_agent_answers", "Answers by kind and result", ["kind", "result"], registry=registry
        )
        self._seconds = Histogram(
            "towpath_agent_answer_seconds", "Time to a stored answer", ["kind"], buckets=SECONDS, registry=registry
        )
        self._hook_failures = Counter("towpath_agent_hook_failures", "Hooks that failed", ["event"], registry=registry)
        all_hooks = Hooks((*hooks, *(one for one in agent.hooks if one not in hooks)), self._hook_failed)
        self._hook_notifier = AgentHookNotifier(all_hooks, worker=options.worker, agent=agent.name)
        self._declared = False
        self._loop = DecisionRequestLoop(
            bus,
            agent_consumer(options.project, agent.name),
            self,
            log,
            concurrency=options.concurrency,
            rebind=self._declare,
        )

    async def run(self) -> None:
        """Prepare the agent, have its queue declared, then answer until cancelled."""
        async with self._agent.lifespan():
            await self._hook_notifier.process_event("start")
            await self._declare_until_done()
            await self._loop.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.take_requests(), name="take requests")
                group.create_task(self._loop.keep_alive(), name="keep alive")

    async def stop(self) -> None:
        """Take nothing new, let answers end, hand back what did not end in time."""
        await self._loop.stop()
        await self._hook_notifier.process_event("finished")

    async def ready(self) -> None:
        """Return when requests can be taken; raises RuntimeError with the reason when not."""
        if not self._declared:
            msg = "the orchestrator has not declared the agent's queue yet"
            raise RuntimeError(msg)
        if PROCESS_THREADS.fault:
            raise RuntimeError(PROCESS_THREADS.fault)

    async def answer(self, request: DecisionRequest) -> DecisionAnswer:
        """Let the agent answer one request; hooks are notified before and after.

        Raises PlatformUnavailableError where too many methods hang: another process of the pool may answer.
        """
        if PROCESS_THREADS.fault:
            raise PlatformUnavailableError(PROCESS_THREADS.fault)
        start_ns, began, usage_counter = wall_ns(), monotonic(), UsageCounter()
        await self._hook_notifier.request_received(request)
        result = await self._result(request, usage_counter)
        took_ms = int((monotonic() - began) * 1000)
        fact = _answer_fact(request, result, usage_counter, took_ms)
        if isinstance(result, AgentAnswerFailure):
            await self._hook_notifier.answer_failed(request, result.code, took_ms, fact.usage)
        else:
            await self._hook_notifier.answer_made(request, result, took_ms, fact.usage)

        async def after_stored(job: DecisionJob, _stored: bool) -> None:
            self._answers.labels(
                request.kind.value, "failed" if isinstance(result, AgentAnswerFailure) else "made"
            ).inc()
            self._seconds.labels(request.kind.value).observe(monotonic() - job.began)
            self._trace(request, fact, start_ns)

        return DecisionAnswer(fact=fact, then=after_stored)

    async def _result(self, request: DecisionRequest, usage_counter: UsageCounter) -> JsonObject | AgentAnswerFailure:
        if request.model != subjects.agent_model(self._agent.name) or request.project != self._options.project:
            return AgentAnswerFailure(
                "model_unknown", f"here is {self._agent.name} of {self._options.project}, and no other"
            )
        deadline_s = monotonic() + request.timeout_ms / 1000
        agent_request = AgentRequest(
            request, deadline_s=deadline_s, hooks=self._hook_notifier.hooks, usage_counter=usage_counter
        )
        if self._telemetry is None:
            return await request_answer(self._agent, agent_request, self._log)
        trace = request.trace_id or request.root_run_id
        with self._telemetry.inside(request.run_id, decision_key(request), trace):
            return await request_answer(self._agent, agent_request, self._log)

    def defect(self, request: DecisionRequest, error: Exception) -> AnswerFact:
        """Return the fact for a failure of what is around the agent; its log line has the rest."""
        failed = AgentAnswerFailure("internal", f"the agent's process failed: {type(error).__name__}")
        return _answer_fact(request, failed, UsageCounter(), 0)

    def inbox(self, run_id: UUID) -> str:
        """Where the facts for a run are stored: under this pool, since its credential allows no other."""
        return subjects.agent_inbox(subjects.agent_pool(self._options.project, self._agent.name), run_id)

    async def refuse(self, message: Msg, reason: str) -> None:
        """Hand over what can't be read as a dead letter."""
        asked_on = subjects.for_agent(DEAD_LETTER_RUNS.subject, self._options.project, self._agent.name)
        await report_dead_letter(
            self._bus, DEAD_LETTER_RUNS, "DECIDE", message, reason, self._log, tells=False, subject=asked_on
        )

    async def _declare_until_done(self) -> None:
        while not self._declared:
            try:
                await self._declare()
            except TimeoutError as error:
                self._log.warning("the agent's queue is not declared yet", agent=self._agent.name, reason=str(error))
                await asyncio.sleep(DECLARE_AGAIN_S)

    async def _declare(self) -> None:
        """Have the queue declared: an agent's credential may not do so itself. Raises TimeoutError for a later try."""
        project, name = self._options.project, self._agent.name
        subject = subjects.for_agent(SERVE_AGENT.subject, project, name)
        try:
            request = DeclareAgentQueue(project=project, name=name)
            await self._bus.request_subject(subject, request, AgentQueueDeclared, repeatable=SERVE_AGENT.repeatable)
        except ProblemError as error:
            msg = f"{error.problem.code}: {error.problem.detail}"
            raise TimeoutError(msg) from error
        self._declared = True

    def _trace(self, request: DecisionRequest, fact: AnswerFact, start_ns: int) -> None:
        if self._telemetry is None or not self._telemetry.enabled:
            return
        span = decision_span(
            request,
            start_ns=start_ns,
            end_ns=wall_ns(),
            usage=fact.usage,
            cost=fact.cost,
            prompt_digest="",
            raw_digest=fact.raw_digest,
            error=fact.code if isinstance(fact, DecisionFailedFact) else None,
        )
        self._telemetry.record(fact.run_id, span)

    def _hook_failed(self, hook: Hook, error: BaseException) -> None:
        self._hook_failures.labels(hook.event).inc()
        self._log.warning("a hook failed", hook_event=hook.event, error=type(error).__name__)


def _answer_fact(
    request: DecisionRequest, result: JsonObject | AgentAnswerFailure, usage_counter: UsageCounter, took_ms: int
) -> AnswerFact:
    common: JsonObject = {
        "run_id": request.run_id,
        "fact_id": f"{request.request_id}:{request.attempt}",
        "request_id": request.request_id,
        "attempt": request.attempt,
        "model": request.model,
        "usage": usage_counter.usage(),
        "cost": usage_counter.cost(),
        "duration_ms": took_ms,
    }
    if isinstance(result, AgentAnswerFailure):
        return DecisionFailedFact(code=result.code, message=result.message, **common)
    return DecisionMadeFact(decision=result, raw_digest=digest_text(canonical_json(result)), **common)
