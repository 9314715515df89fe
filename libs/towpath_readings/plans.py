"""How a plan or workflow stands, step by step, read from the events of its run.

The log is the truth; this is a reading of it, the same for a run that goes on and for one that ended. Times are
the log's, durations are milliseconds.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanState
from towpath_contracts.networks.plan import Plan, PlanStep, PlanStepResult

StepStanding = Literal["pending", "running", "waiting", "success", "failed", "partial", "skipped"]


class PlanStepAgentView(MessagePart):
    """One agent of a step: `run_id` is its child run, None where none was begun. `id` is its step's, or `fan[0]`."""

    id: str
    agent_key: str
    status: StepStanding = "pending"
    run_id: UUID | None = None
    result_key: str = ""
    reason: str = ""
    outputs: Any = None
    error: JsonObject | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None


class PlanStepView(MessagePart):
    """One step of a plan, with its agents in their order."""

    id: str
    type: Literal["agent", "parallel"]
    name: str = ""
    status: StepStanding = "pending"
    agents: tuple[PlanStepAgentView, ...] = ()
    error: JsonObject | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: int | None = None


class PlanView(Message):
    """How a plan stands: `status` is the run's, `state` the state machine's, `seq` the last event that was read.

    `origin` is where the plan comes from: given, planned (by a model) or flow (a swarm's); empty while there is none.
    `success` is None until the run has ended. `current_step` is the step under way, or the last one that was.
    """

    run_id: UUID
    kind: str
    status: str = "queued"
    reason: str = ""
    seq: int = 0
    state: PlanState = "plan_init"
    origin: str = ""
    name: str = ""
    description: str = ""
    current_step: str = ""
    success: bool | None = None
    steps: tuple[PlanStepView, ...] = ()
    bindings: JsonObject = Field(default_factory=dict)
    errors: tuple[JsonObject, ...] = ()


class InheritedPlan(MessagePart):
    """What a fork of a plan inherits, as its log has it; other fields are the run machine's."""

    phase: PlanState
    plan: Plan
    origin: str
    reports: tuple[PlanStepResult, ...] = ()
    results: JsonObject = Field(default_factory=dict)


def project_plan(run_id: UUID, entries: Iterable["ev.LogEntry"]) -> PlanView | None:
    """Return the plan that *entries*, from the first on, show; None for a run that carries out none.

    A handoff and a team are swarms without a plan: their agents decide who comes next.
    """
    reader = PlanReader(run_id)
    for entry in entries:
        reader.take(entry)
    return reader.view()


class PlanReader:
    """Reads the events of any run, in order, and says how the plan of one that carries one out stands."""

    def __init__(self, run_id: UUID) -> None:
        """Nothing is known of *run_id* yet."""
        self._run_id = run_id
        self._reading: _PlanProjection | None = None

    def take(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        if isinstance(entry.event, ev.RunCreated):
            created = entry.event
            flows = created.swarm is not None and created.swarm.swarm.mode == "workflow"
            if flows or (created.plan is not None and created.swarm is None):
                self._reading = _PlanProjection(self._run_id, created)
        if self._reading is not None:
            self._reading.add(entry)

    def view(self) -> PlanView | None:
        """Return how the plan stands after the events so far; None for a run that carries out none."""
        return None if self._reading is None else self._reading.view()


class _PlanProjection:
    """Walks the events of a plan's run, in order."""

    def __init__(self, run_id: UUID, created: "ev.RunCreated") -> None:
        self._now: dict[str, Any] = {"run_id": run_id, "kind": created.kind, "bindings": {}}
        self._steps: list[dict[str, Any]] = []
        self._agents: dict[UUID, dict[str, Any]] = {}

    def view(self) -> PlanView:
        """Return how the plan stands after the events so far."""
        steps = map(PlanStepView.model_validate, self._steps)
        return PlanView(**self._now, steps=tuple(steps))

    def add(self, entry: "ev.LogEntry") -> None:
        """Read one more event."""
        self._now["seq"] = entry.seq
        event, at = entry.event, entry.at
        match event:
            case ev.RunStarted():
                self._now["status"] = "running"
            case ev.CancelAccepted():
                self._now["status"] = "cancelling"
            case ev.PlanStateChanged():
                self._now["state"] = event.target
                self._now["current_step"] = event.step_id or self._now.get("current_step", "")
            case ev.RunForked() if event.inherited.get("composition"):
                self._inherit(InheritedPlan.model_validate(event.inherited["composition"]))
            case ev.PlanAccepted():
                self._now |= {"origin": event.origin, "name": event.plan.name, "description": event.plan.description}
                self._steps = [_pending(step) for step in event.plan.steps]
            case ev.PlanStepStarted():
                self._steps[event.index] |= {"status": "running", "started_at": at}
            case ev.PlanStepEnded():
                self._ended(event, at)
            case ev.RunFinished():
                self._finished(event)
            case _:
                self._child(event, at)

    def _inherit(self, held: "InheritedPlan") -> None:
        """Take over what a fork was born with: the plan, and what came of the steps before its own first one."""
        self._now |= {"origin": held.origin, "name": held.plan.name, "description": held.plan.description}
        self._now |= {"state": held.phase, "bindings": dict(held.results)}
        self._steps = [_pending(step) for step in held.plan.steps]
        for step, report in zip(self._steps, held.reports, strict=False):
            _report_into(step, report)
            for agent, one in zip(step["agents"], report.children or (report,), strict=False):
                agent["run_id"] = one.exec_id or None

    def _child(self, event: "ev.AnyEvent", at: datetime) -> None:
        match event:
            case ev.ChildStarted():
                agent = self._steps[event.step - 1]["agents"][event.index]
                agent |= {"run_id": event.child_id, "status": "running", "started_at": at}
                self._agents[event.child_id] = agent
                self._wait_for_people()
            case ev.ChildGateWaitChanged() if self._is_open(event.child_id):
                self._agents[event.child_id]["status"] = "waiting" if event.waits else "running"
                self._wait_for_people()
            case ev.ChildEnded() if event.child_id in self._agents:
                agent = self._agents[event.child_id]
                agent |= {"reason": event.reason, **_duration_ms(agent, at)}
                if self._is_open(event.child_id):
                    status = "success" if event.status == "completed" else "failed"
                    agent |= {"status": status, "outputs": event.final if status == "success" else None}
                    self._wait_for_people()
            case _:
                return

    def _wait_for_people(self) -> None:
        """Show the step under way as its agents that go on: it waits where all of these do, and so does the run."""
        going = {"running", "waiting"}
        for step in self._steps:
            agents = {agent.get("status") for agent in step["agents"]} & going
            if agents and step.get("status") in going:
                step["status"] = "waiting" if agents == {"waiting"} else "running"
                self._now["status"] = step["status"] if self._now["status"] in going else self._now["status"]

    def _is_open(self, child_id: UUID) -> bool:
        """Return whether the report of a child still counts: once its step has ended, the step's report does."""
        return self._agents.get(child_id, {}).get("status") in {"running", "waiting"}

    def _ended(self, event: "ev.PlanStepEnded", at: datetime) -> None:
        step, report = self._steps[event.index], event.report
        _report_into(step, report)
        if step["started_at"] is not None:
            step |= _duration_ms(step, at)
        self._now["bindings"] |= event.bindings

    def _finished(self, event: "ev.RunFinished") -> None:
        self._now |= {"status": event.status, "reason": event.reason, "success": event.status == "completed"}
        errors = event.final.get("errors")
        if event.status != "completed" and isinstance(errors, list):
            self._now["errors"] = tuple(error for error in errors if isinstance(error, dict))


def _pending(step: PlanStep) -> dict[str, Any]:
    named = "{}[{}]" if step.type == "parallel" else "{}"
    agents = [
        {"id": named.format(step.id, place), "agent_key": call.agent_key, "result_key": call.result_key}
        for place, call in enumerate(step.calls)
    ]
    return {"id": step.id, "type": step.type, "name": step.name, "agents": agents, "started_at": None}


def _report_into(step: dict[str, Any], report: PlanStepResult) -> None:
    """Show what came of a step, and of its agents."""
    step |= {"status": report.status, "error": report.error}
    if report.type == "agent" or report.children:
        for agent, one in zip(step["agents"], report.children or (report,), strict=False):
            agent |= {"status": one.status, "outputs": one.outputs, "error": one.error}
    else:  # nothing of it was begun
        step["agents"] = [{**agent, "status": "skipped"} for agent in step["agents"]]


def _duration_ms(begun: dict[str, Any], at: datetime) -> dict[str, Any]:
    started: datetime = begun["started_at"]
    return {"ended_at": at, "duration_ms": round((at - started).total_seconds() * 1_000)}
