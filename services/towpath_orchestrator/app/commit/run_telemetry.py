"""Metrics, log lines and spans of committed transitions: ends of runs, steps of plans, denied depth.

Of a run without a plan, at any depth but the deepest, only the end is counted. No label holds an id. Spans are recorded
in the background, when a run has ended; a run whose log can't be read then has none.
"""

import asyncio
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry
from towpath_contracts.networks.child_tools import ORCHESTRATE
from towpath_engine.handlers.children import depth_of
from towpath_engine.reducers.background import active_ms
from towpath_engine.state.run import RunState
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_orchestrator.adapters.run_store import QUERIES, read_entry
from towpath_orchestrator.core.transitions import Transition
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_readings.run_spans import run_spans

DEPTH_EXCEEDED = "depth_exceeded"
MS_OF_ID = 80
"""A run id is a UUIDv7: above these bits stand the milliseconds of its birth (RFC 9562, section 5.7)."""


class TransitionMetrics:
    """Counts and logs the transitions that one replica commits."""

    def __init__(self, metrics: OrchestratorMetrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log

    def observe(self, transition: Transition) -> None:
        """Count and log a committed transition."""
        state = transition.state
        if transition.ends_run:
            self._run_ended(state, transition.entries[-1])
        if state.composition is None and depth_of(state) < state.caps.max_depth:
            return
        for entry in transition.entries:
            match entry.event:
                case ev.ChildEnded() if state.composition is not None:
                    self._agent_ended(transition, entry.event, entry.at)
                case ev.PlanStepEnded():
                    self._step_ended(transition, entry.event, entry.at)
                case ev.ToolCallFinished() if entry.event.failure is not None:
                    self._denied(entry.event.failure.code)
                case ev.RunFinished() if state.composition is not None:
                    self._metrics.plans.labels(state.created.kind, entry.event.status).inc()
                case _:
                    continue

    def _run_ended(self, state: RunState, last: "ev.LogEntry") -> None:
        kind, status = state.created.kind, str(state.status)
        seconds = _age_ms(state.run_id, last.at) / 1_000
        reason = last.event.reason if isinstance(last.event, ev.RunFinished) else status
        self._metrics.runs.labels(status).inc()
        self._metrics.run_seconds.labels(kind, status).observe(seconds)
        self._metrics.count_workflow(state.created.network, seconds, "" if status == "completed" else reason)
        self._metrics.run_steps.labels(kind).observe(state.step)

    def _agent_ended(self, transition: Transition, event: "ev.ChildEnded", at: datetime) -> None:
        state, before = transition.state, transition.before
        children = before.children if before is not None else ()  # the same transition may have begun the next step
        child = next((one for one in children if one.child_id == event.child_id), None)
        if child is not None:
            took = _age_ms(event.child_id, at)
            named = {"step_id": child.subject, "agent_key": child.agent_key, "exec_id": str(event.child_id)}
            fields = {"tool": tool_of(state), **named, "latency_ms": took, "status": event.status}
            self._log.info("an agent of a plan has ended", run_id=str(state.run_id), **fields)

    def _step_ended(self, transition: Transition, event: "ev.PlanStepEnded", at: datetime) -> None:
        state, report = transition.state, event.report
        held = transition.before.composition if transition.before is not None else None
        self._metrics.plan_steps.labels(report.type, report.status).inc()
        self._denied((report.error or {}).get("code", ""))
        if held is None or held.at != event.index:
            return  # it was never begun
        took = max(0, active_ms(state, at) - held.began_ms)
        self._metrics.plan_step_seconds.labels(report.type).observe(took / 1_000)
        named = {"step_id": report.id, "agent_key": report.agent_key, "exec_id": report.exec_id}
        fields = {"tool": tool_of(state), **named, "latency_ms": took, "status": report.status}
        self._log.info("a step of a plan has ended", run_id=str(state.run_id), **fields)

    def _denied(self, code: str) -> None:
        if code == DEPTH_EXCEEDED:
            self._metrics.recursion_denials.inc()


def tool_of(state: RunState) -> str:
    """Return what made the run carry out steps: the tool `agent_orchestrate`, a task's plan, or a swarm's flow."""
    kind = state.created.kind
    return ORCHESTRATE if kind == "plan" and state.created.parent is not None else kind


def _age_ms(run_id: UUID, at: datetime) -> int:
    return max(0, round(at.timestamp() * 1_000) - (run_id.int >> MS_OF_ID))


PAGE = 500
"""Events read at a time."""

PAGE_BYTES = 1_000_000
"""And their bytes together."""


AT_ONCE = 2
"""Runs whose logs are read at the same time; a flood of ended runs waits its turn."""


class RunTracing:
    """Reads the logs of ended runs in the background and records their spans."""

    def __init__(self, pool: Any, telemetry: SpanRecorder, log: Logger) -> None:
        self._pool = pool
        self._telemetry = telemetry
        self._log = log
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def ended(self, run_id: UUID) -> None:
        """Trace a run that has just ended; costs nothing where spans go nowhere."""
        if self._telemetry.enabled:
            task = asyncio.create_task(self._record(run_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _record(self, run_id: UUID) -> None:
        async with self._room:
            try:
                entries = await self._entries(run_id)
                self._telemetry.record(run_id, *run_spans(run_id, entries))
            except (*DATABASE_DOWN, ValidationError) as error:
                self._log.info("a run is not traced", run_id=str(run_id), error=str(error))

    async def _entries(self, run_id: UUID) -> list[LogEntry]:
        entries: list[LogEntry] = []
        while True:
            after = entries[-1].seq if entries else 0
            rows = await self._pool.fetch(QUERIES.events_page, run_id, after, PAGE, PAGE_BYTES)
            if not rows:
                return entries
            entries.extend(read_entry(row) for row in rows)
