"""From events to rows (design §9, feature C12).

Law: a pure fold, one event at a time and in seq order. Every event changes at most one run, one step and its tool
calls; unknown events change nothing, so a newer orchestrator does not stop an older log-writer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts import events as ev
from towpath_contracts.base import Value
from towpath_contracts.deciding import Cost, Usage
from towpath_contracts.decisions import CallTools
from towpath_contracts.execution_log import truncate
from towpath_contracts.raw_events import Entry
from towpath_log_writer.core.rows import RESULT_CHARS, NewRun, RunChange, StepRow, ToolRow, json_text, plain
from towpath_log_writer.core.sequence import Segment

FINAL = {"completed": "success", "escalated": "escalated"}
"""Source design 2's final_status; every other end is `failed`."""

LIMITS = frozenset({"max_steps_exceeded", "max_tool_errors_exceeded", "budget_refused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An event of a known type that does not read as one."""

    run_id: UUID
    seq: int
    type: str
    error: str


@dataclass(slots=True, kw_only=True)
class Changes:
    """What a batch of events changes, each row once."""

    new_runs: dict[UUID, NewRun] = field(default_factory=dict)
    runs: dict[UUID, RunChange] = field(default_factory=dict)
    steps: dict[tuple[UUID, int], StepRow] = field(default_factory=dict)
    tools: dict[tuple[UUID, UUID], ToolRow] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an event stands."""

    changes: Changes
    run_id: UUID
    project: str
    at: datetime

    def step(self, number: int) -> StepRow:
        """Return the step's row, made if this is the first word about it."""
        key = (self.run_id, number)
        row = self.changes.steps.get(key)
        if row is None:
            row = StepRow(run_id=self.run_id, step=number, project=self.project, began_at=self.at, ended_at=self.at)
            self.changes.steps[key] = row
        row.ended_at = self.at
        return row

    def run(self, status: str) -> RunChange:
        """Return the run's change with its new status."""
        change = self.changes.runs.get(self.run_id)
        if change is None:
            change = self.changes.runs[self.run_id] = RunChange(run_id=self.run_id, status=status)
        change.status = status
        return change

    def tool(self, execution_id: UUID, step: int, index: int, agent: str, name: str, status: str) -> ToolRow:
        """Return the call's row with its new status."""
        key = (self.run_id, execution_id)
        row = self.changes.tools.get(key)
        if row is None:
            row = ToolRow(
                run_id=self.run_id,
                execution_id=execution_id,
                project=self.project,
                step=step,
                call_index=index,
                agent_id=agent,
                tool=name,
                status=status,
            )
            self.changes.tools[key] = row
        row.status = status
        return row


def project(segments: Iterable[Segment]) -> Changes:
    """Return what *segments* change; each continues its run's history without a gap."""
    changes = Changes()
    for segment in segments:
        for entry in segment.entries:
            _apply(changes, segment, entry)
    return changes


def _apply(changes: Changes, segment: Segment, entry: Entry) -> None:
    name = entry.event.get("type")
    known = _KNOWN.get(name) if isinstance(name, str) else None
    if known is None:
        return
    model, handler = known
    try:
        event = model.model_validate(entry.event)
    except ValidationError as error:
        text = str(error)[:RESULT_CHARS]
        changes.unreadable.append(Unreadable(run_id=segment.run_id, seq=entry.seq, type=str(name), error=text))
        return
    handler(_Place(changes, segment.run_id, segment.project, entry.at), event)


def _run_created(place: _Place, event: ev.RunCreated) -> None:
    place.changes.new_runs[place.run_id] = NewRun(
        run_id=place.run_id,
        project=place.project,
        agent_id=event.agent_key,
        kind=event.kind,
        network=event.network,
        version=event.version,
        caller=event.caller,
        at=place.at,
        snapshot={
            "task_id": str(place.run_id),
            "agent_id": event.agent_key,
            "project_id": place.project,
            "goal": event.user_message,
            "acceptance_criteria": [],
            "constraints": {
                "max_tool_errors": event.max_tool_errors,
                "timeout_ms": event.timeout_ms,
                "step_timeout_ms": event.step_timeout_ms,
                "grant": event.grant,
            },
            "max_steps": event.max_steps,
            "labels": event.labels,
            "snapshot_digest": event.snapshot_digest,
        },
    )


def _run_started(place: _Place, _event: ev.RunStarted) -> None:
    change = place.run("running")
    change.started_at = place.at


def _decision_requested(place: _Place, event: ev.DecisionRequested) -> None:
    row = place.step(event.step)
    row.agent_id, row.epoch = event.agent_key, event.epoch
    row.input_preview = plain(event.input_preview)
    row.attempts += 1


def _spend(row: StepRow, request_id: UUID, usage: Usage, cost: Cost, told: dict[str, Any]) -> None:
    row.tokens += usage.total_tokens
    row.cost = None if row.cost is None or cost.usd is None else row.cost + cost.usd
    row.decisions[str(request_id)] = {
        **told,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "model_calls": usage.model_calls,
        "cost_usd": cost.usd,
        "price_source": cost.price_source,
    }


def _told(event: ev.DecisionReceived | ev.DecisionMissed, at: datetime) -> dict[str, Any]:
    return {
        "model": event.model,
        "duration_ms": event.duration_ms,
        "prompt_digest": event.prompt_digest,
        "raw_digest": event.raw_digest,
        "script": event.script.model_dump() if event.script is not None else None,
        "at": at.isoformat(),
    }


def _decision_received(place: _Place, event: ev.DecisionReceived) -> None:
    row = place.step(event.step)
    decision = event.decision
    row.agent_id, row.epoch = event.agent_key, event.epoch
    row.reasoning = plain(str(decision.get("action_reasoning", "")))
    row.action = json_text({key: value for key, value in decision.items() if key != "action_reasoning"})
    _spend(row, event.request_id, event.usage, event.cost, _told(event, place.at))


def _decision_missed(place: _Place, event: ev.DecisionMissed) -> None:
    row = place.step(event.step)
    row.error = plain(f"{event.code}: {event.message}")
    row.succeed(False)
    told = {**_told(event, place.at), "error": f"{event.code}: {event.message}"}
    _spend(row, event.request_id, event.usage, event.cost, told)


def _decision_refused(place: _Place, event: ev.DecisionRefused) -> None:
    row = place.step(event.step)
    row.validation = {"valid": False, "code": event.code, "feedback": event.feedback}
    row.error = plain(f"{event.code}: {event.feedback}")
    row.succeed(False)


def _instruction_issued(place: _Place, event: ev.InstructionIssued) -> None:
    row = place.step(event.step)
    row.validation = {"valid": True, "instruction": event.instruction.kind}
    if not isinstance(event.instruction, CallTools):
        row.succeed(True)
        return
    for call in event.instruction.calls:
        told = place.tool(call.execution_id, event.step, call.call_index, event.agent_key, call.tool, "requested")
        told.args = json_text(call.args)
        told.requested_at = place.at


def _tool_edited(place: _Place, event: ev.ToolCallEdited) -> None:
    """History tells what was executed; what was asked for stands in the run's log."""
    told = place.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, "requested")
    told.args = json_text(event.args)


def _tool_finished(place: _Place, event: ev.ToolCallFinished) -> None:
    row = place.step(event.step)
    told = place.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, event.status)
    told.result = None if event.result is None else json_text(event.result)
    told.result_digest, told.result_bytes, told.blob = event.result_digest, event.result_bytes, event.blob
    told.failure = None if event.failure is None else json_text(event.failure.model_dump())
    told.duration_ms, told.worker, told.policy_version = event.duration_ms, event.worker, event.policy_version
    told.finished_at = place.at
    row.result[str(event.call_index)] = _shown(event, told.result)
    row.succeed(event.status == "succeeded")
    if event.failure is not None:
        row.error = plain(f"{event.failure.code}: {event.failure.message}")


def _shown(event: ev.ToolCallFinished, result: str | None) -> dict[str, Any]:
    """Return what a step shows of a call: small results whole, large ones by preview and digest."""
    shown: dict[str, Any] = {
        "tool": event.tool,
        "execution_id": str(event.execution_id),
        "status": event.status,
        "duration_ms": event.duration_ms,
    }
    if result is not None and len(result) > RESULT_CHARS:
        return {**shown, "preview": truncate(result, RESULT_CHARS), "result_digest": event.result_digest}
    return {**shown, "result": event.result}


def _tool_denied(place: _Place, event: ev.ToolCallDenied) -> None:
    row = place.step(event.step)
    told = place.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, "denied")
    told.denial = json_text(event.denial.model_dump())
    told.policy_version = event.policy_version
    told.finished_at = place.at
    row.result[str(event.call_index)] = {
        "tool": event.tool,
        "execution_id": str(event.execution_id),
        "status": "denied",
        "reason": event.denial.reason,
    }
    row.error = plain(f"{event.denial.violation_type}: {event.denial.reason}")
    row.succeed(False)


def _quarantined(place: _Place, event: ev.RunQuarantined) -> None:
    place.run("quarantined").reason = plain(event.code)


def _run_finished(place: _Place, event: ev.RunFinished) -> None:
    change = place.run(event.status)
    change.completed_at = place.at
    change.total_steps = event.steps
    change.final_status = FINAL.get(event.status, "failed")
    change.reason = plain(event.reason)
    change.escalation_reason = change.reason if event.status == "escalated" else None
    change.total_cost_usd = event.cost.usd
    change.total_tokens = event.usage.total_tokens
    change.snapshot = {
        "current_step": event.steps,
        "final": event.final,
        "last_output": event.last_output,
        "token_usage": event.usage.model_dump(),
        "total_cost_usd": event.cost.usd,
        "effects": event.effects,
        "escalation_triggered": event.status == "escalated",
        "escalation_reason": change.escalation_reason,
        "timeout_reached": event.status == "timed_out",
        "resource_limit_hit": event.reason in LIMITS,
    }


_KNOWN: dict[str, tuple[type[Value], Callable[[_Place, Any], None]]] = {
    "run_created": (ev.RunCreated, _run_created),
    "run_started": (ev.RunStarted, _run_started),
    "decision_requested": (ev.DecisionRequested, _decision_requested),
    "decision_received": (ev.DecisionReceived, _decision_received),
    "decision_missed": (ev.DecisionMissed, _decision_missed),
    "decision_refused": (ev.DecisionRefused, _decision_refused),
    "instruction_issued": (ev.InstructionIssued, _instruction_issued),
    "tool_call_edited": (ev.ToolCallEdited, _tool_edited),
    "tool_call_finished": (ev.ToolCallFinished, _tool_finished),
    "tool_call_denied": (ev.ToolCallDenied, _tool_denied),
    "run_quarantined": (ev.RunQuarantined, _quarantined),
    "run_finished": (ev.RunFinished, _run_finished),
}
"""Every event that history tells, with its model and what it does."""
