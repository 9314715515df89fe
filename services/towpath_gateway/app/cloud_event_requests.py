"""Tasks that come as CloudEvents 1.0 over HTTP: structured, `application/cloudevents+json`, or binary, headers `ce-*`.

A task that comes as it is passes through unchanged. The source and the id of an event are its idempotency key, so
whoever sends events at least once gets one run for each.
"""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.events.cloud_events import (
    BATCH_TYPE,
    EVENT_TYPE,
    binary_attributes,
    is_event_type,
    media_type,
    read_task_event,
)
from towpath_contracts.problems.input_faults import FaultList, faults_of_sample, list_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.runs.trace_context import HEADER
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.errors import HttpProblemError, validation_problem
from towpath_gateway.app.strict_requests import BoundedJsonRequest, BoundedJsonRoute, read_json

EVENT_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {
            EVENT_TYPE: {
                "schema": {
                    "type": "object",
                    "required": ["specversion", "id", "source", "type", "data"],
                    "properties": {
                        **{name: {"type": "string"} for name in ("specversion", "id", "source", "type")},
                        "data": {"$ref": "#/components/schemas/SubmitTask"},
                    },
                }
            }
        }
    }
}
"""What the description of an operation says of events."""

_KEY = "idempotency_key"
_TASK: TypeAdapter[SubmitTask] = TypeAdapter(SubmitTask)


class CloudEventRequest(BoundedJsonRequest):
    """A request whose body is a task, or an event with one."""

    def _parsed(self, body: bytes) -> Any:
        binary = binary_attributes(self.headers)
        kind = media_type(self.headers.get("content-type"))
        if kind == BATCH_TYPE:
            remedy = f"Send each event in a request of its own, with the header Content-Type: {EVENT_TYPE}."
            raise ProblemError(problem("media_type_unsupported", "one event is one task", remedy=remedy))
        if is_event_type(kind):
            return self._structured(read_json(body))
        return self._task(binary, "/header/ce-", read_json(body), "") if binary else super()._parsed(body)

    def _structured(self, event: Any) -> SubmitTask:
        if not isinstance(event, dict):
            raise HttpProblemError(_fault("/body", "an event is an object"))
        attributes = {name: value for name, value in event.items() if name != "data"}
        return self._task(attributes, "/body/", event.get("data"), "data")

    def _task(self, attributes: JsonObject, place: str, data: Any, part: str) -> SubmitTask:
        event = read_task_event(attributes, place)
        pointer = f"/body/{part}".rstrip("/")
        if not isinstance(data, dict):
            raise HttpProblemError(_fault(pointer, "the data of the event is a task: an object"))
        if _KEY in data:
            raise HttpProblemError(_fault(f"{pointer}/{_KEY}", "source and id of the event are the key: leave it out"))
        if "idempotency-key" in self.headers:
            raise HttpProblemError(_fault("/header/Idempotency-Key", "source and id of the event are the key"))
        task = {**data, _KEY: event.idempotency_key}
        if task.get(HEADER) is None:  # a span that the task names itself wins, over NATS too
            task[HEADER] = event.traceparent
        try:
            return _TASK.validate_python(task)
        except ValidationError as error:
            faults = list_faults(error, faults_of_sample(_TASK, task), SubmitTask)
            raise HttpProblemError(
                validation_problem((faults.within(part) if part else faults).within("body"))
            ) from error


class CloudEventRoute(BoundedJsonRoute):
    """A route that takes a task, also as an event."""

    request_type = CloudEventRequest


def _fault(pointer: str, why: str) -> Any:
    detail = ProblemDetail(pointer=pointer, code="value_invalid", detail=why)
    return validation_problem(FaultList((detail,), 1))
