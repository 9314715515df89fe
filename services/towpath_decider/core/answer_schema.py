"""The JSON Schema of an answer in the words that providers take.

The schema only helps the model; what counts is the check of its answer. Gemini knows a part of JSON Schema (the
list is in google-genai's `response_json_schema`), which the others know too, so everything else is left out, references
are written out, and what is nested too deeply becomes "any object". Claude takes closed objects alone.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import MAX_CALLS_PER_DECISION, PLAIN_KINDS
from towpath_contracts.decisions.request import DecisionRequest, PromptContext
from towpath_decider.core.answer_checks import expected_schema

MAX_DEPTH = 12
"""Levels of a tool's schema that are written out; recursive schemas end here."""

MAX_NODES = 512
"""Sub-schemas of one tool that are written out."""

MAX_TOOLS_IN_DETAIL = 24
"""With more tools than this their parameters are left to the prompt: large schemas are refused."""

ANY_OBJECT: JsonObject = {"type": "object", "additionalProperties": True}

_TEXT: JsonObject = {"type": "string"}
_FLAG: JsonObject = {"type": "boolean"}

_COPIED = frozenset(
    {"type", "format", "title", "description", "minItems", "maxItems", "minimum", "maximum", "required"}
)
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "prefixItems": "prefixItems"}


def schema_of(request: DecisionRequest, *, tools_in_detail: bool = True) -> JsonObject:
    """Return the schema of what *request* asks for."""
    wanted = expected_schema(request)
    return answer_schema(request.context, tools_in_detail=tools_in_detail) if wanted is None else simplified(wanted)


def answer_schema(context: PromptContext, *, tools_in_detail: bool = True) -> JsonObject:
    """Return the schema of a decision that the agent of *context* may take."""
    actions, details = [], []
    if context.tools:
        actions.append("USE_TOOL")
        call = _tool_call(context, in_detail=tools_in_detail and len(context.tools) <= MAX_TOOLS_IN_DETAIL)
        calls = {"type": "array", "items": call, "minItems": 1, "maxItems": MAX_CALLS_PER_DECISION}
        details += [call, _object({"calls": calls}, ["calls"])]
    if context.routes:
        actions.append("ROUTE_TO_AGENT")
        target = {"type": "string", "enum": [route.agent_key for route in context.routes]}
        details.append(_object({"target_agent_name": target, "context": {"type": "string"}}, ["target_agent_name"]))
    if context.allow_respond:
        actions.append("RESPOND")
        payload = simplified(context.respond_schema) if context.respond_schema else ANY_OBJECT
        details.append(_object({"payload": payload}, ["payload"]))
    certainty: JsonObject = {}
    if context.run_kind not in PLAIN_KINDS:
        actions += ["ABANDON", "REQUEST_GATE"]
        details += [_object({"rationale": _TEXT}, ["rationale"]), _object({"reason": _TEXT}, ["reason"])]
        certainty = {"uncertain": _FLAG, "request_confidence": _FLAG, "confidence": {"type": "number"}}
    fields = ["action_reasoning", "action", "action_details"]
    shape = {
        "action_reasoning": _TEXT,
        "action": {"type": "string", "enum": actions},
        "action_details": {"anyOf": details},
    }
    schema = _object({**shape, **certainty}, fields)
    return {**schema, "propertyOrdering": [*fields, *certainty]}  # reasons first: what is written follows from them


def _tool_call(context: PromptContext, *, in_detail: bool) -> JsonObject:
    if not in_detail:
        names = {"type": "string", "enum": [tool.name for tool in context.tools]}
        return _object({"tool_name": names, "tool_params": ANY_OBJECT}, ["tool_name", "tool_params"])
    shapes = [
        _object(
            {"tool_name": {"type": "string", "enum": [tool.name]}, "tool_params": simplified(tool.parameters)},
            ["tool_name", "tool_params"],
        )
        for tool in context.tools
    ]
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _object(properties: JsonObject, required: list[str]) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


def simplified(schema: JsonObject) -> JsonObject:
    """Return *schema* in Gemini's words; one that is too large becomes "any object"."""
    definitions = {**_mapping(schema.get("definitions")), **_mapping(schema.get("$defs"))}
    simplifier = _Simplifier(definitions)
    result = simplifier.simple(schema, MAX_DEPTH)
    return result if simplifier.nodes_left > 0 else dict(ANY_OBJECT)


def without_order(schema: JsonObject) -> JsonObject:
    """Return *schema* without Gemini's word for the order of fields, which elsewhere is the order they are written."""
    return {key: value for key, value in schema.items() if key != "propertyOrdering"}


_CLOSED_COPIES = frozenset({"type", "title", "description", "enum", "required"})


def closed(schema: JsonObject) -> JsonObject | None:
    """Return *schema* with every object closed and without limits on values; None where an object is open to any field.

    *schema* is one of this module's.
    """
    result: JsonObject = {key: value for key, value in schema.items() if key in _CLOSED_COPIES}
    parts: dict[str, JsonObject | None] = {}
    for name, part in _mapping(schema.get("properties")).items():
        parts[name] = closed(part)
    choices = [closed(part) for part in schema.get("anyOf", ())]
    items = closed(schema["items"]) if "items" in schema else {}
    is_object = schema.get("type") == "object"
    if (is_object and not parts) or None in (*parts.values(), *choices, items) or "prefixItems" in schema:
        return None
    if is_object:
        result |= {"properties": parts, "additionalProperties": False}
    if choices:
        result["anyOf"] = choices
    if items:
        result["items"] = items
    return result


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _is_choice(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


class _Simplifier:
    """Walks one schema. Its budget bounds schemas whose references multiply when they are written out."""

    def __init__(self, definitions: JsonObject) -> None:
        self.nodes_left = MAX_NODES
        self._definitions = definitions

    def simple(self, schema: Any, depth: int) -> JsonObject:
        self.nodes_left -= 1
        if not isinstance(schema, dict) or depth == 0 or self.nodes_left <= 0:
            return dict(ANY_OBJECT)
        if "$ref" in schema:
            return self.simple(self._definitions.get(str(schema["$ref"]).rpartition("/")[2]), depth - 1)
        result: JsonObject = {key: value for key, value in schema.items() if key in _COPIED}
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and all(_is_choice(choice) for choice in choices):
            result["enum"] = choices
        for key, name in _LISTS.items():
            if isinstance(schema.get(key), list) and schema[key]:
                result[name] = [self.simple(part, depth - 1) for part in schema[key]]
        if isinstance(schema.get("items"), dict):
            result["items"] = self.simple(schema["items"], depth - 1)
        return self._with_properties(result, schema, depth)

    def _with_properties(self, result: JsonObject, schema: JsonObject, depth: int) -> JsonObject:
        properties = _mapping(schema.get("properties"))
        if properties:
            result["properties"] = {name: self.simple(part, depth - 1) for name, part in properties.items() if name}
            result["required"] = [name for name in schema.get("required", []) if name in result["properties"]]
        elif result.get("type") == "object" or not (result or "const" in schema or "enum" in schema):
            result = {**result, **ANY_OBJECT}
            result.pop("required", None)
        return result
