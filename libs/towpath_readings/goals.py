"""The task state of a goal run with its steps: objective, steps, calls, progress, confidence; read from the events.

The log is the truth; this is a reading of it, the same for a run that goes on and for one that ended. Times are
the log's, money is US dollars, durations are milliseconds.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.decisions.assessments import UNJUDGED
from towpath_contracts.events import log as ev
from towpath_contracts.runs.run_control import RUN_PAUSED
from towpath_contracts.text import as_text, truncate
from towpath_readings.execution_log import call_status, response_of

LAST_ERRORS = 10
"""Errors that are kept of a run, newest last."""

RESULT_CHARS = 2_000
"""Of one result; the whole of it is in the record, by its execution id."""

ACTIONS = frozenset({"decide", "replan"})


class GoalToolCall(MessagePart):
    """One tool call of the run."""

    execution_id: UUID
    step: int
    attempt: int
    tool: str
    arguments: JsonObject = Field(default_factory=dict)
    status: str = ""
    result: str = ""
    duration_ms: int = 0


class GoalModelCall(MessagePart):
    """One answered request to a model: an action, or what it was asked to judge."""

    step: int
    kind: str
    model: str = ""
    tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int = 0


class GoalChildRun(MessagePart):
    """A run that a step has started, with all below it; tokens and cost are known once it has ended."""

    run_id: UUID
    step: int
    agent_id: str = ""
    status: str = "running"
    tokens: int = 0
    cost_usd: float | None = 0.0


class GoalStep(MessagePart):
    """One step: what was planned, done, and found of it, over all its attempts.

    `planned_action` and `execution_result` are those of the last attempt; `acceptance_progress` is the progress after
    the step, 0 to 1. Tokens and cost include the child runs that the step has started.
    """

    step_number: int
    timestamp: datetime
    agent_id: str = ""
    reasoning: str = ""
    planned_action: JsonObject = Field(default_factory=dict)
    execution_result: list[JsonObject] = Field(default_factory=list)
    attempt_number: int = 1
    validation: JsonObject | None = None
    acceptance_progress: float = 0.0
    success: bool | None = None
    error_if_failed: str | None = None
    tokens_used: int = 0
    cost_usd: float | None = 0.0
    duration_ms: int = 0


class GoalView(Message):
    """The goal view of a run: how it stands, its steps, progress and confidence.

    How a goal run stands. `status` is the run's, `reason` why it ended; `seq` the last event that was read.

    `last_confidence_score` is None where it was not asked for, or not judged; costs are None where a price is unknown.
    `total_tokens` and `total_cost_usd` are of the whole tree: the run, its late corrections, and `child_runs` as far as
    they have ended. `token_usage` and `llm_calls` are the run's own.
    """

    task_id: UUID
    agent_id: str
    project_id: str
    status: str = "queued"
    reason: str = ""
    seq: int = 0
    goal: str
    acceptance_criteria: list[str] = Field(default_factory=list)
    criteria_met: list[int] = Field(default_factory=list)
    constraints: JsonObject = Field(default_factory=dict)
    current_step: int = 0
    max_steps: int = 20
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps_history: list[GoalStep] = Field(default_factory=list)
    artifacts: dict[str, JsonObject] = Field(default_factory=dict)
    failure_count: int = 0
    last_errors: list[str] = Field(default_factory=list)
    consecutive_failures: int = 0
    progress_score: float = 0.0
    progress_source: str = "none"
    progress_metrics: JsonObject = Field(default_factory=dict)
    token_usage: list[int] = Field(default_factory=list)
    llm_calls: list[GoalModelCall] = Field(default_factory=list)
    tool_executions: list[GoalToolCall] = Field(default_factory=list)
    child_runs: list[GoalChildRun] = Field(default_factory=list)
    total_tokens: int = 0
    total_cost_usd: float | None = 0.0
    decision_reasoning: list[str] = Field(default_factory=list)
    escalation_triggered: bool = False
    escalation_reason: str | None = None
    timeout_reached: bool = False
    resource_limit_hit: bool = False
    last_confidence_check_step: int = 0
    last_confidence_score: float | None = None


class GetGoal(Message):
    """Ask how a goal run stands."""

    project: str
    run_id: UUID


def project_goal(run_id: UUID, entries: Iterable["ev.LogEntry"]) -> GoalView | None:
    """Return the task state that *entries*, from the first on, show; None for a run that pursues no goal."""
    reader = GoalReader(run_id)
    for entry in entries:
        reader.take(entry)
    return reader.view()


class GoalReader:
    """Reads the events of any run, in order, and builds the goal view of one that pursues a goal."""

    def __init__(self, run_id: UUID) -> None:
        """Nothing is known of *run_id* yet."""
        self._run_id = run_id
        self._building: GoalViewBuilder | None = None

    def take(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        if isinstance(entry.event, ev.RunCreated) and entry.event.goal is not None:
            self._building = GoalViewBuilder(self._run_id, entry.event)
        if self._building is not None:
            self._building.add(entry)

    def view(self) -> GoalView | None:
        """Return the task state after the events so far; None for a run that pursues no goal."""
        return None if self._building is None else self._building.state()


class GoalViewBuilder:
    """Builds the goal view from the events of a run, in order; `state` is at any moment how the run stands."""

    def __init__(self, run_id: UUID, created: "ev.RunCreated") -> None:
        goal = created.goal
        self._now: dict[str, Any] = {
            "task_id": run_id,
            "agent_id": created.agent_key,
            "project_id": created.project,
            "goal": "" if goal is None else goal.goal,
            "acceptance_criteria": [] if goal is None else [one.words() for one in goal.acceptance_criteria],
            "constraints": {} if goal is None else goal.constraints,
            "max_steps": created.max_steps,
        }
        self._steps: list[dict[str, Any]] = []
        self._calls: dict[UUID, dict[str, Any]] = {}
        self._models: list[GoalModelCall] = []
        self._children: dict[UUID, GoalChildRun] = {}
        self._corrected: list[tuple[int, float | None]] = []
        self._reasoning: list[str] = []
        self._errors: list[str] = []
        self._artifacts: dict[str, JsonObject] = {}
        self._kind = "decide"
        self._asked_at: datetime | None = None
        self._progress = 0.0
        self._failures = 0
        self._row = 0
        self._gates = 0

    def state(self) -> GoalView:
        """Return how the run stands after the events so far."""
        own = [(call.tokens, call.cost_usd) for call in self._models]
        paid = [*own, *((child.tokens, child.cost_usd) for child in self._children.values()), *self._corrected]
        return GoalView(
            **self._now,
            steps_history=[GoalStep(**step) for step in self._steps],
            tool_executions=[GoalToolCall(**call) for call in self._calls.values()],
            llm_calls=self._models,
            token_usage=[call.tokens for call in self._models],
            child_runs=[*self._children.values()],
            total_tokens=sum(tokens for tokens, _ in paid),
            total_cost_usd=_sum_of(cost for _, cost in paid),
            decision_reasoning=self._reasoning,
            last_errors=self._errors[-LAST_ERRORS:],
            artifacts=self._artifacts,
            failure_count=self._failures,
            consecutive_failures=self._row,
            progress_score=self._progress,
        )

    def add(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        self._now["seq"] = entry.seq
        event = entry.event
        match event:
            case ev.RunStarted():
                self._now |= {"status": "running", "started_at": entry.at}
            case ev.DecisionRequested():
                self._requested(event, entry.at)
            case ev.DecisionReceived() | ev.DecisionRequestFailed() | ev.DecisionPostponed():
                self._answered(event)
            case ev.InstructionIssued():
                self._instructed(event)
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                self._called(event)
            case ev.AgentTransferred():
                self._now["agent_id"] = event.target
            case ev.GateOpened() | ev.GateClosed():
                self._gate(event)
            case ev.ChildStarted() | ev.ChildEnded():
                self._child(event)
            case _:
                self._assessed(event, entry.at)

    def _assessed(self, event: "ev.AnyEvent", at: datetime) -> None:
        match event:
            case ev.StepResultValidated():
                self._validated(event, at)
            case ev.ProgressMeasured():
                self._progress = event.score
                self._now |= {"progress_source": event.source, "progress_metrics": event.metrics}
                self._artifacts |= {str(one["name"]): one for one in event.artifacts}
                if self._steps:
                    self._steps[-1]["acceptance_progress"] = event.score
            case ev.GoalConfidenceMeasured():
                score = None if event.reason == UNJUDGED else event.score
                self._now |= {"last_confidence_check_step": event.step, "last_confidence_score": score}
            case ev.RunFinished():
                self._finished(event, at)
            case ev.UsageCorrected():
                self._corrected.append((event.usage.total_tokens, event.cost.usd))
            case _:
                return

    def _requested(self, event: "ev.DecisionRequested", at: datetime) -> None:
        self._kind = event.kind
        if self._steps and event.step == self._now.get("current_step"):
            return
        self._now["current_step"] = event.step
        self._asked_at = at
        step = {"step_number": event.step, "timestamp": at, "agent_id": event.agent_key}
        self._steps.append({**step, "acceptance_progress": self._progress})

    def _answered(self, event: "ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed") -> None:
        tokens, usd = event.usage.total_tokens, event.cost.usd
        call = {"step": event.step, "kind": self._kind, "model": event.model, "tokens": tokens}
        self._models.append(GoalModelCall(**call, cost_usd=usd, duration_ms=event.duration_ms))
        step = self._steps[-1]
        _add_to(step, tokens, usd)
        if self._kind in ACTIONS and isinstance(event, ev.DecisionReceived):
            step["reasoning"] = str(event.decision.get("action_reasoning", ""))
            self._reasoning.append(step["reasoning"])

    def _instructed(self, event: "ev.InstructionIssued") -> None:
        step = self._steps[-1]
        step["attempt_number"] = step.get("attempt_number", 0) + 1
        step["planned_action"] = event.instruction.model_dump(mode="json")
        step["execution_result"] = []
        for call in getattr(event.instruction, "calls", ()):
            self._calls[call.execution_id] = {
                "execution_id": call.execution_id,
                "step": event.step,
                "attempt": step["attempt_number"],
                "tool": call.tool,
                "arguments": call.shown_args(),
            }
        step["planned_action"].pop("kind", None)
        step["planned_action"] = {"action": event.instruction.kind, **_visible_arguments(step["planned_action"])}

    def _called(self, event: "ev.ToolCallFinished | ev.ToolCallDenied") -> None:
        status, result = call_status(event), truncate(as_text(response_of(event)), RESULT_CHARS)
        duration_ms = event.duration_ms if isinstance(event, ev.ToolCallFinished) else 0
        outcome = {"status": status, "result": result, "duration_ms": duration_ms}
        if event.execution_id in self._calls:
            self._calls[event.execution_id] |= outcome
        self._steps[-1]["execution_result"].append({"tool": event.tool, **outcome})

    def _child(self, event: "ev.ChildStarted | ev.ChildEnded") -> None:
        if isinstance(event, ev.ChildStarted):
            started = GoalChildRun(run_id=event.child_id, step=event.step, agent_id=event.task.agent_key)
            self._children[event.child_id] = started
            return
        known = self._children.get(event.child_id) or GoalChildRun(run_id=event.child_id, step=event.step)
        tokens = event.usage.total_tokens + (0 if event.usage_below is None else event.usage_below.total_tokens)
        usd = _sum_of((event.cost.usd, 0.0 if event.below is None else event.below.usd))
        ended = {"status": event.status, "tokens": tokens, "cost_usd": usd}
        self._children[event.child_id] = known.model_copy(update=ended)
        for step in self._steps:
            if step["step_number"] == event.step:
                _add_to(step, tokens, usd)

    def _validated(self, event: "ev.StepResultValidated", at: datetime) -> None:
        step = self._steps[-1]
        step["validation"] = event.model_dump(mode="json", exclude={"type", "step", "attempt"})
        step["success"] = event.success
        if self._asked_at is not None:
            step["duration_ms"] = int((at - self._asked_at).total_seconds() * 1000)
        self._now["criteria_met"] = list(event.criteria)
        if event.success:
            step["error_if_failed"] = None
            self._failures, self._row = max(0, self._failures - 1), 0
            return
        step["error_if_failed"] = event.reason or event.error_signature
        self._errors.append(event.error_signature or event.reason)
        self._failures, self._row = self._failures + 1, self._row + 1

    def _gate(self, event: "ev.GateOpened | ev.GateClosed") -> None:
        opened = isinstance(event, ev.GateOpened)
        self._gates += 1 if opened else -1
        self._now["status"] = "waiting" if self._gates else "running"
        if isinstance(event, ev.GateOpened) and event.execution_id is None and event.gate_type != RUN_PAUSED:
            self._now |= {"escalation_triggered": True, "escalation_reason": event.reason}

    def _finished(self, event: "ev.RunFinished", at: datetime) -> None:
        self._now |= {"status": event.status, "reason": event.reason, "completed_at": at}
        self._now["timeout_reached"] = event.status == "timed_out"
        self._now["resource_limit_hit"] = event.reason.startswith(("budget", "price_unknown"))
        if event.status == "escalated":
            self._now |= {"escalation_triggered": True, "escalation_reason": str(event.final.get("message", ""))}


def _add_to(step: dict[str, Any], tokens: int, usd: float | None) -> None:
    step["tokens_used"] = step.get("tokens_used", 0) + tokens
    step["cost_usd"] = _sum_of((step.get("cost_usd", 0.0), usd))


def _sum_of(costs: Iterable[float | None]) -> float | None:
    """Add up *costs*: one that is unknown makes the sum unknown, and never less."""
    known = list(costs)
    return None if None in known else round(sum(cost for cost in known if cost is not None), 9)


def _visible_arguments(action: JsonObject) -> JsonObject:
    """Leave out what a model may not see: the values that the system filled in."""
    calls = action.get("calls")
    if calls is None:
        return action
    shown = [
        {"tool": one["tool"], "arguments": {k: v for k, v in one["args"].items() if k not in one["system_params"]}}
        for one in calls
    ]
    return {**action, "calls": shown}
