"""The other services, as the gateway uses them.

Every request carries the project of the credential; nothing here is cached and nothing is decided. Services read what
they are asked in the order in which it comes, on one connection each, and long requests take them long: so few with
large bodies are under way at a time, of one project fewer, and what others ask for is never behind hundreds of them.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from towpath_contracts import rpc, subjects
from towpath_contracts.base import JsonObject, Message
from towpath_contracts.canonical import digest_text
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.runs.views import GetEvents, GetLlmCalls, GetRun, LlmCalls, RunView
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_contracts.tools.calls import BlobChunk, GetBlobChunk
from towpath_contracts.tools.queues import ListQueues, QueueList
from towpath_fabric.clock import monotonic, wall_ns
from towpath_fabric.nats.bus import REQUEST_TIMEOUT_S, Bus
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.adapters.event_feed import RunEventFeed
from towpath_gateway.adapters.untaken_calls import UntakenCallReader
from towpath_gateway.core.run_answers import requests_with_text
from towpath_readings.effects import TELLS_EFFECTS
from towpath_readings.spans import submit_span

CHECK_S = 2.0
"""How often a reader asks for the truth while it waits."""

SUBMIT_WAIT_S = 12.0
"""Longer than the orchestrator's own limit, so that its answer arrives: it knows whether the task was accepted."""

PAGE = 500
LLM_CALLS_WAIT_S = 3.0
"""How long the raw texts of a debug run are waited for; they travel apart from the run and may be lost."""

LLM_CALLS_CHARS = 32 * 1024 * 1024
"""How much raw text one answer may hold; a long run's calls beyond it are counted as missing."""

_LLM_CALLS_POLL_S = 0.1

LONG_BYTES = 16 * 1024
LONG, LONG_OF_PROJECT = 64, 32
HUGE_BYTES = 128 * 1024
HUGE, HUGE_OF_PROJECT = 4, 2
"""From which size on how many requests are under way at a time: what is read in these takes a fifth of a second."""

TURN_WAIT_S = 10.0

QUEUES_WAIT_S = 1.5
"""How long a reader of a run waits for what is said of queues: the run is told without it too."""


@dataclass(frozen=True, slots=True)
class LargeBody:
    """The size of the body that the request at hand came with, and whose it is."""

    project: str
    size: int


large_body: ContextVar[LargeBody | None] = ContextVar("large_body", default=None)
"""Set by who reads a body of LONG_BYTES or more, for what the same request then asks of services."""


class PlatformClient:
    """Asks the services behind the gateway. *stopping* ends every wait at once."""

    def __init__(self, bus: Bus, stopping: asyncio.Event, telemetry: SpanRecorder) -> None:
        self.bus = bus
        self.stopping = stopping
        self.telemetry = telemetry
        self._long = WorkTurns(LONG, lambda _: LONG_OF_PROJECT, TURN_WAIT_S, "project_share_full")
        self._huge = WorkTurns(HUGE, lambda _: HUGE_OF_PROJECT, TURN_WAIT_S, "project_share_full")
        self._untaken_calls = UntakenCallReader(self._queues)

    def current_span(self) -> RemoteSpan | None:
        """Return the span of the request that is answered, where requests are traced."""
        return None if self.telemetry.requests is None else self.telemetry.requests.current_span()

    async def request(self, method: rpc.RpcMethod, request: Message, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Ask *method*; raises ProblemError."""
        async with self._turn():
            return await self.bus.request(method, request, timeout_s)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a request with a large body; raises ProblemError `project_share_full`."""
        body = large_body.get()
        if body is None:
            yield
            return
        async with (self._long if body.size < HUGE_BYTES else self._huge).held(body.project):
            yield

    async def submit(self, caller: str, task: SubmitTask, span: RemoteSpan | None = None) -> RunAccepted:
        """Submit *task* as *caller*; returns once the run is committed, below *span* where that is recorded.

        A task without an idempotency key gets one for its tries: they are one run. Raises ProblemError; after
        `unavailable` the run may exist all the same, and only an idempotency key tells.
        """
        started_ns = wall_ns()
        keyed = task.idempotency_key is not None
        if not keyed:
            task = task.model_copy(update={"idempotency_key": f"gateway-{uuid4().hex}"})
        if span is not None and task.traceparent is None:
            task = task.model_copy(update={"traceparent": span.traceparent})
        async with self._turn():
            accepted = await self.bus.request_subject(
                subjects.task_submit(caller), task, RunAccepted, SUBMIT_WAIT_S, repeatable=True
            )
        large_body.set(None)  # what is asked of the run from here on is short
        if accepted.duplicate and not keyed:  # an answer was lost, and the client has asked only once
            accepted = accepted.model_copy(update={"duplicate": False})
        if self.telemetry.enabled and not accepted.duplicate:
            trace = UUID(hex=accepted.trace_id) if accepted.trace_id else accepted.run_id
            apart = span is not None and span.trace != trace
            submitted = submit_span(
                network=task.network,
                start_ns=started_ns,
                end_ns=wall_ns(),
                caller=caller,
                trace=trace,
                links=(span,) if span is not None and apart else (),
            )
            self.telemetry.record(accepted.run_id, submitted)
        return accepted

    async def run(self, project: str, run_id: UUID, *, effects: bool = False) -> RunView:
        """Return a run of *project*; raises ProblemError `run_not_found`, also for another project's.

        With *effects* it says what became of the calls of a stopped run, which costs the reading of its history.
        """
        view: RunView = await self.request(rpc.GET_RUN, GetRun(project=project, run_id=run_id, effects=effects))
        return view

    async def with_effects(self, view: RunView) -> RunView:
        """Return a run that has ended with what became of its calls; without it while nobody can say."""
        if view.status not in TELLS_EFFECTS:
            return view
        try:
            return await self.run(view.project, view.run_id, effects=True)
        except ProblemError as error:
            if not error.problem.retryable:
                raise
            return view

    async def with_untaken_calls(self, view: RunView) -> RunView:
        """Return a run with the toolsets that it waits for since no worker takes its calls."""
        return await self._untaken_calls.add_to(view)

    async def _queues(self, asked: ListQueues) -> QueueList:
        found: QueueList = await self.bus.request(rpc.LIST_QUEUES, asked, QUEUES_WAIT_S)
        return found

    async def page(self, project: str, run_id: UUID, after: int, limit: int = PAGE, wait_ms: int = 0) -> EventPage:
        """Return events after seq *after*, waiting up to *wait_ms* for the first; fewer where they are large."""
        while True:
            request = GetEvents(project=project, run_id=run_id, after=after, limit=limit, wait_ms=wait_ms)
            try:
                page: EventPage = await self.bus.request(
                    rpc.EVENTS, request, timeout_s=REQUEST_TIMEOUT_S + wait_ms / 1_000
                )
            except ProblemError as error:
                if error.problem.code != "answer_too_large" or limit == 1:
                    raise
                limit = max(1, limit // 4)
            else:
                return page

    async def wait_for_end(self, project: str, run_id: UUID, seconds: float) -> RunView | None:
        """Return the run as soon as it has ended, or as it stands after *seconds*; None if nobody could say.

        A part of the platform that is away for a while only costs time: the run is safe and its end will be seen.
        """
        deadline = monotonic() + seconds
        view: RunView | None = None
        async with RunEventFeed(self.bus, run_id, self.stopping) as feed:
            while True:
                feed.take()
                try:
                    view = await feed.unless_stopping(self.run(project, run_id)) or view
                except ProblemError as error:
                    if not error.problem.retryable:
                        raise
                left = deadline - monotonic()
                if (view is not None and view.status in FINAL_STATUSES) or left <= 0 or feed.stopping:
                    return view
                await self._wait_for_hint(feed, left)

    async def llm_calls(self, project: str, run_id: UUID, requests: frozenset[str]) -> list[JsonObject]:
        """Return the recorded model calls of a run, waiting a little until the texts of *requests* are there."""
        deadline = monotonic() + LLM_CALLS_WAIT_S
        while True:
            found = await self._recorded(project, run_id)
            if requests <= requests_with_text(found) or monotonic() > deadline or self.stopping.is_set():
                return found
            await asyncio.sleep(_LLM_CALLS_POLL_S)

    async def blob(self, project: str, run_id: UUID, digest: str) -> bytes:
        """Return a blob that an event of the run names; raises ProblemError `internal` when its bytes are not those."""
        parts: list[bytes] = []
        while True:
            chunk: BlobChunk = await self.request(
                rpc.BLOB_GET_RUNS, GetBlobChunk(digest=digest, index=len(parts), run_id=run_id, project=project)
            )
            parts.append(base64.b64decode(chunk.data_base64))
            if len(parts) >= chunk.total:
                break
        data = b"".join(parts)
        if digest_text(data) != digest:
            raise ProblemError(problem("internal", f"the stored bytes are not those of {digest}"))
        return data

    async def _recorded(self, project: str, run_id: UUID) -> list[JsonObject]:
        """Return what is recorded, up to the page that fills LLM_CALLS_CHARS."""
        calls: list[JsonObject] = []
        room, after = LLM_CALLS_CHARS, 0
        while True:
            request = GetLlmCalls(project=project, run_id=run_id, after=after)
            page: LlmCalls = await self.request(rpc.GET_LLM_CALLS, request)
            calls += page.calls
            room -= sum(len(str(call.get(text) or "")) for call in page.calls for text in ("prompt", "raw_text"))
            if page.next_after is None or room < 0:
                return calls
            after = page.next_after

    async def _wait_for_hint(self, feed: RunEventFeed, left: float) -> None:
        """Wait until there is a reason to look again: the run's end was reported, or CHECK_S is over."""
        until = monotonic() + min(CHECK_S, left)
        while not feed.ended and not feed.stopping and (rest := until - monotonic()) > 0:
            await feed.wait(rest)
            if not feed.ended:
                feed.take()
