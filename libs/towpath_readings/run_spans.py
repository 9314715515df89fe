"""The spans that follow from a run's log: the run, its steps, its tool calls, its children.

Made from the log alone, so that any process that has the log can record them, and recording twice gives the same
spans. Decisions and previews are events, as short as the execution log shows them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.runs.trace_context import RemoteSpan, parse_traceparent
from towpath_contracts.text import as_text, truncate
from towpath_readings.execution_log import (
    DETAILS_CHARS,
    REASONING_CHARS,
    REQUEST_CHARS,
    RESPONSE_CHARS,
    call_status,
    response_of,
)
from towpath_readings.spans import (
    RUN,
    TOOL_TYPE,
    Attribute,
    Span,
    SpanEvent,
    agent_id,
    call_key,
    child_key,
    nanoseconds,
    plan_step_key,
    step_key,
    usage_attributes,
)

_CHILD = (ev.ChildStarted, ev.ChildEnded)
"""In a plan their step is one of the plan's, which has a span of its own."""


@dataclass(slots=True, kw_only=True)
class _OpenSpan:
    """A span that has not ended yet."""

    name: str
    start_ns: int
    end_ns: int
    parent: str | None = RUN
    parent_run: UUID | None = None
    caller: RemoteSpan | None = None
    attributes: dict[str, Attribute | None] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    error: str | None = None


class _SpanProjection:
    """Walks the events once, in order."""

    def __init__(self, run_id: UUID) -> None:
        self._run_id = run_id
        self._spans: dict[str, _OpenSpan] = {}
        self._now = 0
        self._plans = False
        self._trace: UUID | None = None
        self._network = ""
        self._version: int | None = None

    def add(self, entry: "ev.LogEntry") -> None:
        self._now = nanoseconds(entry.at)
        event = entry.event
        step = getattr(event, "step", None)
        if isinstance(step, int) and not (self._plans and isinstance(event, _CHILD)):
            self._step(step, getattr(event, "agent_key", ""))
        match event:
            case ev.RunCreated():
                self._created(event)
            case ev.RunFinished():
                self._finished(event)
            case ev.DecisionReceived():
                self._decided(event)
            case ev.DecisionRefused():
                self._note(step_key(event.step), "towpath.decision.refused", {"towpath.code": event.code})
            case ev.DecisionRequestFailed():
                self._note(step_key(event.step), "towpath.decision.missed", {"towpath.code": event.code})
            case ev.DecisionPostponed():
                self._note(step_key(event.step), "towpath.decision.postponed", {"towpath.code": event.code})
            case ev.InstructionIssued():
                self._issued(event)
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                self._called(event)
            case _:
                self._nested(event)

    def spans(self) -> tuple[Span, ...]:
        """Return what has been seen; what is still open ends with the last event."""
        return tuple(
            Span(
                key=key,
                name=span.name,
                parent=span.parent,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                attributes=span.attributes,
                events=tuple(span.events),
                error=span.error,
                trace=self._trace,
                parent_run=span.parent_run,
                caller=span.caller,
            )
            for key, span in self._spans.items()
        )

    def _step(self, step: int, agent_key: str) -> None:
        key = step_key(step)
        if key not in self._spans:
            self._spans[key] = _OpenSpan(
                name=f"step {agent_key}".strip(),
                start_ns=self._now,
                end_ns=self._now,
                attributes={"towpath.step": step},
            )
            if agent_key:
                self._spans[key].attributes |= self._agent(agent_key)
        self._spans[key].end_ns = self._now

    def _agent(self, agent_key: str) -> dict[str, Attribute | None]:
        """Name one of this network's agents as the conventions do."""
        return {
            "gen_ai.agent.name": agent_key,
            "gen_ai.agent.id": agent_id(self._network, agent_key) if self._network else None,
            "gen_ai.agent.version": None if self._version is None else str(self._version),
        }

    def _note(self, key: str, name: str, attributes: dict[str, Attribute | None]) -> None:
        if key in self._spans:
            self._spans[key].events.append(SpanEvent(name=name, at_ns=self._now, attributes=attributes))

    def _created(self, event: "ev.RunCreated") -> None:
        above = event.parent
        caller = parse_traceparent(event.traceparent)
        root = None if above is None else above.root_id
        self._trace = root if caller is None else caller.trace
        self._network, self._version = event.network, event.version
        self._spans[RUN] = _OpenSpan(
            name=f"invoke_workflow {event.network}",
            start_ns=self._now,
            end_ns=self._now,
            parent=None if above is None else child_key(self._run_id),
            parent_run=None if above is None else above.run_id,
            caller=caller if above is None else None,
            attributes={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": event.network,
                "towpath.run.kind": event.kind,
                "towpath.project": event.project,
                "towpath.caller": event.caller,
                "towpath.network.version": event.version,
                "towpath.snapshot.digest": event.snapshot_digest,
                "towpath.max_steps": event.max_steps,
                "towpath.user_message.digest": digest_text(event.user_message),
                "towpath.user_message.chars": len(event.user_message),
            },
        )

    def _finished(self, event: "ev.RunFinished") -> None:
        for span in self._spans.values():
            if span is self._spans.get(RUN):
                span.end_ns = self._now
                span.error = None if event.status == "completed" else event.reason
                span.attributes |= {
                    "towpath.run.status": event.status,
                    "towpath.run.reason": event.reason,
                    "towpath.steps": event.steps,
                    "error.type": span.error,
                    **usage_attributes(event.usage, event.cost),
                }
            elif "open" in (span.attributes.get("towpath.call.status"), span.attributes.get("towpath.child.status")):
                span.end_ns = self._now

    def _decided(self, event: "ev.DecisionReceived") -> None:
        decision = event.decision
        preview: dict[str, Attribute | None] = {
            "towpath.action": str(decision.get("action", "")),
            "towpath.action.reasoning": truncate(str(decision.get("action_reasoning", "")), REASONING_CHARS),
            "towpath.action.details": truncate(as_text(decision.get("action_details", {})), DETAILS_CHARS),
        }
        self._note(step_key(event.step), "towpath.decision", preview)

    def _issued(self, event: "ev.InstructionIssued") -> None:
        if not isinstance(event.instruction, CallToolsInstruction):
            return
        for call in event.instruction.calls:
            key = call_key(call.execution_id)
            self._spans[key] = _OpenSpan(
                name=f"tool_call {call.tool}",
                start_ns=self._now,
                end_ns=self._now,
                parent=step_key(event.step),
                attributes={
                    "gen_ai.tool.name": call.tool,
                    "gen_ai.tool.type": TOOL_TYPE,
                    "gen_ai.tool.call.id": str(call.execution_id),
                    **self._agent(event.agent_key),
                    "towpath.call.status": "open",
                },
            )
            preview = truncate(canonical_json(call.shown_args()), REQUEST_CHARS)
            self._note(key, "towpath.tool.request", {"towpath.preview": preview})

    def _called(self, event: "ev.ToolCallFinished | ev.ToolCallDenied") -> None:
        key = call_key(event.execution_id)
        span = self._spans.get(key)
        if span is None:
            return
        status = call_status(event)
        span.end_ns = self._now
        span.attributes |= {"towpath.call.status": status, "towpath.policy.version": event.policy_version}
        if isinstance(event, ev.ToolCallDenied):
            span.attributes |= {"towpath.denial": event.denial.violation_type, "towpath.rule": event.denial.rule}
        elif status != "succeeded":
            span.error = event.failure.code if event.failure is not None else status
            span.attributes["error.type"] = span.error
        preview = truncate(as_text(response_of(event)), RESPONSE_CHARS)
        self._note(key, "towpath.tool.response", {"towpath.preview": preview})

    def _nested(self, event: "ev.AnyEvent") -> None:
        match event:
            case ev.ChildStarted() | ev.ChildEnded():
                self._child(event)
            case ev.PlanStepStarted() | ev.PlanStepEnded():
                self._plan_step(event)
            case ev.ToolCallPostponed():
                self._note(step_key(event.step), "towpath.call.postponed", {"towpath.code": event.code})
            case _:
                self._of_run(event)

    def _child(self, event: "ev.ChildStarted | ev.ChildEnded") -> None:
        """Open and close the span below which the child's own root stands."""
        key = child_key(event.child_id)
        if isinstance(event, ev.ChildStarted):
            task = event.task
            above = step_key(event.step) if task.execution_id is None else call_key(task.execution_id)
            self._spans[key] = _OpenSpan(
                name=f"invoke_agent {task.agent_key}",
                start_ns=self._now,
                end_ns=self._now,
                parent=plan_step_key(event.step - 1) if self._plans else above,
                attributes={
                    "gen_ai.operation.name": "invoke_agent",
                    **self._agent(task.agent_key),
                    "towpath.child.run_id": str(event.child_id),
                    "towpath.child.purpose": task.purpose,
                    "towpath.child.status": "open",
                    "towpath.plan.step_id": task.subject if self._plans else None,
                },
            )
        elif key in self._spans:
            span = self._spans[key]
            span.end_ns = self._now
            span.error = None if event.status == "completed" else event.reason or event.status
            span.attributes |= {"towpath.child.status": event.status, "error.type": span.error}

    def _plan_step(self, event: "ev.PlanStepStarted | ev.PlanStepEnded") -> None:
        key = plan_step_key(event.index)
        if isinstance(event, ev.PlanStepStarted):
            attributes: dict[str, Attribute | None] = {
                "towpath.plan.step_id": event.step_id,
                "towpath.plan.status": "open",
            }
            self._spans[key] = _OpenSpan(name="plan_step", start_ns=self._now, end_ns=self._now, attributes=attributes)
        elif key in self._spans:
            report, span = event.report, self._spans[key]
            span.end_ns = self._now
            span.error = None if report.status == "success" else (report.error or {}).get("code") or report.status
            span.attributes |= {
                "towpath.plan.status": report.status,
                "towpath.plan.step_type": report.type,
                "gen_ai.agent.name": report.agent_key or None,
                "towpath.child.run_id": report.exec_id or None,
                "error.type": span.error,
            }

    def _of_run(self, event: "ev.AnyEvent") -> None:
        """Note on the root what happened to the run as a whole; texts of people and tools stay out."""
        match event:
            case ev.PlanStateChanged():
                self._plans = True
                self._note(RUN, "towpath.plan.moved", {"towpath.trigger": event.trigger, "towpath.state": event.target})
            case ev.GateOpened():
                self._note(RUN, "towpath.gate.opened", {"towpath.gate.type": event.gate_type})
            case ev.GateClosed():
                self._note(RUN, "towpath.gate.closed", {"towpath.verdict": event.verdict})
            case ev.AgentTransferred():
                self._note(RUN, "towpath.transferred", {"towpath.source": event.source, "towpath.target": event.target})
            case ev.LoopDetected():
                self._note(RUN, "towpath.loop", {"towpath.detector": event.detector, "towpath.rung": event.action})
            case ev.WatchdogReported():
                self._note(RUN, "towpath.finding", {"towpath.finding": event.finding, "towpath.rung": event.action})
            case ev.CancelAccepted() | ev.RunStarted() | ev.RunQuarantined():
                self._note(RUN, f"towpath.{event.type}", {})
            case _:
                return


def run_spans(run_id: UUID, entries: Iterable["ev.LogEntry"]) -> tuple[Span, ...]:
    """Return the spans of a run from its events, given in seq order; call it when the run has ended."""
    projection = _SpanProjection(run_id)
    for entry in entries:
        projection.add(entry)
    return tuple(_with_run(span, run_id) for span in projection.spans())


def _with_run(span: Span, run_id: UUID) -> Span:
    return replace(span, attributes={**span.attributes, "gen_ai.conversation.id": str(run_id)})
