"""The script and the test of a new network whose tools are known: `towpath new network NAME --allow … --ask …`."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from towpath_contracts.base import JsonObject

PLACEHOLDER: Mapping[str, Any] = MappingProxyType({"ARGUMENT": "VALUE"})
"""In place of the arguments of a tool that is in no file."""

TASK = "Try it."
DONE, NOT_DONE = "Done.", "It was not done."
MAX_NAME = 64
_SUCH_AS = re.compile(
    r"""\b(?:such\ as|e\.g\.|for\ example),?\s+(?:(?P<quote>["'`])(?P<quoted>.+?)(?P=quote)(?!\w)
    |(?P<words>\w.*?)(?=\s+(?:or|and)\s|\s*[,;()\n]|\.(?:\s|$)|\s*$))""",
    re.IGNORECASE | re.VERBOSE,
)
"""A value in quotes, or all words up to the end of what is said of it."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_DEEP = 8
_OF_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "date": "2030-01-31",
        "date-time": "2030-01-31T12:00:00Z",
        "time": "12:00:00Z",
        "duration": "PT1H",
        "uuid": "00000000-0000-4000-8000-000000000000",
        "email": "ann@example.com",
        "uri": "https://example.com",
    }
)
_OF_TYPES: Mapping[str, Any] = MappingProxyType({"boolean": True, "null": None, "array": []})


def identifier(name: str) -> str:
    """Return *name* as Python can have it."""
    return re.sub(r"\W", "_", name).lower()


def rule_name(network: str, tool: str) -> str:
    """Return what the rule about *tool* is called: another name for each, also where it has to be cut."""
    name = f"{network}-{tool}"
    if len(name) <= MAX_NAME:
        return name
    mark = f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name[: MAX_NAME - len(mark)] + mark


def yaml_name(name: str) -> str:
    """Return *name* as YAML reads it as text: in quotes where it has another meaning, such as `null` or `on`."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def example_arguments(parameters: JsonObject, settled: Collection[str] = ()) -> JsonObject:
    """Return arguments that a call may have: the required ones of the JSON Schema *parameters* but for *settled*."""
    wanted = [name for name in parameters.get("required", ()) if name not in settled]
    fields = parameters.get("properties", {})
    definitions = parameters.get("$defs", {})
    return {name: _example(fields.get(name, {}), name, definitions, 0) for name in wanted}


def script_text(calls: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a script that makes *calls*, each with its arguments, and says whether the last of them was made."""
    entries: list[JsonObject] = [
        {"action": "USE_TOOL", "action_details": {"tool_name": tool, "tool_params": {**given}}}
        for tool, given in calls.items()
    ]
    succeeded = {"last_call": "succeeded"}
    entries.append({"when": succeeded, "action": "RESPOND", "action_details": {"payload": DONE}})
    entries.append({"action": "RESPOND", "action_details": {"payload": NOT_DONE}})
    return "[\n" + ",\n".join(f"  {json.dumps(entry, ensure_ascii=False)}" for entry in entries) + "\n]\n"


def test_text(network: str, script: Path, tools: Sequence[str], ask: Collection[str]) -> str:
    """Return a test in which *script* is played: a person agrees to each call of *ask*; in a second one none."""
    asked = [tool for tool in tools if tool in ask]
    all_made = f"test_{identifier(network)}_calls_its_tools"
    lines = [
        f'"""The network {network} in this process, without a platform and without a key."""',
        *_test_of(all_made + ("_once_a_person_agrees" if asked else ""), network, f"  # it plays {script}"),
    ]
    for tool in asked:
        lines += [
            "    gate = h.next_gate()",
            f"    assert (gate.rule, gate.tool) == ({_python(rule_name(network, tool))}, {_python(tool)})",
            '    gate.approve(reason="looked at")',
        ]
    lines += _ends_with(tools, DONE)
    if asked:
        lines += _test_of(f"test_{identifier(network)}_does_nothing_that_a_person_denies", network, "")
        lines += ['    h.next_gate().deny("not today")'] * len(asked)
        lines += _ends_with([tool for tool in tools if tool not in ask], NOT_DONE)
    return "\n".join(lines) + "\n"


def _test_of(function: str, network: str, remark: str) -> list[str]:
    return [
        *("", "", f"def {function}(towpath_harness):"),
        f"    h = towpath_harness({_python(network)}){remark}",
        f"    run = h.run({_python(TASK)})",
    ]


def _ends_with(tools: Sequence[str], answer: str) -> list[str]:
    return [
        "    result = run.result()",
        f"    assert [call.tool for call in result.tool_calls()] == {_python(tools)}",
        f"    assert result.text == {_python(answer)}",
    ]


def _python(value: str | Sequence[str]) -> str:
    """Return *value* as Python has it, with double quotes as formatters write them."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"[{', '.join(map(_python, value))}]"


def _example(schema: Any, name: str, definitions: JsonObject, depth: int) -> Any:
    """Return a value that *schema*, the one of the argument *name*, takes."""
    if not isinstance(schema, dict) or depth > _MOST_DEEP:
        return name
    if "$ref" in schema:
        schema = {**definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), **schema, "$ref": ""}
        return _example({key: one for key, one in schema.items() if key != "$ref"}, name, definitions, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for choices in ("anyOf", "oneOf", "allOf"):
        if schema.get(choices):
            first = {"description": schema.get("description", ""), **schema[choices][0]}
            return _example(first, name, definitions, depth + 1)
    return _of_type(schema, name, definitions, depth)


def _of_type(schema: JsonObject, name: str, definitions: JsonObject, depth: int) -> Any:
    kind = schema.get("type")
    told = _told(schema)
    if kind == "object":
        fields, wanted = schema.get("properties", {}), schema.get("required", ())
        return {field: _example(fields.get(field, {}), field, definitions, depth + 1) for field in wanted}
    if kind == "array" and (told or schema.get("minItems")):
        items = {"description": schema.get("description", ""), **schema.get("items", {})}
        return [_example(items, name, definitions, depth + 1)] * schema.get("minItems", 1)
    if kind in ("integer", "number"):
        return _number(schema, told)
    usual = _OF_TYPES.get(str(kind), _OF_FORMATS.get(str(schema.get("format")), name))
    return told if told and str(kind) not in _OF_TYPES else usual


def _told(schema: JsonObject) -> str:
    """Return the example that the docstring gives; empty for none."""
    found = _SUCH_AS.search(schema.get("description", ""))
    return (found["quoted"] or found["words"]) if found else ""


def _number(schema: JsonObject, told: str) -> int | float:
    """Return the number with which *told* begins, else one within the bounds of *schema*."""
    found = _NUMBER.match(told)
    if found and ("." not in found[0] or schema.get("type") == "number"):
        return float(found[0]) if "." in found[0] else int(found[0])
    least: int = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    most: int = schema.get("maximum", schema.get("exclusiveMaximum", least + 1) - 1)
    return min(least, most)
