"""A run as a task of A2A 1.0 (https://a2a-protocol.org), in ProtoJSON.

The id of a task is the run's, and its context is the thread. Where a person has to decide, the task asks for input by
a key that may do so, and by others for an authorization that comes from elsewhere. Texts of runs stay data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.runs.views import GateView, RunView
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_gateway.core.gate_texts import call_question, verdicts_of
from towpath_gateway.core.own_values import OWN
from towpath_readings.stream.live import answer_text

MESSAGE_LABEL = "a2a_message"
"""The label with the id of the message that a run answers."""

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
COMPLETED = "TASK_STATE_COMPLETED"
CANCELED = "TASK_STATE_CANCELED"
FAILED = "TASK_STATE_FAILED"
ENDED = frozenset({COMPLETED, CANCELED, FAILED})

TEXT = "text/plain"
JSON = "application/json"

_SENTENCE_ENDS = ".!?…"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """A gate at which a run waits, and whether who asks may decide there."""

    gate: GateView
    may_decide: bool


def state_of(status: str, questions: Sequence[GateQuestion] = ()) -> str:
    """Return the state of a task whose run has *status* and waits at *questions*."""
    if status in FINAL_STATUSES:
        return {"completed": COMPLETED, "cancelled": CANCELED}.get(status, FAILED)
    if questions:
        return INPUT_REQUIRED if any(one.may_decide for one in questions) else AUTH_REQUIRED
    return SUBMITTED if status == "queued" else WORKING


def context_of(view: RunView) -> str:
    """Return the context of a task: the thread, which bears the id of its first run."""
    return str(view.thread_id or view.root_run_id or view.run_id)


def task_of(view: RunView, questions: Sequence[GateQuestion], site: str, *, history: int | None = None) -> JsonObject:
    """Return a run as a task, with its answer or with what it asks; *site* is where people find the gateway."""
    names = {"taskId": str(view.run_id), "contextId": context_of(view)}
    task: JsonObject = {"id": str(view.run_id), "contextId": names["contextId"]}
    task["status"] = status_of_view(view, questions, site)
    if view.status == "completed" and view.final is not None:
        task["artifacts"] = [answer_artifact(view.run_id, view.final)]
    if view.user_message and history != 0:
        asked = view.labels.get(MESSAGE_LABEL) or f"{view.run_id}-asked"
        task["history"] = [{"messageId": asked, "role": "ROLE_USER", "parts": [text_part(view.user_message)], **names}]
    own = {"run_id": str(view.run_id), "network": view.network, "version": view.version, "status": view.status}
    return task | {"metadata": {OWN: own | ({"reason": view.reason} if view.reason else {})}}


def status_of_view(view: RunView, questions: Sequence[GateQuestion], site: str) -> JsonObject:
    """Return how a task stands."""
    ids = view.run_id, context_of(view)
    if view.status in FINAL_STATUSES:
        told = "" if view.status == "completed" else view.message or view.reason
        return task_status(*ids, state_of(view.status), view.ended_at or view.created_at, text=told)
    if questions:
        return waiting_status(*ids, questions, site)
    words = "; ".join(view.waits)
    return task_status(*ids, state_of(view.status), view.started_at or view.created_at, text=words)


def waiting_status(run_id: UUID, context: str, questions: Sequence[GateQuestion], site: str) -> JsonObject:
    """Return how a task stands that waits for a person, with what is to be decided: by the caller where that may."""
    asked = [one.gate for one in questions if one.may_decide] or [one.gate for one in questions]
    parts = [part for gate in asked for part in _question(gate, site)]
    at = max(gate.opened_at for gate in asked)
    return task_status(run_id, context, state_of("waiting", questions), at, parts=parts)


def task_status(
    run_id: UUID, context: str, state: str, at: datetime, *, text: str = "", parts: Sequence[JsonObject] = ()
) -> JsonObject:
    """Return a status; with *text* or *parts* it has a message."""
    status: JsonObject = {"state": state, "timestamp": _time(at)}
    said = list(parts) or ([text_part(text)] if text else [])
    if said:
        name = f"{run_id}-{state.removeprefix('TASK_STATE_').lower()}-{int(at.timestamp() * 1_000)}"
        names = {"messageId": name, "role": "ROLE_AGENT", "taskId": str(run_id), "contextId": context}
        status["message"] = {**names, "parts": said}
    return status


def answer_artifact(run_id: UUID, final: Any) -> JsonObject:
    """Return the answer of a run: a text where it is no more than a message, else its data."""
    is_message = isinstance(final, dict) and set(final) == {"message"} and isinstance(final["message"], str)
    part = text_part(answer_text(final)) if is_message else data_part(final)
    return {"artifactId": artifact_id(run_id), "name": "answer", "parts": [part]}


def artifact_id(run_id: UUID) -> str:
    """Return the id of the one artifact of a task."""
    return f"answer-{run_id}"


def text_part(text: str) -> JsonObject:
    """Return a text as a part."""
    return {"text": text, "mediaType": TEXT}


def data_part(data: Any) -> JsonObject:
    """Return JSON as a part."""
    return {"data": data, "mediaType": JSON}


def _question(gate: GateView, site: str) -> list[JsonObject]:
    """Return what waits at *gate*: in words, and as data of which `gate_id` and `digest` come back with the answer."""
    known = gate.detail
    tool = known.get("tool", "")
    summary = summary_of_gate(known)
    url = f"{site}/approvals/{gate.gate_id}"
    asked = call_question(gate.gate_type, tool, summary, known.get("args"), url, doubt_lines(known))
    told = f"{asked}\n" if "\n" in asked else f"{asked} " if asked[-1] in _SENTENCE_ENDS else f"{asked}. "
    data = {
        "gate_id": str(gate.gate_id),
        "gate_type": gate.gate_type,
        "tool": tool,
        "summary": summary,
        "arguments": known.get("args"),
        "rule": known.get("rule"),
        "digest": known.get("digest"),
        "agent": known.get("agent"),
        "reason": gate.reason,
        "run_id": str(gate.run_id),
        "verdicts": list(verdicts_of(known.get("verdicts"))),
        "expires_at": _time(gate.expires_at),
        "url": url,
    }
    shown = {name: value for name, value in data.items() if value not in (None, "")}
    return [text_part(f"{told}A person decides it here, or at {url}"), data_part(shown)]


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
