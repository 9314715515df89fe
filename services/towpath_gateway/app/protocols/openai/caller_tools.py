"""Tools of the caller: the answer of a run is either a message or calls that the caller is asked to carry out.

The platform never runs them, and its policy says nothing of them. What may be asked for is a JSON Schema that the
answer satisfies, like any `response_schema`: so a model can name no other function, and no other arguments. Results
come back as the next request, where they are quoted: nothing in them counts as said by the caller.
"""

from collections.abc import Collection
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
_NO_CALLS: JsonObject = {"not": {"required": [_CALLS]}}
_OFFER = (
    "Either your answer, or the calls that the caller is asked to carry out for you. Ask for calls where you need what "
    "they return; their results come with the next message, and no tool of your own has these names."
)
"""Said to the model; and by it a schema is known as one of these, also in the log of a run that is long over."""


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
        answer = _MESSAGE if wanted is None else _without_calls(_moved(wanted, "answer", definitions))
        schema = {"description": _OFFER, "anyOf": [answer, asked]}
    return {**schema, "$defs": definitions} if definitions else schema


def names_offered(schema: JsonObject | None) -> frozenset[str]:
    """Return the functions that an answer by *schema* may ask its caller for; none by a schema that is none of ours."""
    if schema is None or schema.get("description") != _OFFER:
        return frozenset()
    asked = schema["anyOf"][-1] if isinstance(schema.get("anyOf"), list) and schema["anyOf"] else schema
    items = _within(asked, "properties", _CALLS, "items")
    calls = items["anyOf"] if isinstance(items, dict) and isinstance(items.get("anyOf"), list) else [items]
    names = [_within(call, "properties", "name", "enum") for call in calls]
    return frozenset(name for listed in names if isinstance(listed, list) for name in listed if isinstance(name, str))


def _within(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def may_be_calls(final: Any) -> bool:
    """Return whether an answer asks for calls, where its schema let it."""
    return isinstance(final, dict) and set(final) == {_CALLS}


def calls_in(final: Any, offered: Collection[str]) -> list[JsonObject]:
    """Return the calls that an answer asks for, each with name and arguments; none where it is no such answer.

    It is none either where a call is of a function that was not *offered*: an answer may have any field where no
    tools of the caller were there.
    """
    listed = final[_CALLS] if may_be_calls(final) else None
    if not isinstance(listed, list):
        return []
    shaped = [one for one in listed if isinstance(one, dict) and set(one) == {"name", "arguments"}]
    named = [one for one in shaped if isinstance(one["name"], str) and one["name"] in offered]
    return named if len(named) == len(listed) else []


def calls_text(calls: list[JsonObject]) -> str:
    """Return an earlier answer that asked for *calls* as it was given."""
    return canonical_json({_CALLS: calls})


def _without_calls(answer: JsonObject) -> JsonObject:
    """Return what an *answer* satisfies that is not to be taken for calls."""
    fields = answer.get("properties", {})
    is_closed = answer.get("additionalProperties") is False
    return answer if is_closed and isinstance(fields, dict) and _CALLS not in fields else {"allOf": [answer, _NO_CALLS]}


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
    if isinstance(reference, str):
        moved["$ref"] = root + reference[1:]
    return moved


def unmovable_reference(schema: Any) -> str | None:
    """Return a reference of *schema* that would mean another place, or none, in a schema that *schema* is a part of."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
            return reference
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return next((found for one in parts if (found := unmovable_reference(one)) is not None), None)
