"""One answer of an agent: its attempts, its time, and what came of it.

Whatever user code does (returns nonsense, raises, hangs, cancels itself), the result is one answer or one failure
with a stable code. Only the end of the process is passed on.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from towpath.agents.base import BaseAgent
from towpath.agents.request import AgentRequest
from towpath.errors import AgentError
from towpath.user_code import call_method
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.decisions.assessments import ANSWERS
from towpath_contracts.decisions.decision import Abandon, RequestGate, Respond, RouteToAgent, UseTool, adapter_of
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.strict_json import MAX_VALUE_DEPTH, json_fault
from towpath_fabric.redaction import redact
from towpath_fabric.telemetry.logs import Logger

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


class AgentAnswerInvalidError(Exception):
    """An agent returned what is no answer in form; the text says why, in words for its next attempt."""


class DeliverableRaisedError(Exception):
    """An agent's `deliverable` raised; the cause is chained."""


async def call_agent(agent: BaseAgent, request: AgentRequest) -> JsonObject:
    """Return the answer as JSON. Raises AgentAnswerInvalidError, DeliverableRaisedError, or what the agent raises."""
    returned = await call_method(getattr(agent, METHODS[request.kind]), request)
    if request.kind is DecisionKind.SUMMARIZE:
        returned = await _with_deliverable(agent, request, returned)
    value = as_json(returned)
    _check(request, value)
    return value


async def _with_deliverable(agent: BaseAgent, request: AgentRequest, returned: Any) -> Any:
    """Let the factory add what the run hands over, unless `summarize` has done so itself."""
    summary = as_json(returned)
    if summary.get("deliverable") is not None:
        return summary
    try:
        made = await call_method(agent.deliverable, request)
    except Exception as error:  # a factory that fails, for whatever reason, fails the run
        raise DeliverableRaisedError(type(error).__name__) from error
    return summary if made is None else {**summary, "deliverable": as_json(made)}


def as_json(returned: Any) -> JsonObject:
    """Return a model or a dict as plain JSON; raises AgentAnswerInvalidError for anything else.

    A decision is written without its defaults: a certainty that was not given has no place in a network run.
    """
    if isinstance(returned, DECISIONS):
        return {"action": returned.action, **returned.model_dump(mode="json", exclude_defaults=True)}
    try:
        plain = to_jsonable_python(returned)
    except (PydanticSerializationError, ValueError) as error:
        msg = f"what was returned can't be written as JSON: {type(error).__name__}"
        raise AgentAnswerInvalidError(msg) from error
    if not isinstance(plain, dict):
        msg = f"an object is wanted, not {type(returned).__name__}"
        raise AgentAnswerInvalidError(msg)
    return plain


def _check(request: AgentRequest, value: JsonObject) -> None:
    fault = json_fault(value, max_depth=MAX_VALUE_DEPTH)
    if fault is not None:
        raise AgentAnswerInvalidError(fault)
    if request.kind is DecisionKind.COMPILE_PLAN:
        return  # the run machine checks it, and tells every fault of it
    shape = ANSWERS.get(request.kind)
    try:
        if shape is not None:
            shape.model_validate(value)
        else:
            _check_payload(request, adapter_of(request.context.run_kind).validate_python(value))
    except ValidationError as error:
        raise AgentAnswerInvalidError(describe_validation_error(error)) from error


def _check_payload(request: AgentRequest, decision: Any) -> None:
    """Hold an answer against the schema that its agent or its task has."""
    if not isinstance(decision, Respond):
        return
    payload = decision.action_details.payload
    schema = request.context.schema_for(payload)
    violations = schema_faults(schema, payload) if schema else ()
    if violations:
        msg = f"the payload does not satisfy its JSON Schema: {'; '.join(violations)}"
        raise AgentAnswerInvalidError(msg)


ATTEMPTS = 3
WAITS_S = (1.0, 2.0)
"""Between attempts after a failure that its agent calls retryable: like a decider's."""

MESSAGE_CHARS = 2_000
"""The longest reason of a failure; it is shown to people and, for `invalid_output`, to the agent."""

CODE_CHARS = 64
ANSWER_BYTES = 256 * 1024
"""The largest answer; a larger one would not fit the events and messages that follow from it."""


@dataclass(frozen=True, slots=True)
class AgentAnswerFailure:
    """Why there is no answer. `retryable` says whether another attempt may help."""

    code: str
    message: str
    retryable: bool = False


async def request_answer(agent: BaseAgent, request: AgentRequest, log: Logger) -> JsonObject | AgentAnswerFailure:
    """Return what *agent* answers within the time that the request gives; raises CancelledError alone."""
    last_failure: AgentAnswerFailure | None = None
    scope = asyncio.timeout(request.decision_request.timeout_ms / 1000)
    try:
        async with scope:
            for wait_s in (*WAITS_S, 0.0):
                result = await _attempt(agent, request, log)
                if not isinstance(result, AgentAnswerFailure) or not result.retryable:
                    return result
                last_failure = result
                await asyncio.sleep(wait_s)
    except TimeoutError:
        if not scope.expired():
            raise
        before = f" (before: {last_failure.message})" if last_failure is not None else ""
        return AgentAnswerFailure("model_timeout", f"no answer within {request.decision_request.timeout_ms} ms{before}")
    assert last_failure is not None
    return last_failure


async def _attempt(agent: BaseAgent, request: AgentRequest, log: Logger) -> JsonObject | AgentAnswerFailure:
    try:
        value = await call_agent(agent, request)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # the process stops, or the time is over
        return AgentAnswerFailure("agent_failed", "CancelledError: the agent cancelled itself")
    except AgentAnswerInvalidError as error:
        return AgentAnswerFailure("invalid_output", _clean(str(error)))
    except DeliverableRaisedError as error:
        return AgentAnswerFailure(
            "deliverable_failed", f"the deliverable could not be made: {_describe_error(error.__cause__ or error)}"
        )
    except AgentError as error:
        return AgentAnswerFailure(error.code[:CODE_CHARS], _clean(error.message), error.retryable)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - every exception of user code is a result
        log.warning("an agent raised", run_id=str(request.run_id), step=request.step, error=type(error).__name__)
        return AgentAnswerFailure("agent_failed", _describe_error(error))
    size = len(canonical_json(value).encode("utf-8", "replace"))
    if size > ANSWER_BYTES:
        return AgentAnswerFailure("invalid_output", f"the answer has {size} bytes; the limit is {ANSWER_BYTES}")
    return value


def _describe_error(error: BaseException) -> str:
    return _clean(f"{type(error).__name__}: {error}".removesuffix(": "))


def _clean(text: str) -> str:
    """Return *text* without this process's secrets, and as what can travel: no lone surrogates."""
    return redact(text).encode("utf-8", "replace").decode()[:MESSAGE_CHARS]
