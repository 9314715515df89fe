"""What is counted and logged of committed transitions: ends of runs, steps of plans, depth denied.

A transition is looked at, never changed; of a run without a plan, at any depth but the deepest, only whether it
has ended. No label holds an id.
"""

from datetime import datetime
from uuid import UUID

from towpath_contracts.events import log as ev
from towpath_contracts.tools.child_tools import ORCHESTRATE
from towpath_contracts.tree_limits import MAX_DEPTH
from towpath_engine.handlers.children import depth_of
from towpath_engine.reducers.background import active_ms
from towpath_engine.state.run import RunState
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import Moved
from towpath_orchestrator.metrics import Metrics

DEPTH_EXCEEDED = "depth_exceeded"
MS_OF_ID = 80
"""A run id is a UUIDv7: above these bits stand the milliseconds of its birth (RFC 9562, section 5.7)."""


class Telling:
    """One replica's word about the runs that it moves."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log

    def told(self, moved: Moved) -> None:
        """Take note of a committed transition."""
        state = moved.state
        if state.is_final and isinstance(moved.entries[-1].event, ev.RunFinished):
            self._metrics.runs.labels(str(state.status)).inc()
        if state.composition is None and depth_of(state) < MAX_DEPTH:
            return
        for entry in moved.entries:
            match entry.event:
                case ev.ChildEnded() if state.composition is not None:
                    self._agent_ended(moved, entry.event, entry.at)
                case ev.PlanStepEnded():
                    self._step_ended(moved, entry.event, entry.at)
                case ev.ToolCallFinished() if entry.event.failure is not None:
                    self._denied(entry.event.failure.code)
                case ev.RunFinished() if state.composition is not None:
                    self._metrics.plans.labels(state.created.kind, entry.event.status).inc()
                case _:
                    continue

    def _agent_ended(self, moved: Moved, event: "ev.ChildEnded", at: datetime) -> None:
        state, before = moved.state, moved.before
        children = before.children if before is not None else ()  # the same transition may have begun the next step
        child = next((one for one in children if one.child_id == event.child_id), None)
        if child is not None:
            took = max(0, round(at.timestamp() * 1_000) - _born_ms(event.child_id))
            named = {"step_id": child.subject, "agent_key": child.agent_key, "exec_id": str(event.child_id)}
            told = {"tool": tool_of(state), **named, "latency_ms": took, "status": event.status}
            self._log.info("an agent of a plan has ended", run_id=str(state.run_id), **told)

    def _step_ended(self, moved: Moved, event: "ev.PlanStepEnded", at: datetime) -> None:
        state, report = moved.state, event.report
        held = moved.before.composition if moved.before is not None else None
        self._metrics.plan_steps.labels(report.type, report.status).inc()
        self._denied((report.error or {}).get("code", ""))
        if held is None or held.at != event.index:
            return  # it was never begun
        took = max(0, active_ms(state, at) - held.began_ms)
        self._metrics.plan_step_seconds.labels(report.type).observe(took / 1_000)
        named = {"step_id": report.id, "agent_key": report.agent_key, "exec_id": report.exec_id}
        told = {"tool": tool_of(state), **named, "latency_ms": took, "status": report.status}
        self._log.info("a step of a plan has ended", run_id=str(state.run_id), **told)

    def _denied(self, code: str) -> None:
        if code == DEPTH_EXCEEDED:
            self._metrics.recursion_denials.inc()


def tool_of(state: RunState) -> str:
    """Return what made the run carry out steps: the tool `agent_orchestrate`, a task's plan, or a swarm's flow."""
    kind = state.created.kind
    return ORCHESTRATE if kind == "plan" and state.created.parent is not None else kind


def _born_ms(run_id: UUID) -> int:
    return run_id.int >> MS_OF_ID
