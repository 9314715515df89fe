"""JSON Schemas of the files that people write, for completion in editors: `towpath schema`.

They are made from the very models that read the files. Editors' YAML servers know a part of 2020-12 alone, so only
keywords are used that the older dialects have as well: no `prefixItems`, no `unevaluatedProperties`.
"""

import re
from typing import Any

from pydantic import TypeAdapter

from towpath.project.field_texts import FIELD_TEXTS
from towpath.project.mcp_servers import ServersFile
from towpath.project.project_file import ProjectFile
from towpath_contracts.base import JsonObject
from towpath_contracts.files.evaluation_suite import EvaluationSuite
from towpath_contracts.files.policy_document import PolicyDocument
from towpath_contracts.files.policy_tests import PolicyTest
from towpath_contracts.networks.plan import Plan
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.prices.model_price_list import price_file

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MODELS = (
    *("scripted:task", "gemini:gemini-2.5-flash", "openai:gpt-5-mini", "anthropic:claude-sonnet-4-6", "local:NAME"),
    "agent:NAME",
)
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "le": "maximum"}
"""What pydantic writes of a bound where the value may have another form, such as "30s" for a number of seconds."""

_LEFT_OUT = frozenset({"title", "format", "properties"})
_ONE_WORD = re.compile(r"\^(\w+)\$")


_KINDS: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "network": ("A network: agents, their tools and routes.", TypeAdapter(NetworkSpec)),
    "policy": ("A policy: which agent may use which tool.", TypeAdapter(PolicyDocument)),
    "policy-test": ("Verdicts that a policy must give (towpath policy test).", TypeAdapter(PolicyTest)),
    "evaluation": ("Tasks, and what must come of each (towpath eval).", TypeAdapter(EvaluationSuite)),
    "plan": ("A plan: agents in steps, one after the other or at the same time.", TypeAdapter(Plan)),
    "mcp-servers": ("MCP servers whose tools a worker offers (--mcp).", TypeAdapter(ServersFile)),
    "model-prices": ("Prices of models by their names, globs among them (TOWPATH_MODEL_PRICES_FILE).", price_file),
    "project": ("towpath.yaml: where networks, policy and tools of a project are.", TypeAdapter(ProjectFile)),
}


def schema_kinds() -> dict[str, str]:
    """Return the kinds of files that have a schema, each with what it is."""
    return {name: text for name, (text, _) in _KINDS.items()}


def file_schema(kind: str) -> JsonObject:
    """Return the JSON Schema of files of *kind*; raises ProblemError `not_found` where there is no such kind."""
    if kind not in _KINDS:
        hint = suggest_or_list(kind, _KINDS, shown=str)
        raise ProblemError(problem("not_found", f"no file is of the kind {kind!r}{hint}", remedy="towpath schema"))
    text, adapter = _KINDS[kind]
    made: JsonObject = adapter.json_schema(mode="validation")
    inner = {name: _plain(part, name) for name, part in made.pop("$defs", {}).items()}
    root = _plain(made, str(made.get("title", "")))
    root.pop("description", None)
    found = {"$schema": DIALECT, "title": f"Towpath {kind}", "description": text, **root}
    if kind == "mcp-servers":
        del found["properties"]["folder"]  # who reads the file says where it lies
    if kind == "policy":
        found["anyOf"] = [{"required": ["rules"]}, {"required": ["profile"]}]
    return {**found, **({"$defs": inner} if inner else {})}


def _plain(part: Any, owner: str = "") -> Any:
    """Return a part of a schema without what editors show for nothing; *owner* is the model whose fields it has."""
    if isinstance(part, list):
        return [_plain(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {_BOUNDS.get(key, key): _plain(value) for key, value in part.items() if key not in _LEFT_OUT}
    word = _ONE_WORD.fullmatch(str(found.get("pattern", "")))
    if word is not None:
        found["const"] = word[1]
        del found["pattern"]
    if "description" in found:
        found["description"] = " ".join(str(found["description"]).split())
    if "patternProperties" in found:
        found.setdefault("additionalProperties", False)  # a name that fits no pattern is refused when it is read
    if "properties" in part:
        found["properties"] = {name: _field(f"{owner}.{name}", one) for name, one in part["properties"].items()}
    return found


def _field(name: str, written: JsonObject) -> JsonObject:
    found: JsonObject = _plain(written)
    if name in {"NetworkSpec.model", "AgentSpec.model"}:  # both take a list: `split_models`
        default = {"default": found["default"]} if found.get("default") is not None else {}
        text = {"type": "string", "examples": list(_MODELS)}
        several = {"type": "array", "items": text, "minItems": 1, "maxItems": 5}
        nothing = [{"type": "null"}] if name == "AgentSpec.model" else []
        found = {"anyOf": [text, several, *nothing], **default}
    if name.endswith(".acceptance_criteria"):  # a plain text is one that a model judges: `Criterion`
        found["items"] = {"anyOf": [{"type": "string"}, found["items"]]}
    return {"description": FIELD_TEXTS[name], **found} if name in FIELD_TEXTS else found
