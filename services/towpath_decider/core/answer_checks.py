"""What an answer must look like: a decision of the run's kind, or the answer to an assessment.

Every answer is held against what its request asks for, whatever the provider promised. A check says in words for
the model what is wrong, and never raises for what a model wrote.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.assessments import ANSWERS, assessment_schema
from towpath_contracts.decisions.decision import Respond, UseTool, UseToolDetails, adapter_of
from towpath_contracts.decisions.evidence import evidence_fault, listed_names
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, PromptContext
from towpath_contracts.json_schema import schema_faults, unusable_schema
from towpath_contracts.problems.foreign_fields import meant_field
from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.problems.near_names import nearest_name, suggest_name
from towpath_decider.core.answers import WHOLE_ANSWER, Check, RefusedAnswer

MAX_ERRORS = 5
"""Problems named to the model at once."""

MAX_NAME_CHARS = 64
"""Of a wrong action; a model may write anything there."""

_QUOTED = re.compile(r"'([^']+)'")

_CALL_PLACE = ("USE_TOOL", "action_details")
"""Where a decision says which tool is called; models and writers of scripts bring other words for its fields along."""

_CALL_FIELDS = tuple(UseToolDetails.model_fields)

_DECISION_FIELDS = frozenset(UseTool.model_fields)

_DECISIONS = (DecisionKind.DECIDE, DecisionKind.REPLAN)


def expected_schema(request: DecisionRequest) -> JsonObject | None:
    """Return the schema of the answer that is no decision; None where a decision is asked for, or nothing says what."""
    if request.kind in _DECISIONS:
        return None
    if request.response_schema is not None or request.kind not in ANSWERS:
        return request.response_schema
    schema = assessment_schema(request.kind)
    wanted = deliverable_schema(request.context)
    if request.kind is not DecisionKind.SUMMARIZE or wanted is None:
        return schema
    # References inside it mean it alone, so it has an address; simpler readers find its definitions at the root.
    deliverable = {"anyOf": [{"$id": "urn:deliverable", **wanted}, {"type": "null"}]}
    lifted: JsonObject = {name: wanted[name] for name in ("$defs", "definitions") if name in wanted}
    return {**schema, **lifted, "properties": {**schema["properties"], "deliverable": deliverable}}


def deliverable_schema(context: PromptContext) -> JsonObject | None:
    """Return what a summary's deliverable must satisfy, where the run asks for one."""
    wanted = (context.assessment or {}).get("deliverable_schema")
    return wanted if isinstance(wanted, dict) else None


def check_for(request: DecisionRequest) -> Check | RefusedAnswer:
    """Return the check of the answer to *request*, or why it can't be answered at all."""
    if request.kind in _DECISIONS:
        return decision_check(request.context)
    if request.kind is DecisionKind.COMPILE_PLAN:
        return accept_any  # the run machine checks it, and tells every fault of it
    schema = expected_schema(request)
    if schema is None:
        return RefusedAnswer(reason=f"a request of kind {request.kind} needs a response_schema")
    check = schema_check(schema)
    if isinstance(check, RefusedAnswer) or listed_names(request.context.assessment) is None:
        return check

    def with_evidence(value: JsonObject) -> str:
        return check(value) or evidence_fault(request.kind, value, request.context.assessment)

    return with_evidence


def accept_any(_value: JsonObject) -> str:
    """Find nothing wrong with an object."""
    return ""


def decision_check(context: PromptContext) -> Check | RefusedAnswer:
    """Return a check of decisions in a run of the context's kind; an answer is held against the agent's schema."""
    adapter = adapter_of(context.run_kind)
    answer = schema_check(context.respond_schema) if context.respond_schema is not None else None
    if isinstance(answer, RefusedAnswer):
        return answer

    def check(value: JsonObject) -> str:
        try:
            decision = adapter.validate_python(value)
        except ValidationError as error:
            return _describe_errors(error, value)
        if answer is None or not isinstance(decision, Respond):
            return ""
        payload = decision.action_details.payload
        wrong = answer(payload) if context.schema_for(payload) is not None else ""
        return f"action_details.payload does not satisfy its JSON Schema: {wrong}" if wrong else ""

    return check


def _describe_errors(error: ValidationError, value: JsonObject) -> str:
    return "; ".join(
        _describe_entry(entry, value) for entry in error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
    )


def _describe_entry(entry: Any, value: JsonObject) -> str:
    if entry["type"] == "extra_forbidden" and entry["loc"][:2] == _CALL_PLACE:
        own = meant_field(str(entry["loc"][-1]), _CALL_FIELDS)
        return (
            f"{located_message(entry, WHOLE_ANSWER)}; here it is {own}" if own else located_message(entry, WHOLE_ANSWER)
        )
    if entry["type"] == "union_tag_not_found" and not entry["loc"]:
        field = entry["ctx"]["discriminator"].strip("'")
        near = nearest_name(field, (name for name in value if name not in _DECISION_FIELDS))
        meant = f"; did you mean {field} by {near[:MAX_NAME_CHARS]!r}?" if near is not None else ""
        return f"{WHOLE_ANSWER}: {field} is missing{meant}"
    if entry["type"] != "union_tag_invalid":
        return located_message(entry, WHOLE_ANSWER)
    wrong, known = str(entry["ctx"]["tag"]), _QUOTED.findall(entry["ctx"]["expected_tags"])
    hint = suggest_name(wrong, known, shown=str)
    there = f"{hint} There" if hint else "; there"
    field = entry["ctx"]["discriminator"].strip("'")
    place = ".".join(str(part) for part in entry["loc"]) or WHOLE_ANSWER
    return f"{place}: no {field} is called {wrong[:MAX_NAME_CHARS]!r}{there} are {', '.join(known)}"


def schema_check(schema: Mapping[str, Any]) -> Check | RefusedAnswer:
    """Return a check against *schema*, or why it is not a JSON Schema. References lead nowhere outside the schema."""
    fault = unusable_schema(schema)
    return RefusedAnswer(reason=f"the response schema can't be used: {fault}") if fault else _SchemaCheck(schema)


class _SchemaCheck:
    """Holds an object against one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def __call__(self, value: JsonObject) -> str:
        return "; ".join(schema_faults(self._schema, value))
