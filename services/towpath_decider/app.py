"""Requests in, facts out: the decider's side of the broker.

Law: a request is acknowledged only when its fact is stored; until then it stays alive while its call makes progress,
and comes to another decider when this one dies. A request that is here twice is asked once (design §4, §8).
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry, Counter, Histogram
from pydantic import ValidationError

from towpath_contracts import subjects
from towpath_contracts.deciding import DecisionRequest, RenderedPrompt, RenderPrompt
from towpath_contracts.facts import DecisionFailed, DecisionMade
from towpath_contracts.problems import ProblemError, problem, said_of
from towpath_contracts.rpc import DEAD_LETTER_RUNS
from towpath_contracts.spans import decision_span
from towpath_contracts.streams import decide_consumer
from towpath_decider.adapters.provider import PlatformAwayError
from towpath_decider.asking import Asker, Outcome, defect, log_calls
from towpath_decider.core.prompt import render
from towpath_fabric.bus import Bus
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.crash_points import crash_point, crash_point_sent
from towpath_fabric.dead_reports import report_dead
from towpath_fabric.logs import Logger
from towpath_fabric.prompts import PromptInvalidError
from towpath_fabric.pull import PullConsumer, ack, deliveries, in_progress, nak
from towpath_fabric.redaction import redacted
from towpath_fabric.streams import ensure_consumer
from towpath_fabric.telemetry import Telemetry

PROGRESS_EVERY_S = 6.0
"""A third of DECIDE's ack wait: two lost words do not lose the request."""

BEAT_S = 2.0
STORE_GRACE_S = 30.0
"""Beyond a request's own timeout its message is kept alive this long, for storing the fact."""

STORE_WAITS_S = (0.1, 0.3, 1.0, 2.0)
"""Between attempts to store a fact; the last one is repeated until the asker's lease is over."""

ANSWERS_KEPT = 1_024
"""Answers that are said again when their request comes again: a lost ack must not pay the model twice."""

AWAY_PAUSE_S = 1.0
"""Before a request comes again that could not be worked on because a part of the platform was away."""

LOG_BYTES = 900_000
"""A log message may be as large as the broker carries; above this its bodies are left out."""

STOP_WAIT_S = 6.0
"""How long calls may go on when the service stops; the supervisor kills after 15 s."""

DECIDER = "decider"


@dataclass(slots=True, kw_only=True)
class Job:
    """A request that is being answered, with every message that asks for it."""

    request: DecisionRequest
    messages: list[Msg]
    began: float
    spoke: float
    until: float
    task: "asyncio.Task[None] | None" = field(default=None)


class Decider:
    """Answers the decision requests of one pool, many at once."""

    def __init__(
        self,
        bus: Bus,
        asker: Asker,
        log: Logger,
        registry: CollectorRegistry,
        *,
        pool: str,
        concurrency: int,
        telemetry: Telemetry | None = None,
    ) -> None:
        """*concurrency* requests are answered at the same time at most; others stay with the broker."""
        self._telemetry = telemetry
        self._bus = bus
        self._asker = asker
        self._log = log
        self._pool = pool
        self._concurrency = concurrency
        self._jobs: dict[UUID, Job] = {}
        self._answers: OrderedDict[UUID, DecisionMade | DecisionFailed] = OrderedDict()
        self._consumer: PullConsumer | None = None
        self._decisions = Counter(
            "towpath_decisions", "Decisions by provider and result", ("provider", "result"), registry=registry
        )
        self._seconds = Histogram(
            "towpath_decision_seconds",
            "Time from request to stored fact",
            ("provider",),
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120),
            registry=registry,
        )

    async def start(self) -> None:
        """Begin to fetch requests."""
        spec = decide_consumer(self._pool)
        nc = self._bus.nc
        self._consumer = PullConsumer(nc, spec, window=self._concurrency, rebind=lambda: ensure_consumer(nc, spec))
        await self._consumer.start()

    async def take_requests(self) -> None:
        """Start a task for every request, for ever."""
        assert self._consumer is not None
        while True:
            messages = await self._consumer.take(self._concurrency)
            self._consumer.hold(len(messages))
            for message in messages:
                await self._begin(message)

    async def keep_alive(self) -> None:
        """Tell the broker which requests are still being worked on, for ever."""
        reconnects = self._bus.nc.stats["reconnects"]
        while True:
            await asyncio.sleep(BEAT_S)
            now = monotonic()
            for job in list(self._jobs.values()):
                if job.spoke + PROGRESS_EVERY_S <= now + BEAT_S / 2 and now < job.until:
                    job.spoke = now
                    for message in job.messages:
                        await in_progress(message)
            if self._bus.nc.stats["reconnects"] != reconnects and self._consumer is not None:
                reconnects = self._bus.nc.stats["reconnects"]
                self._consumer.reset()

    async def stop(self) -> None:
        """Fetch no more, let calls end, hand back what did not end in time."""
        if self._consumer is not None:
            await self._consumer.stop()
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_WAIT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._asker.close()

    async def render_prompt(self, request: RenderPrompt) -> RenderedPrompt:
        """Answer `svc.decider.render_prompt`."""
        try:
            prompt = render(request.context)
        except PromptInvalidError as error:
            raise ProblemError(problem("prompt_invalid", str(error))) from error
        return RenderedPrompt(prompt=prompt.text, digest=prompt.digest)

    async def _begin(self, message: Msg) -> None:
        try:
            request = DecisionRequest.model_validate_json(message.data)
        except ValidationError as error:
            await self._refuse(message, error)
            return
        crash_point("decider.taken")
        job = self._jobs.get(request.request_id)
        if job is not None:  # delivered again, or asked again: one call answers both
            job.messages.append(message)
            if request.attempt > job.request.attempt:
                job.request = request
            return
        now = monotonic()
        until = now + request.timeout_ms / 1000 + STORE_GRACE_S
        job = Job(request=request, messages=[message], began=now, spoke=now, until=until)
        self._jobs[request.request_id] = job
        job.task = asyncio.create_task(self._work(job))

    async def _work(self, job: Job) -> None:
        try:
            await self._answer(job)
        except asyncio.CancelledError:
            await _hand_back(job, 0)
            raise
        except PlatformAwayError as error:  # an outage is no answer: it must not end a run
            self._log.warning("a decision has to wait", run_id=str(job.request.run_id), reason=str(error))
            await _hand_back(job, AWAY_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request: a defect must not end the others
            self._log.exception("a decision failed", run_id=str(job.request.run_id), step=job.request.step)
            await self._store(job, defect(job.request, error))  # told, so that it is not tried again for ever
        finally:
            self._jobs.pop(job.request.request_id, None)
            self._release(len(job.messages))

    async def _answer(self, job: Job) -> None:
        known = self._known_answer(job.request)
        if known is not None:
            await self._store(job, known)
            return
        start_ns = wall_ns()
        crash_point("decider.before_model")
        outcome = await self._asker.answer(job.request)
        crash_point("decider.answered")
        self._remember(outcome.fact)
        stored = await self._store(job, outcome.fact)
        self._count(job, outcome)
        self._trace(job, outcome.fact, start_ns)
        if stored:
            await self._tell_calls(outcome, deliveries(job.messages[0]))
            await crash_point_sent("decider.logged")

    def _known_answer(self, request: DecisionRequest) -> DecisionMade | DecisionFailed | None:
        """A decision answers every attempt; a failure only its own, since a later attempt means: try again."""
        known = self._answers.get(request.request_id)
        if isinstance(known, DecisionFailed) and known.attempt != request.attempt:
            return None
        return known

    def _remember(self, fact: DecisionMade | DecisionFailed) -> None:
        self._answers[fact.request_id] = fact
        while len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)

    async def _store(self, job: Job, fact: DecisionMade | DecisionFailed) -> bool:
        """Store the fact, then acknowledge. False when the lease ended first: the request is asked again then."""
        attempt = job.request.attempt
        if fact.attempt != attempt:
            fact = fact.model_copy(update={"attempt": attempt, "fact_id": f"{fact.request_id}:{attempt}"})
        subject = subjects.run_inbox(DECIDER, fact.run_id)
        body = fact.model_dump_json().encode()
        headers = {"Nats-Msg-Id": f"{fact.request_id}:{attempt}"}
        lease_ends = job.began + job.request.lease_ms / 1000
        tries = 0
        while not await self._bus.store(subject, body, headers):
            if monotonic() > lease_ends:
                self._log.warning("a decision could not be stored", run_id=str(fact.run_id), step=job.request.step)
                return False
            await asyncio.sleep(STORE_WAITS_S[min(tries, len(STORE_WAITS_S) - 1)])
            tries += 1
        crash_point("decider.stored")
        for message in job.messages:
            await ack(message)
        await crash_point_sent("decider.acked")
        return True

    async def _tell_calls(self, outcome: Outcome, delivery: int) -> None:
        for call in log_calls(outcome, delivery):
            body = redacted(call.model_dump_json()).encode()
            if len(body) > LOG_BYTES:
                bare = call.model_copy(update={"prompt": None, "raw_text": None})
                body = redacted(bare.model_dump_json()).encode()
            await self._bus.post(subjects.LOG_LLM_CALL, body)

    def _count(self, job: Job, outcome: Outcome) -> None:
        provider = job.request.model.partition(":")[0]
        result = "made" if isinstance(outcome.fact, DecisionMade) else outcome.fact.code
        if result == "model_unknown":
            provider = "unknown"  # the string comes from a task: it must not become a label
        self._decisions.labels(provider, result).inc()
        self._seconds.labels(provider).observe(monotonic() - job.began)

    def _trace(self, job: Job, fact: DecisionMade | DecisionFailed, start_ns: int) -> None:
        if self._telemetry is None or not self._telemetry.enabled:
            return
        span = decision_span(
            job.request,
            start_ns=start_ns,
            end_ns=wall_ns(),
            usage=fact.usage,
            cost=fact.cost,
            prompt_digest=fact.prompt_digest,
            raw_digest=fact.raw_digest,
            error=fact.code if isinstance(fact, DecisionFailed) else None,
        )
        self._telemetry.record(fact.run_id, span)

    def _release(self, count: int) -> None:
        if self._consumer is not None:
            self._consumer.hold(-count)

    async def _refuse(self, message: Msg, error: ValidationError) -> None:
        """Hand over what can't be read as a dead letter; its run asks again, where the request says whose it is."""
        self._log.error("a malformed decision request", problems=error.error_count())
        reason = f"not a decision request: {said_of(error)}"
        await report_dead(self._bus, DEAD_LETTER_RUNS, "DECIDE", message, reason, self._log)
        self._release(1)


async def _hand_back(job: Job, delay_s: float) -> None:
    for message in job.messages:
        await nak(message, delay_s)
