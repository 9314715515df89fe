"""What plans and workflows say of their steps.

Like `project`: one event, at most one run and one step. A step of a plan is a row like a step of any run, numbered
from 1; what its agents did stands in the rows of their own runs.
"""

from collections.abc import Callable
from typing import Any

from towpath_contracts.base import MessagePart
from towpath_contracts.events import log as ev
from towpath_contracts.networks.plan import PlanStepResult
from towpath_contracts.text import truncate
from towpath_log_writer.core.changes import EventRowBuilder
from towpath_log_writer.core.rows import RESULT_CHARS, json_text, plain
from towpath_readings.execution_log import INPUT_CHARS


def _accepted(position: EventRowBuilder, event: ev.PlanAccepted) -> None:
    steps = [
        {"id": step.id, "type": step.type, "agents": [call.agent_key for call in step.calls]}
        for step in event.plan.steps
    ]
    position.merge_state({"plan": {"origin": event.origin, "name": event.plan.name, "steps": steps}})


def _step_started(position: EventRowBuilder, event: ev.PlanStepStarted) -> None:
    row = position.step(event.index + 1)
    row.input_preview = plain(truncate(event.inputs[0] if event.inputs else "", INPUT_CHARS))
    row.action = json_text({"action": "PLAN_STEP", "step_id": event.step_id, "agents": len(event.inputs)})
    row.attempts += 1


def _step_ended(position: EventRowBuilder, event: ev.PlanStepEnded) -> None:
    row, report = position.step(event.index + 1), event.report
    row.agent_id = report.agent_key or row.agent_id
    row.validation = {"step_id": report.id, "type": report.type, "status": report.status}
    for number, one in enumerate(report.children or (report,)):
        if one.exec_id:
            row.result[str(number)] = _agent_summary(one)
    if report.status != "skipped":
        row.add_result(report.status == "success")
    if report.error is not None:
        row.error = plain(f"{report.error.get('code', '')}: {report.error.get('message', '')}")


def _agent_summary(report: PlanStepResult) -> dict[str, Any]:
    """Return what a step shows of an agent: a small answer whole, a large one by its beginning."""
    summary = {"tool": f"agent:{report.agent_key}", "execution_id": report.exec_id, "status": report.status}
    text = json_text(report.outputs)
    if len(text) <= RESULT_CHARS:
        return {**summary, "result": report.outputs}
    return {**summary, "preview": truncate(text, RESULT_CHARS)}


PLAN_EVENTS: dict[str, tuple[type[MessagePart], Callable[[EventRowBuilder, Any], None]]] = {
    "plan_accepted": (ev.PlanAccepted, _accepted),
    "plan_step_started": (ev.PlanStepStarted, _step_started),
    "plan_step_ended": (ev.PlanStepEnded, _step_ended),
}
"""Their events, with the model and what each does."""
