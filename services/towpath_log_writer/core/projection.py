"""From events to rows.

A pure fold, one event at a time and in seq order. Every event changes at most one run, one step and its tool
calls; unknown events change nothing, so a newer orchestrator does not stop an older log-writer.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from towpath_contracts.base import MessagePart
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.runs.raw_events import RawEntry
from towpath_contracts.text import truncate
from towpath_log_writer.core.changes import EventRowBuilder, HistoryChanges, UnreadableEvent
from towpath_log_writer.core.goal_projection import GOAL_EVENTS
from towpath_log_writer.core.plan_projection import PLAN_EVENTS
from towpath_log_writer.core.rows import RESULT_CHARS, NewRunRow, json_text, plain
from towpath_log_writer.core.sequence import ContiguousEvents

FINAL = {"completed": "success", "escalated": "escalated"}
"""Source design 2's final_status; every other end is `failed`."""

LIMITS = frozenset(
    {
        "max_steps_exceeded",
        "max_tool_errors_exceeded",
        "max_failures_exceeded",
        "budget_exceeded",
        "budget_refused",
        "price_unknown",
    }
)

ACTIONS = frozenset({"decide", "replan"})
"""Kinds of requests that are answered by an action; the others judge the last one."""


def project(segments: Iterable[ContiguousEvents]) -> HistoryChanges:
    """Return what *segments* change; each continues its run's history without a gap."""
    changes = HistoryChanges()
    for segment in segments:
        for entry in segment.entries:
            _apply(changes, segment, entry)
    return changes


def _apply(changes: HistoryChanges, segment: ContiguousEvents, entry: RawEntry) -> None:
    name = entry.event.get("type")
    known = _HANDLERS.get(name) if isinstance(name, str) else None
    if known is None:
        return
    model, handler = known
    try:
        event = model.model_validate(entry.event)
    except ValidationError as error:
        text = str(error)[:RESULT_CHARS]
        changes.unreadable.append(UnreadableEvent(run_id=segment.run_id, seq=entry.seq, type=str(name), error=text))
        return
    handler(EventRowBuilder(changes, segment.run_id, segment.project, entry.at), event)


def _run_created(position: EventRowBuilder, event: ev.RunCreated) -> None:
    position.cost().runs += 1
    position.changes.new_runs[position.run_id] = NewRunRow(
        run_id=position.run_id,
        project=position.project,
        agent_id=event.agent_key,
        kind=event.kind,
        network=event.network,
        version=event.version,
        caller=event.caller,
        parent_id=None if event.parent is None else event.parent.run_id,
        at=position.at,
        snapshot={
            "task_id": str(position.run_id),
            "agent_id": event.agent_key,
            "project_id": position.project,
            "goal": _goal_of(event),
            "acceptance_criteria": _criteria_of(event),
            "constraints": {
                **(event.goal.constraints if event.goal is not None else {}),
                "max_tool_errors": event.max_tool_errors,
                "timeout_ms": event.timeout_ms,
                "step_timeout_ms": event.step_timeout_ms,
                "grant": event.grant,
            },
            "max_steps": event.max_steps,
            "labels": event.labels,
            "snapshot_digest": event.snapshot_digest,
            **(_NOT_MEASURED if event.kind != "network" else {}),
        },
    )


_NOT_MEASURED: dict[str, Any] = {
    "progress_score": 0.0,
    "progress_metrics": {},
    "last_confidence_check_step": 0,
    "last_confidence_score": None,
}
"""What a GoalView says before anything was measured."""


def _goal_of(event: ev.RunCreated) -> str:
    if event.goal is not None:
        return event.goal.goal
    return event.background.objective if event.background is not None else event.user_message


def _criteria_of(event: ev.RunCreated) -> list[str]:
    return [] if event.goal is None else [criterion.words() for criterion in event.goal.acceptance_criteria]


def _run_started(position: EventRowBuilder, _event: ev.RunStarted) -> None:
    change = position.run("running")
    change.started_at = position.at
    change.snapshot["started_at"] = position.at.isoformat()


def _decision_requested(position: EventRowBuilder, event: ev.DecisionRequested) -> None:
    row = position.step(event.step)
    if event.kind not in ACTIONS:
        return
    row.agent_id, row.epoch = event.agent_key, event.epoch
    row.input_preview = plain(event.input_preview)
    row.attempts += 1


Answered = ev.DecisionReceived | ev.DecisionRequestFailed | ev.DecisionPostponed
"""Events that say what a request used."""


def _usage_corrected(position: EventRowBuilder, event: ev.UsageCorrected) -> None:
    """Count what a late answer says, whose request was counted as nothing: it names no agent."""
    position.cost("", plain(event.model)).add(event.usage, event.cost)


def _add_usage(position: EventRowBuilder, event: Answered, summary: dict[str, Any], name: str = "") -> None:
    """Add what a request used to its step, under its id or *name*, and to the costs of the day."""
    usage, cost = event.usage, event.cost
    position.cost(plain(event.agent_key), plain(event.model)).add(usage, cost)
    row = position.step(event.step)
    row.tokens += usage.total_tokens
    row.cost = None if row.cost is None or cost.usd is None else row.cost + cost.usd
    row.decisions[name or str(event.request_id)] = {
        **summary,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "model_calls": usage.model_calls,
        "cost_usd": cost.usd,
        "price_source": cost.price_source,
    }


def _decision_summary(event: ev.DecisionReceived | ev.DecisionRequestFailed, at: datetime) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "model": event.model,
        "duration_ms": event.duration_ms,
        "prompt_digest": event.prompt_digest,
        "raw_digest": event.raw_digest,
        "script": event.script.model_dump() if event.script is not None else None,
        "at": at.isoformat(),
    }


def _decision_received(position: EventRowBuilder, event: ev.DecisionReceived) -> None:
    row = position.step(event.step)
    decision = event.decision
    summary = _decision_summary(event, position.at)
    if event.kind not in ACTIONS:
        _add_usage(position, event, {**summary, "answer": _short(decision)})
        return
    row.agent_id, row.epoch = event.agent_key, event.epoch
    row.reasoning = plain(str(decision.get("action_reasoning", "")))
    row.action = json_text({key: value for key, value in decision.items() if key != "action_reasoning"})
    _add_usage(position, event, summary)


def _short(answer: dict[str, Any]) -> Any:
    """Return an assessment as it was given; a long one only by its beginning."""
    text = json_text(answer)
    return answer if len(text) <= RESULT_CHARS else truncate(text, RESULT_CHARS)


def _decision_missed(position: EventRowBuilder, event: ev.DecisionRequestFailed) -> None:
    row = position.step(event.step)
    if event.kind in ACTIONS:
        row.error = plain(f"{event.code}: {event.message}")
        row.add_result(False)
    summary = {**_decision_summary(event, position.at), "error": f"{event.code}: {event.message}"}
    _add_usage(position, event, summary)


def _decision_postponed(position: EventRowBuilder, event: ev.DecisionPostponed) -> None:
    """Its attempts are counted one by one, so that the step's money is whole; the step itself goes on."""
    summary = {
        "kind": event.kind,
        "model": event.model,
        "duration_ms": event.duration_ms,
        "at": position.at.isoformat(),
        "error": f"{event.code}: {event.message}",
    }
    _add_usage(position, event, summary, f"{event.request_id}:{event.attempt}")


def _decision_refused(position: EventRowBuilder, event: ev.DecisionRefused) -> None:
    row = position.step(event.step)
    row.validation = {"valid": False, "code": event.code, "feedback": event.feedback}
    row.error = plain(f"{event.code}: {event.feedback}")
    row.add_result(False)


def _instruction_issued(position: EventRowBuilder, event: ev.InstructionIssued) -> None:
    row = position.step(event.step)
    row.validation = {"valid": True, "instruction": event.instruction.kind}
    if not isinstance(event.instruction, CallToolsInstruction):
        row.add_result(True)
        return
    for call in event.instruction.calls:
        summary = position.tool(call.execution_id, event.step, call.call_index, event.agent_key, call.tool, "requested")
        summary.args = json_text(call.args)
        summary.requested_at = position.at


def _tool_edited(position: EventRowBuilder, event: ev.ToolCallEdited) -> None:
    """History tells what was executed; what was asked for stands in the run's log."""
    summary = position.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, "requested")
    summary.args = json_text(event.args)


def _tool_finished(position: EventRowBuilder, event: ev.ToolCallFinished) -> None:
    row = position.step(event.step)
    summary = position.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, event.status)
    summary.result = None if event.result is None else json_text(event.result)
    summary.result_digest, summary.result_bytes, summary.blob = event.result_digest, event.result_bytes, event.blob
    summary.failure = None if event.failure is None else json_text(event.failure.model_dump())
    summary.duration_ms, summary.worker, summary.policy_version = event.duration_ms, event.worker, event.policy_version
    summary.finished_at = position.at
    row.result[str(event.call_index)] = _call_summary(event, summary.result)
    row.add_result(event.status == "succeeded")
    if event.failure is not None:
        row.error = plain(f"{event.failure.code}: {event.failure.for_people()}")


def _call_summary(event: ev.ToolCallFinished, result: str | None) -> dict[str, Any]:
    """Return what a step shows of a call: small results whole, large ones by preview and digest."""
    shown: dict[str, Any] = {
        "tool": event.tool,
        "execution_id": str(event.execution_id),
        "status": event.status,
        "duration_ms": event.duration_ms,
    }
    if event.blob and event.preview is not None:
        preview = truncate(plain(event.preview.text), RESULT_CHARS)
        return {**shown, "preview": preview, "result_digest": event.result_digest}
    if result is not None and len(result) > RESULT_CHARS:
        return {**shown, "preview": truncate(result, RESULT_CHARS), "result_digest": event.result_digest}
    return {**shown, "result": event.result}


def _tool_denied(position: EventRowBuilder, event: ev.ToolCallDenied) -> None:
    row = position.step(event.step)
    summary = position.tool(event.execution_id, event.step, event.call_index, event.agent_key, event.tool, "denied")
    summary.denial = json_text(event.denial.model_dump())
    summary.policy_version = event.policy_version
    summary.finished_at = position.at
    row.result[str(event.call_index)] = {
        "tool": event.tool,
        "execution_id": str(event.execution_id),
        "status": "denied",
        "reason": event.denial.reason,
    }
    row.error = plain(f"{event.denial.violation_type}: {event.denial.reason}")
    row.add_result(False)


def _quarantined(position: EventRowBuilder, event: ev.RunQuarantined) -> None:
    position.run("quarantined").reason = plain(event.code)


def _run_finished(position: EventRowBuilder, event: ev.RunFinished) -> None:
    change = position.run(event.status)
    change.completed_at = position.at
    change.total_steps = event.steps
    change.final_status = FINAL.get(event.status, "failed")
    change.reason = plain(event.reason)
    change.escalation_reason = _escalation(event) if event.status == "escalated" else None
    change.total_cost_usd = event.cost.usd
    change.total_tokens = event.usage.total_tokens
    change.snapshot |= {
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
    position.changes.finished.add(position.run_id)


def _escalation(event: ev.RunFinished) -> str:
    """Return why a person took over, or should have: the reason's code, and the reason in words where one was given."""
    message = event.final.get("message") if event.final.get("status") == "error" else None
    return plain(f"{event.reason}: {message}" if isinstance(message, str) and message else event.reason)


_HANDLERS: dict[str, tuple[type[MessagePart], Callable[[EventRowBuilder, Any], None]]] = {
    "run_created": (ev.RunCreated, _run_created),
    "run_started": (ev.RunStarted, _run_started),
    "decision_requested": (ev.DecisionRequested, _decision_requested),
    "decision_received": (ev.DecisionReceived, _decision_received),
    "decision_missed": (ev.DecisionRequestFailed, _decision_missed),
    "decision_postponed": (ev.DecisionPostponed, _decision_postponed),
    "usage_corrected": (ev.UsageCorrected, _usage_corrected),
    "decision_refused": (ev.DecisionRefused, _decision_refused),
    "instruction_issued": (ev.InstructionIssued, _instruction_issued),
    "tool_call_edited": (ev.ToolCallEdited, _tool_edited),
    "tool_call_finished": (ev.ToolCallFinished, _tool_finished),
    "tool_call_denied": (ev.ToolCallDenied, _tool_denied),
    **GOAL_EVENTS,
    **PLAN_EVENTS,
    "run_quarantined": (ev.RunQuarantined, _quarantined),
    "run_finished": (ev.RunFinished, _run_finished),
}
"""Every event that history tells, with its model and what it does."""
