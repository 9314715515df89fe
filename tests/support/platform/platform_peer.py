"""A peer that speaks the platform's protocol over real NATS, so that the gateway is tested without other services.

It keeps runs as lists of events and answers what orchestrator, tool-access service, decider and log-writer are asked.
It is told what to do by the test: nothing in it decides.
"""

import asyncio
import inspect
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.waiting import all_sent

from towpath_contracts import rpc, subjects
from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.events.log import LogEntry, RunCreated, RunFinished, RunStarted, TransitionEvents
from towpath_contracts.problems.registry import Problem, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.trace_context import parse_traceparent
from towpath_contracts.runs.views import (
    ActionDone,
    CancelRun,
    GetEvents,
    GetLlmCalls,
    GetRun,
    LlmCalls,
    RunPage,
    RunView,
)
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_fabric.turns.task_end import end_tasks

DIGEST = "sha256:" + "0" * 64
BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass
class PeerRun:
    """A run as the peer keeps it."""

    run_id: uuid.UUID
    project: str
    caller: str
    task: SubmitTask
    entries: list[LogEntry] = field(default_factory=list)
    status: str = "queued"
    final: dict[str, Any] | None = None

    def view(self) -> RunView:
        return RunView(
            run_id=self.run_id,
            project=self.project,
            kind="network",
            network=self.task.network,
            version=1,
            snapshot_digest=DIGEST,
            status=self.status,
            caller=self.caller,
            user_message=self.task.user_message,
            seq=len(self.entries),
            created_at=BEGIN,
            started_at=BEGIN,
            ended_at=BEGIN + timedelta(seconds=1.5) if self.status in FINAL_STATUSES else None,
            final=self.final,
            debug=self.task.debug,
        )


class PlatformPeer:
    """Use: `async with PlatformPeer(url) as peer`. `projects` maps callers, `answers` holds replies by subject.

    One that is awaited is sent once it is there, and holds up no other.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.projects = {"anonymous": "default", "local": "default"}
        self.runs: dict[uuid.UUID, PeerRun] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.lost_submits = 0
        """How many of the next submits are accepted, and their answers lost."""
        self.on_submit: Callable[[PeerRun], Awaitable[None]] | None = None
        self.llm_calls: list[dict[str, Any]] = []
        self._by_key: dict[tuple[str, str], PeerRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.nc: Client

    async def __aenter__(self) -> Self:
        self.nc = await nats.connect(self.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        for subject in (subjects.TASK_SUBMIT_ALL, "svc.*.*"):
            await self.nc.subscribe(subject, cb=self._on_request)
        await all_sent(self.nc)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(self._tasks)
        await self.nc.close()

    def requests(self, subject: str) -> list[dict[str, Any]]:
        """Return the bodies that came in on *subject*."""
        return [body for asked, body in self.asked if asked == subject]

    async def add(self, run: PeerRun, *events: Any, tell: bool = True) -> None:
        """Append events to a run's log, and tell them unless *tell* is False."""
        first = len(run.entries)
        for event in events:
            at = BEGIN + timedelta(milliseconds=100 * len(run.entries))
            run.entries.append(LogEntry(seq=len(run.entries) + 1, at=at, event=event))
            if isinstance(event, RunStarted):
                run.status = "running"
            if isinstance(event, RunFinished):
                run.status, run.final = event.status, event.final
        if tell:
            await self.tell(run, run.entries[first:])

    async def tell(self, run: PeerRun, entries: list[LogEntry]) -> None:
        """Publish entries of a run, whatever they are."""
        message = TransitionEvents(run_id=run.run_id, project=run.project, entries=tuple(entries))
        await self.nc.publish(subjects.run_event(run.run_id), message.model_dump_json().encode())

    async def finish(self, run: PeerRun, *, tell: bool = True, message: str = "done") -> None:
        """End a run with an answer."""
        final = {"status": "ok", "response": {"message": message}}
        await self.add(
            run, RunFinished(status="completed", reason="responded", final=final, steps=1, fence=1), tell=tell
        )

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_request(self, message: Msg) -> None:
        body = json.loads(message.data)
        self.asked.append((message.subject, body))
        if message.subject.startswith("task.submit."):
            reply: Any = await self._submit(message.subject.rpartition(".")[2], body)
        elif message.subject in self.answers:
            reply = self.answers[message.subject]
            reply = reply(body) if callable(reply) else reply
        else:
            reply = self._answer(message.subject, message.data)
        if inspect.isawaitable(reply):
            self._later(self._reply_once_there(message, reply))
        else:
            await self._reply(message, reply)

    async def _reply_once_there(self, message: Msg, reply: Awaitable[Any]) -> None:
        await self._reply(message, await reply)

    async def _reply(self, message: Msg, reply: Any) -> None:
        if reply is not None:
            if len(reply.model_dump_json()) > self.nc.max_payload - 1_024:
                reply = problem("answer_too_large", "more than one message holds")
            headers = {rpc.PROBLEM_HEADER: reply.code} if isinstance(reply, Problem) else None
            await self.nc.publish(message.reply, reply.model_dump_json().encode(), headers=headers)

    async def _submit(self, caller: str, body: dict[str, Any]) -> Any:
        task = SubmitTask.model_validate(body)
        if (planned := self.answers.get("task.submit")) is not None:
            return planned
        if task.network == "missing":
            return problem("network_not_found", "there is no network missing")
        key = (caller, task.idempotency_key or "")
        run = self._by_key.get(key) if task.idempotency_key else None
        if run is not None and run.task != task:
            return problem("idempotency_conflict", "another body")
        duplicate = run is not None
        if run is None:
            run = PeerRun(run_id=uuid.uuid4(), project=self.projects[caller], caller=caller, task=task)
            self.runs[run.run_id] = self._by_key[key] = run
            await self.add(run, _created(run))
            if self.on_submit is not None:
                self._later(self.on_submit(run))
        if self.lost_submits:
            self.lost_submits -= 1
            return None
        return RunAccepted(
            run_id=run.run_id,
            project=run.project,
            network=task.network,
            version=1,
            status=run.status,
            created_at=BEGIN,
            duplicate=duplicate,
            trace_id=(_sampled_trace(run.task) or run.run_id).hex,
        )

    def _answer(self, subject: str, data: bytes) -> Any:
        if subject == rpc.GET_RUN.subject:
            asked = GetRun.model_validate_json(data)
            run = self._visible(asked.run_id, asked.project)
            return run if isinstance(run, Problem) else run.view()
        if subject == rpc.EVENTS.subject:
            return self._page(GetEvents.model_validate_json(data))
        if subject == rpc.LIST_RUNS.subject:
            project = json.loads(data)["project"]
            return RunPage(runs=tuple(run.view() for run in self.runs.values() if run.project == project))
        if subject == rpc.CANCEL_RUN.subject:
            cancel = CancelRun.model_validate_json(data)
            run = self._visible(cancel.run_id, cancel.project)
            return run if isinstance(run, Problem) else ActionDone(detail="cancelling")
        if subject == rpc.GET_LLM_CALLS.subject:
            GetLlmCalls.model_validate_json(data)
            return LlmCalls(calls=tuple(self.llm_calls))
        return problem("internal", f"the test has no answer for {subject}")

    def _page(self, asked: GetEvents) -> Any:
        run = self._visible(asked.run_id, asked.project)
        if isinstance(run, Problem):
            return run
        entries = tuple(run.entries[asked.after : asked.after + asked.limit])
        return EventPage(run_id=run.run_id, entries=entries, seq=len(run.entries), status=run.status)

    def _visible(self, run_id: uuid.UUID, project: str) -> "PeerRun | Problem":
        run = self.runs.get(run_id)
        if run is None or run.project != project:
            return problem("run_not_found", f"there is no run {run_id}")
        return run


def _sampled_trace(task: SubmitTask) -> uuid.UUID | None:
    span = parse_traceparent(task.traceparent)
    return span.trace if span is not None and span.sampled else None


def _created(run: PeerRun) -> RunCreated:
    return RunCreated(
        project=run.project,
        caller=run.caller,
        network=run.task.network,
        version=1,
        snapshot_digest=DIGEST,
        agent_key=run.task.agent_key or "main",
        user_message=run.task.user_message,
        max_steps=10,
        max_tool_errors=8,
        timeout_ms=300_000,
        step_timeout_ms=60_000,
        context_limit=32_768,
        debug=run.task.debug,
        single_instruction=run.task.single_instruction,
    )
