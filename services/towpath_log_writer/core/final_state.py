"""The final GoalView of a goal, made from the steps of a run that has ended.

Pure, and bounded: of a long run the last steps are shown whole, and counts are over those.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.text import truncate
from towpath_contracts.tools.reports import read_artifacts

MAX_STEPS = 200
"""Last steps that a state tells of; ten times the default of goal runs."""

MAX_ERRORS = 10
"""Last errors."""

REASONING_CHARS = 300


def final_state(steps: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Return the parts of a GoalView that its steps tell, given in order; values are as Postgres holds them."""
    read = [_read(step) for step in steps]
    failures, in_a_row, errors = _failures(read)
    return {
        "steps_history": [_step_summary(step) for step in read],
        "artifacts": _artifacts(read),
        "failure_count": failures,
        "consecutive_failures": in_a_row,
        "last_errors": errors,
        "token_usage": [step["tokens_used"] for step in read],
        "llm_calls": [call for step in read for call in _llm_calls(step)],
        "tool_executions": [call for step in read for call in _tool_calls(step)],
        "decision_reasoning": [truncate(step["reasoning"] or "", REASONING_CHARS) for step in read],
    }


def _read(step: Mapping[str, Any]) -> dict[str, Any]:
    parsed = {name: json.loads(step[name]) if step[name] else {} for name in _JSON}
    return {**step, **parsed}


_JSON = ("action", "result", "validation", "decisions")


def _step_summary(step: Mapping[str, Any]) -> JsonObject:
    validation = step["validation"]
    return {
        "step_number": step["step_number"],
        "timestamp": step["timestamp"].isoformat(),
        "reasoning": truncate(step["reasoning"] or "", REASONING_CHARS),
        "planned_action": step["action"],
        "attempt_number": validation.get("attempt", step["attempt_number"]),
        "validation": validation,
        "acceptance_progress": step["progress"],
        "success": step["success"],
        "error_if_failed": step["error"],
        "tokens_used": step["tokens_used"],
        "cost_usd": step["cost_usd"],
        "duration_ms": step["duration_ms"],
    }


def _failures(steps: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Count failed steps: a success lowers the count by one and ends their row."""
    count = in_a_row = 0
    errors: list[str] = []
    for step in steps:
        if step["success"] is None:
            continue
        if step["success"]:
            count, in_a_row = max(0, count - 1), 0
        else:
            count, in_a_row = count + 1, in_a_row + 1
            errors.append(str(step["validation"].get("error_signature") or step["error"] or ""))
    return count, in_a_row, errors[-MAX_ERRORS:]


def _artifacts(steps: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Return what calls reported to have made, by name; only what a step shows of a result is looked at."""
    made: JsonObject = {}
    for step in steps:
        for call in step["result"].values():
            found = read_artifacts(call.get("result")) if call.get("status") == "succeeded" else None
            for artifact in found[0] if found is not None else ():
                made[artifact["name"]] = artifact
    return made


def _llm_calls(step: Mapping[str, Any]) -> list[JsonObject]:
    return [
        {
            "step": step["step_number"],
            "request_id": request.partition(":")[0],  # an attempt that was put off has its number behind it
            "kind": summary.get("kind"),
            "model": summary.get("model"),
            "tokens": summary.get("total_tokens"),
            "cost_usd": summary.get("cost_usd"),
        }
        for request, summary in step["decisions"].items()
    ]


def _tool_calls(step: Mapping[str, Any]) -> list[JsonObject]:
    return [
        {
            "step": step["step_number"],
            "tool": call.get("tool"),
            "execution_id": call.get("execution_id"),
            "status": call.get("status"),
        }
        for call in step["result"].values()
    ]
