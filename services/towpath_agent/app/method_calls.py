"""Calls the method of an agent that a request asks for, and turns what it returns into the wire's JSON.

What user code returns is a decision or an assessment in form, or it is refused with a reason; what it raises is a
failure with a stable code. A cancellation is never swallowed.
"""

from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from towpath.agents.base import BaseAgent
from towpath.agents.request import AgentRequest
from towpath.user_code import call_method
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import ANSWERS
from towpath_contracts.decisions.decision import Abandon, RequestGate, Respond, RouteToAgent, UseTool, adapter_of
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.problems.registry import describe_validation_error
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, json_fault

METHODS: dict[DecisionKind, str] = {
    DecisionKind.DECIDE: "plan",
    DecisionKind.REPLAN: "replan",
    DecisionKind.COMPILE_PLAN: "plan",
    DecisionKind.VALIDATE: "validate",
    DecisionKind.PROGRESS: "evaluate_progress",
    DecisionKind.CONFIDENCE: "evaluate_confidence",
    DecisionKind.REFLECT: "reflect",
    DecisionKind.SUMMARIZE: "summarize",
}
"""The method that answers each kind of request."""


DECISIONS = (UseTool, RouteToAgent, Respond, Abandon, RequestGate)


class AnswerInvalidError(Exception):
    """An agent returned what is no answer in form; the text says why, in words for its next attempt."""


class DeliverableError(Exception):
    """An agent's `deliverable` raised; the cause is chained."""


async def answer_of(agent: BaseAgent, request: AgentRequest) -> JsonObject:
    """Return the answer as JSON. Raises AnswerInvalidError, DeliverableError, or what the agent raises."""
    said = await call_method(getattr(agent, METHODS[request.kind]), request)
    if request.kind is DecisionKind.SUMMARIZE:
        said = await _with_deliverable(agent, request, said)
    value = as_json(said)
    _check(request, value)
    return value


async def _with_deliverable(agent: BaseAgent, request: AgentRequest, said: Any) -> Any:
    """Let the factory add what the run hands over, unless `summarize` has done so itself."""
    summary = as_json(said)
    if summary.get("deliverable") is not None:
        return summary
    try:
        made = await call_method(agent.deliverable, request)
    except Exception as error:  # a factory that fails, for whatever reason, fails the run
        raise DeliverableError(type(error).__name__) from error
    return summary if made is None else {**summary, "deliverable": as_json(made)}


def as_json(said: Any) -> JsonObject:
    """Return a model or a dict as plain JSON; raises AnswerInvalidError for anything else.

    A decision is written without its defaults: what was not said of its certainty has no place in a network run.
    """
    if isinstance(said, DECISIONS):
        return {"action": said.action, **said.model_dump(mode="json", exclude_defaults=True)}
    try:
        plain = to_jsonable_python(said)
    except (PydanticSerializationError, ValueError) as error:
        msg = f"what was returned can't be written as JSON: {type(error).__name__}"
        raise AnswerInvalidError(msg) from error
    if not isinstance(plain, dict):
        msg = f"an object is wanted, not {type(said).__name__}"
        raise AnswerInvalidError(msg)
    return plain


def _check(request: AgentRequest, value: JsonObject) -> None:
    fault = json_fault(value, max_depth=MAX_VALUE_DEPTH)
    if fault is not None:
        raise AnswerInvalidError(fault)
    if request.kind is DecisionKind.COMPILE_PLAN:
        return  # the run machine checks it, and tells every fault of it
    shape = ANSWERS.get(request.kind)
    try:
        if shape is not None:
            shape.model_validate(value)
        else:
            _check_payload(request, adapter_of(request.context.run_kind).validate_python(value))
    except ValidationError as error:
        raise AnswerInvalidError(describe_validation_error(error)) from error


def _check_payload(request: AgentRequest, decision: Any) -> None:
    """Hold an answer against the schema that its agent or its task has."""
    if not isinstance(decision, Respond):
        return
    payload = decision.action_details.payload
    schema = request.context.schema_for(payload)
    wrong = schema_faults(schema, payload) if schema else ()
    if wrong:
        msg = f"the payload does not satisfy its JSON Schema: {'; '.join(wrong)}"
        raise AnswerInvalidError(msg)
