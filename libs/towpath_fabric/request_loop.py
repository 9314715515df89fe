"""Takes decision requests and stores facts: shared by deciders and the processes of agents in user code.

A request is acknowledged only after its fact is stored. Until then its ack wait is extended while it is worked on, and
it is delivered to another process where this one dies. A request that was delivered twice is answered once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath_contracts.decisions.request import CALL_LOST, DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.streams import ConsumerSpec
from towpath_fabric.clock import monotonic
from towpath_fabric.ids import new_run_id
from towpath_fabric.nats.pull_consumer import PullConsumer, Rebind, ack, deliveries, in_progress, nak
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.turns.task_end import end_tasks

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

PROGRESS_EVERY_S = 6.0
"""A third of DECIDE's ack wait: two lost progress messages don't cause a redelivery."""

CHECK_S = 2.0
STORE_GRACE_S = 30.0
"""The ack wait is extended this long beyond a request's own timeout, for storing the fact."""

STORE_WAITS_S = (0.1, 0.3, 1.0, 2.0)
"""Delays between attempts to store a fact; the last one is repeated until the request's lease ends."""

ANSWERS_KEPT = 1_024
"""Answers that are kept for redelivered requests: a lost ack must not cause a second, paid model call."""

ANSWER_BYTES_KEPT = 32 * 1024 * 1024
"""Their total size as they are sent; the oldest are dropped first."""

AWAY_PAUSE_S = 1.0
"""Delay before redelivery of a request that could not be handled because a part of the platform was unreachable."""

STOP_WAIT_SHARE = 0.6
"""The share of the time to stop that running requests may take; the rest is for handing back what is left of them."""

AnswerFact = DecisionMadeFact | DecisionFailedFact


class PlatformUnavailableError(Exception):
    """Another part of the platform does not answer, or has no turn: no model was called, the request is redelivered."""


@dataclass(slots=True, kw_only=True)
class DecisionJob:
    """A request that is being answered, with every message that asks for it."""

    request: DecisionRequest
    messages: list[Msg]
    began: float
    last_progress: float
    until: float
    task: "asyncio.Task[None] | None" = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionAnswer:
    """The fact for the run, and what to do once it is known whether it is stored."""

    fact: AnswerFact
    then: Callable[[DecisionJob, bool], Awaitable[None]] | None = None


class DecisionAnswerer(Protocol):
    """Answers requests. Any error but PlatformUnavailableError becomes the fact that `defect` returns."""

    async def answer(self, request: DecisionRequest) -> DecisionAnswer:
        """Return the answer; cancelled when the process stops."""

    def defect(self, request: DecisionRequest, error: Exception) -> AnswerFact:
        """Return the fact for a failure that should not be."""

    async def refuse(self, message: Msg, reason: str) -> None:
        """Remove a malformed message from the stream."""

    def inbox(self, run_id: UUID) -> str:
        """Return the subject for the facts of a run."""


class RequestCrashPoints(Protocol):
    """Crash points, implemented by each role: their names are literals in its code, so that they can be listed."""

    def taken(self) -> None:
        """Pass: a request was read."""

    def stored(self) -> None:
        """Pass: a fact is stored, its request not yet acknowledged."""

    async def acked(self) -> None:
        """Pass: the request is acknowledged."""


class AnswerCache:
    """The latest answers by request, bounded in number and in bytes."""

    def __init__(self, max_answers: int = ANSWERS_KEPT, max_bytes: int = ANSWER_BYTES_KEPT) -> None:
        self._max_answers, self._max_bytes = max_answers, max_bytes
        self._kept: OrderedDict[UUID, tuple[AnswerFact, int]] = OrderedDict()
        self.bytes = 0

    def get(self, request_id: UUID) -> AnswerFact | None:
        """Return the answer to that request, None where it is not kept."""
        found = self._kept.get(request_id)
        return None if found is None else found[0]

    def remember(self, fact: AnswerFact) -> None:
        """Keep *fact* in place of an earlier one; the newest is always kept, however large."""
        _, before = self._kept.pop(fact.request_id, (None, 0))
        size = len(fact.model_dump_json().encode("utf-8", "surrogatepass"))
        self._kept[fact.request_id] = (fact, size)
        self.bytes += size - before
        while len(self._kept) > 1 and (len(self._kept) > self._max_answers or self.bytes > self._max_bytes):
            _, (_, forgotten) = self._kept.popitem(last=False)
            self.bytes -= forgotten


class DecisionRequestLoop:
    """Answers the requests of one consumer, many at the same time."""

    def __init__(
        self,
        bus: "Bus",
        spec: ConsumerSpec,
        answerer: DecisionAnswerer,
        log: Logger,
        *,
        concurrency: int,
        rebind: Rebind,
        crash_points: RequestCrashPoints | None = None,
    ) -> None:
        """*concurrency* requests are answered at the same time at most; others stay with the broker."""
        self._bus = bus
        self._spec = spec
        self._answerer = answerer
        self._log = log
        self._concurrency = concurrency
        self._rebind = rebind
        self._crash_points = crash_points
        self._jobs: dict[UUID, DecisionJob] = {}
        self._working = asyncio.Event()
        self._answers = AnswerCache()
        self._unasked: OrderedDict[tuple[UUID, int], None] = OrderedDict()
        self._consumer: PullConsumer | None = None
        self._stored_by = new_run_id().hex

    async def start(self) -> None:
        """Start to fetch requests."""
        self._consumer = PullConsumer(self._bus.nc, self._spec, window=self._concurrency, rebind=self._rebind)
        await self._consumer.start()

    async def take_requests(self) -> None:
        """Start a task for every request; never returns."""
        assert self._consumer is not None
        while True:
            messages = await self._consumer.take(self._concurrency)
            self._consumer.hold(len(messages))
            for message in messages:
                await self._begin(message)

    async def keep_alive(self) -> None:
        """Extend the ack wait of the requests that are being worked on; never returns."""
        while True:
            if not self._jobs:
                self._working.clear()
                await self._working.wait()
            await asyncio.sleep(CHECK_S)
            now = monotonic()
            for job in list(self._jobs.values()):
                if job.last_progress + PROGRESS_EVERY_S <= now + CHECK_S / 2 and now < job.until:
                    job.last_progress = now
                    for message in job.messages:
                        await in_progress(message)

    async def stop(self) -> None:
        """Fetch no more, let running requests end, return the others to the stream."""
        if self._consumer is not None:
            await self._consumer.stop()
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._bus.stop_grace_s * STOP_WAIT_SHARE)
            await end_tasks(late)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, message: Msg) -> None:
        try:
            request = DecisionRequest.model_validate_json(message.data)
        except ValidationError as error:
            self._log.error("a malformed decision request", problems=error.error_count())
            await self._answerer.refuse(message, f"not a decision request: {describe_validation_error(error)}")
            self.hold(-1)
            return
        if self._crash_points is not None:
            self._crash_points.taken()
        job = self._jobs.get(request.request_id)
        if job is not None:  # redelivered, or asked again: one answer for both
            job.messages.append(message)
            if request.attempt > job.request.attempt:
                job.request = request
            return
        now = monotonic()
        until = now + request.timeout_ms / 1000 + STORE_GRACE_S
        job = DecisionJob(request=request, messages=[message], began=now, last_progress=now, until=until)
        self._jobs[request.request_id] = job
        self._working.set()
        job.task = asyncio.create_task(self._work(job))

    async def _work(self, job: DecisionJob) -> None:
        try:
            await self._answer(job)
        except asyncio.CancelledError:
            await _return_to_stream(job, 0)
            raise
        except PlatformUnavailableError as error:  # an outage must not end a run
            self._log.warning("a decision has to wait", run_id=str(job.request.run_id), reason=str(error))
            self._mark_unasked(job.request)
            await _return_to_stream(job, AWAY_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the outermost loop of a request: a defect must not end the others
            self._log.exception("a decision failed", run_id=str(job.request.run_id), step=job.request.step)
            fact = self._answerer.defect(job.request, error)  # stored, so that it is not retried for ever
            await self._store(job, fact.model_copy(update={"uncounted": job.request.max_calls}))
        finally:
            self._jobs.pop(job.request.request_id, None)
            self.hold(-len(job.messages))

    async def _answer(self, job: DecisionJob) -> None:
        known = self._known_answer(job.request)
        if known is not None:
            await self._store(job, known)
            return
        if self._may_be_paid(job):
            await self._store(job, _lost(job.request))
            return
        answer = await self._answerer.answer(job.request)
        self._answers.remember(answer.fact)
        stored = await self._store(job, answer.fact)
        if answer.then is not None:
            await answer.then(job, stored)

    def _may_be_paid(self, job: DecisionJob) -> bool:
        """Return whether another process had this attempt and may have paid for it, where the run has a budget."""
        request = job.request
        if not request.max_calls or deliveries(job.messages[0]) == 1:
            return False
        return (request.request_id, request.attempt) not in self._unasked

    def _known_answer(self, request: DecisionRequest) -> AnswerFact | None:
        """Return the kept answer. A decision answers every attempt; a failure only its own, the next is a retry."""
        known = self._answers.get(request.request_id)
        if isinstance(known, DecisionFailedFact) and known.attempt != request.attempt:
            return None
        return known

    def _mark_unasked(self, request: DecisionRequest) -> None:
        self._unasked[request.request_id, request.attempt] = None
        while len(self._unasked) > ANSWERS_KEPT:
            self._unasked.popitem(last=False)

    async def _store(self, job: DecisionJob, fact: AnswerFact) -> bool:
        """Store the fact, then acknowledge. False where the lease ended first: the orchestrator asks again then."""
        attempt = job.request.attempt
        if fact.attempt != attempt:
            called_in = (fact.called_in or fact.attempt) if job.request.max_calls else 0
            more = {"attempt": attempt, "fact_id": f"{fact.request_id}:{attempt}", "called_in": called_in}
            fact = fact.model_copy(update=more)
        subject = self._answerer.inbox(fact.run_id)
        body = fact.model_dump_json().encode()
        # Of each id the broker keeps one message, and an agent, which may write to the inbox of any run, could store
        # one first that can be guessed. So it is this process's own; what two processes answer, a run takes once.
        headers = {"Nats-Msg-Id": f"{fact.request_id}:{attempt}:{self._stored_by}"}
        lease_ends = job.began + job.request.lease_ms / 1000
        tries = 0
        while not await self._bus.store(subject, body, headers):
            if monotonic() > lease_ends:
                self._log.warning("a decision could not be stored", run_id=str(fact.run_id), step=job.request.step)
                return False
            await asyncio.sleep(STORE_WAITS_S[min(tries, len(STORE_WAITS_S) - 1)])
            tries += 1
        if self._crash_points is not None:
            self._crash_points.stored()
        for message in job.messages:
            await ack(message)
        if self._crash_points is not None:
            await self._crash_points.acked()
        return True

    def hold(self, count: int) -> None:
        """Count *count* more requests as worked on, or fewer if negative: one that only waits may free its place."""
        if self._consumer is not None:
            self._consumer.hold(count)


def _lost(request: DecisionRequest) -> DecisionFailedFact:
    return DecisionFailedFact(
        run_id=request.run_id,
        fact_id=f"{request.request_id}:{request.attempt}",
        request_id=request.request_id,
        attempt=request.attempt,
        code=CALL_LOST,
        message="the process that had the request before did not answer, and may have paid for it",
        model=request.model,
    )


async def _return_to_stream(job: DecisionJob, delay_s: float) -> None:
    for message in job.messages:
        await nak(message, delay_s)
