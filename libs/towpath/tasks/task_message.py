"""A task as Python says it, turned into the message: a `Goal`, folders of this host, a deadline in words."""

import sys
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from towpath.errors import RefusedError
from towpath.tasks.goals import goal_json
from towpath.tasks.mounts import HostMount
from towpath.tasks.objectives import objective_json
from towpath.tasks.plans import plan_json
from towpath.tools.declaration import seconds
from towpath_contracts.problems.input_faults import details_of, summary_of
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.tasks import SubmitTask


def task_of(network: str, message: str, options: dict[str, Any]) -> SubmitTask:
    """Return the task; raises RefusedError `request_invalid` with every problem of form at once."""
    written = {"network": network, "user_message": message, **options}
    if (deadline := written.pop("deadline", None)) is not None:
        written["timeout_ms"] = _deadline_ms(deadline)
    if "goal" in written:
        written["goal"] = goal_json(written["goal"])
    if "background" in written:
        written["background"] = objective_json(written["background"])
    if "plan" in written:
        written["plan"] = plan_json(written["plan"])
    if "mounts" in written:
        written["mounts"] = [one.to_json() if isinstance(one, HostMount) else one for one in written["mounts"]]
    if written.get("idempotency_key") is None:
        written["idempotency_key"] = f"client-{uuid4().hex}"
    if written.get("traceparent") is None and (span := _current_span()) is not None:
        written["traceparent"] = span.traceparent
    try:
        return SubmitTask.model_validate(written)
    except ValidationError as error:
        details = details_of(error, SubmitTask)
        raise RefusedError(problem("request_invalid", summary_of(details), errors=details)) from error


def _current_span() -> RemoteSpan | None:
    """Return the span that the caller's code runs in, where its program uses OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    context = None if api is None else api.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return None
    return RemoteSpan(trace_id=context.trace_id, span_id=context.span_id, sampled=context.trace_flags.sampled)


def _deadline_ms(deadline: str | float) -> int:
    try:
        return round(seconds(deadline) * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise RefusedError(problem("request_invalid", f"deadline: {error}")) from error
