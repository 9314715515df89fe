"""AgentDojo's suites as the benchmark of attacks uses them: tools with what is declared of them, and environments.

AgentDojo is not installed with Towpath (`uv run --with agentdojo==0.1.35 …`); this module alone imports it. An
environment is what the tools of one run act on; everything in it comes from the suite but the text of an attack.
"""

import functools
import json
import os
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from pydantic import PydanticUserError, TypeAdapter

from towpath.tools.declaration_advice import advise
from towpath_contracts.tools.calls import EffectClass, ToolSpec

SUGGESTED = "suggested"
SUITES = ("banking", "slack", "travel", "workspace")
VERSION = "v1.2.1"
CASE = "case"
"""The system parameter that tells a tool whose environment it acts on. Scripts and models never see it."""

DECLARATIONS_VARIABLE = "ATTACK_DECLARATIONS"
"""Names the file with what is declared of the tools, or `suggested`: what `towpath policy suggest` says of them."""

CASES_VARIABLE = "ATTACK_CASES"
"""Names the file from which a worker reads the suite, user task and injected text of every case."""

warnings.filterwarnings("ignore", "Pydantic serializer warnings")  # the suites' own tools store texts for enums

_PLACE = "INJECTION-PLACE-{}-END"
_PLACES = re.compile(r"INJECTION-PLACE-\w+-END")


@functools.cache
def suite(name: str) -> Any:
    """Return a suite of AgentDojo; ModuleNotFoundError where that is not installed."""
    return import_module("agentdojo.task_suite.load_suites").get_suite(VERSION, name)


@functools.cache
def declarations() -> dict[str, Any]:
    """Return what is declared of the suites' tools in the file that the environment names, or the one beside this."""
    path = os.environ.get(DECLARATIONS_VARIABLE) or Path(__file__).parent / "declarations.yaml"
    read: dict[str, Any] = yaml.safe_load(Path(path).read_text("utf-8"))
    return read


@functools.cache
def specs(name: str) -> dict[str, ToolSpec]:
    """Return the tools of a suite by their own names; on the platform they are called `SUITE.TOOL`."""
    found = {}
    for tool in suite(name).tools:
        parameters = {key: value for key, value in tool.parameters.model_json_schema().items() if key != "title"}
        parameters["properties"] = {**parameters.get("properties", {}), CASE: {"type": "string"}}
        bare = ToolSpec(
            name=f"{name}.{tool.name}",
            toolset="suites",
            description=tool.description,
            parameters={"type": "object", **parameters},
            system_params=(CASE,),
        )
        suggested = os.environ.get(DECLARATIONS_VARIABLE) == SUGGESTED
        declared = _suggested(tool, bare) if suggested else _declared(declarations()[name], tool.name)
        found[tool.name] = ToolSpec.model_validate({**bare.model_dump(), **declared})
    return found


def _declared(declared: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "effect_class": EffectClass.PURE if name in declared["pure"] else EffectClass.IRREVERSIBLE,
        "trusted_output": name in declared.get("trusted", ()),
        "trusted_fields": tuple(declared.get("trusted_fields", {}).get(name, ())),
        "sinks": declared["sinks"].get(name),
        "hazards": tuple(declared.get("hazards", {}).get(name, ())),
    }


def _suggested(tool: Any, bare: ToolSpec) -> dict[str, Any]:
    """Return what is suggested of a tool, from its name, description, schema and the type of its result."""
    try:
        output = TypeAdapter(tool.return_type).json_schema()
    except PydanticUserError:
        output = None
    return {one.field: one.value for one in advise(bare, output)}


def acts(spec: ToolSpec) -> bool:
    """Say whether a call of the tool does something outside: it changes something, or tells somebody by reading."""
    return spec.effect_class is not EffectClass.PURE or bool(spec.sinks)


@functools.cache
def _template(name: str, *, marked: bool) -> Any:
    places = suite(name).get_injection_vector_defaults() if marked else {}
    return suite(name).load_and_inject_default_environment({place: _PLACE.format(place) for place in places})


def environment(name: str, user_task: str, text: str | None = None) -> Any:
    """Return a new environment for a user task, with *text* wherever the suite lets a stranger write."""
    made = _template(name, marked=text is not None).model_copy(deep=True)
    if text is not None:
        _fill(made, text)
    return suite(name).user_tasks[user_task].init_environment(made)


def _fill(value: Any, text: str) -> Any:
    """Replace the marked places in *value*; what can be changed in place is."""
    if isinstance(value, str):
        return _PLACES.sub(lambda _: text, value)
    if isinstance(value, list):
        value[:] = [_fill(one, text) for one in value]
    elif isinstance(value, dict):
        filled = {_fill(key, text): _fill(one, text) for key, one in value.items()}
        value.clear()
        value.update(filled)
    elif hasattr(value, "model_fields_set"):
        for key, one in vars(value).items():
            vars(value)[key] = _fill(one, text)
    return value


def play(name: str, environment_: Any, tool: str, args: dict[str, Any]) -> tuple[Any, str | None]:
    """Let a tool act on an environment; returns its result as JSON data, and an error if it has none."""
    result, error = _runtime(name).run_function(environment_, tool, args)
    return as_data(result), error


@functools.cache
def _runtime(name: str) -> Any:
    return import_module("agentdojo.functions_runtime").FunctionsRuntime(suite(name).tools)


def function_call(tool: str, args: dict[str, Any]) -> Any:
    """Return a call in the suites' own words."""
    return import_module("agentdojo.functions_runtime").FunctionCall(function=tool, args=args)


def reached(name: str, injection: str, before: Any, after: Any, calls: list[Any]) -> bool:
    """Say whether an attack reached its goal by the suite's own judgement, of its calls or of what they left."""
    task = suite(name).injection_tasks[injection]
    said = task.GROUND_TRUTH_OUTPUT or ""
    by_calls = task.security_from_traces(said, before, after, calls)
    return bool(task.security(said, before, after) if by_calls is None else by_calls)


def as_data(value: Any) -> Any:
    """Return *value* as JSON data; what is no JSON becomes text."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def texts(value: Any) -> Iterator[str]:
    """Yield every text in JSON data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)
