"""Tools of the caller: the answer of a run is either a message or calls that the caller is asked to carry out.

The platform never runs them, and its policy says nothing of them. What may be asked for is a JSON Schema that the
answer satisfies, like any `response_schema`: so a model can name no other function, and no other arguments. Results
come back as the next request, where they are quoted: nothing in them counts as said by the caller.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json

MAX_CALLS = 32
"""Calls of one answer; as many results can be quoted in a task."""

_MESSAGE: JsonObject = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
    "additionalProperties": False,
}
_CALLS = "tool_calls"
_OFFER = (
    "Either your answer, or the calls that the caller is asked to carry out for you. Ask for calls where you need what "
    "they return; their results come with the next message, and no tool of your own has these names."
)


def answer_schema(
    tools: list[JsonObject], wanted: JsonObject | None, *, must: bool = False, only: str = "", one: bool = False
) -> JsonObject:
    """Return what an answer may be: what is *wanted*, else a message, or calls of *tools* (name, description, schema).

    With *must* it is calls, with *only* of that function, and with *one* a single one.
    """
    definitions: JsonObject = {}
    calls = [_call(tool, definitions) for tool in tools if only in ("", tool["name"])]
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    listed = {"type": "array", "minItems": 1, "maxItems": 1 if one else MAX_CALLS, "items": items}
    asked = {
        "type": "object",
        "properties": {_CALLS: listed},
        "required": [_CALLS],
        "additionalProperties": False,
    }
    if must:
        schema = {"description": _OFFER, **asked}
    else:
        answer = _MESSAGE if wanted is None else _moved(wanted, "answer", definitions)
        schema = {"description": _OFFER, "anyOf": [answer, asked]}
    return {**schema, "$defs": definitions} if definitions else schema


def calls_in(final: Any) -> list[JsonObject]:
    """Return the calls that an answer asks for, each with name and arguments; none where it is no such answer."""
    listed = final.get(_CALLS) if isinstance(final, dict) and len(final) == 1 else None
    if not isinstance(listed, list):
        return []
    shaped = [one for one in listed if isinstance(one, dict) and set(one) == {"name", "arguments"}]
    return shaped if len(shaped) == len(listed) else []


def calls_text(calls: list[JsonObject]) -> str:
    """Return an earlier answer that asked for *calls* as it was given."""
    return canonical_json({_CALLS: calls})


def _call(tool: JsonObject, definitions: JsonObject) -> JsonObject:
    arguments = _moved(tool["parameters"], f"arguments_{tool['name']}", definitions)
    shape = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [tool["name"]]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
    return {"description": tool["description"], **shape} if tool["description"] else shape


def _moved(schema: JsonObject, name: str, definitions: JsonObject) -> JsonObject:
    """Return *schema* as a part of another one: one that refers to itself becomes a definition, under *name*."""
    if "$ref" not in canonical_json(schema):
        return schema
    definitions[name] = _with_references(schema, f"#/$defs/{name}")
    return {"$ref": f"#/$defs/{name}"}


def _with_references(value: Any, root: str) -> Any:
    if isinstance(value, list):
        return [_with_references(one, root) for one in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _with_references(one, root) for name, one in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved
