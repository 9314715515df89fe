"""Editors complete the files that people write by schemas that are made from the models that read them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tests.support.places import ROOT

from towpath.project.field_texts import FIELD_TEXTS
from towpath.project.file_schemas import DIALECT, file_schema, schema_kinds
from towpath_contracts.problems.registry import ProblemError

KINDS = {"Network": "network", "Policy": "policy", "PolicyTest": "policy-test", "McpServers": "mcp-servers"}
UNDERSTOOD = {
    *("$schema", "$defs", "$ref", "title", "description", "default", "examples"),
    *("type", "enum", "const", "anyOf", "required", "properties", "patternProperties", "additionalProperties", "items"),
    *("minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "propertyNames"),
}
"""Keywords that draft-07 has as well, since editors' YAML servers know no more of newer ones."""


def examples() -> list[Path]:
    """Return every YAML file of the examples."""
    return sorted((ROOT / "examples").rglob("*.yaml"))


def kind_of(path: Path, written: dict[str, Any]) -> str:
    return "plan" if "steps" in written else KINDS[written["kind"]]


def keywords(part: Any) -> Iterator[str]:
    """Return the keywords that a schema uses; names of fields and values are none."""
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        yield key
        if key in {"properties", "$defs", "patternProperties"}:
            for one in value.values():
                yield from keywords(one)
        elif key == "anyOf":
            for one in value:
                yield from keywords(one)
        elif key in {"items", "additionalProperties", "propertyNames"}:
            yield from keywords(value)


def fields(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every field of a kind of file with its schema."""
    schema = file_schema(kind)
    for owner, part in [("", schema), *schema.get("$defs", {}).items()]:
        for name, field in part.get("properties", {}).items():
            yield f"{owner}.{name}", field


@pytest.mark.parametrize("path", examples(), ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_every_example_fits_its_schema_and_with_a_key_too_many_does_not(path: Path) -> None:
    written = yaml.safe_load(path.read_text("utf-8"))
    validator = jsonschema_rs.validator_for(file_schema(kind_of(path, written)))
    assert [error.message for error in validator.iter_errors(written)] == []
    listed = next(value for key, value in written.items() if key in {"agents", "rules", "cases", "steps", "servers"})
    inner = next(iter(listed.values())) if isinstance(listed, dict) else listed[0]
    inner["efect"] = "allow"
    assert not validator.is_valid(written)


@pytest.mark.parametrize("kind", schema_kinds())
def test_schemas_use_what_editors_know(kind: str) -> None:
    schema = file_schema(kind)
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == DIALECT == "https://json-schema.org/draft/2020-12/schema"
    assert set(keywords(schema)) <= UNDERSTOOD


@pytest.mark.parametrize("kind", schema_kinds())
def test_every_field_is_described(kind: str) -> None:
    assert [name for name, field in fields(kind) if not field.get("description")] == []


def test_nothing_is_described_that_is_no_field() -> None:
    known = {name for kind in schema_kinds() for name, _ in fields(kind)}
    assert {name for name in FIELD_TEXTS if not known & {name, f".{name.partition('.')[2]}"}} == set()


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("network", {"kind": "Networks", "name": "a", "agents": []}),
        ("network", {"kind": "Network", "name": "a", "agent": []}),
        ("network", {"kind": "Network", "name": "a", "agents": [{"key": "b", "equipped_tools": "x.y"}]}),
        ("network", {"kind": "Network", "name": "a", "agents": [{"key": "b", "is_default": "yes, please"}]}),
        ("network", {"kind": "Network", "name": "a", "agents": [{"key": "b"}], "swarm": {"mode": "flow"}}),
        ("policy", {"kind": "Policy"}),
        ("policy", {"kind": "Policy", "rules": [{"name": "a", "effect": "ask"}]}),
        ("policy", {"kind": "Policy", "rules": [{"name": "a", "effect": "allow", "who": {"netwrk": "b"}}]}),
        ("policy", {"kind": "Policy", "rules": [{"name": "a", "effect": "allow", "rate": {"calls": 1, "per": 2}}]}),
        ("policy", {"kind": "Policy", "profile": "balanzed"}),
        ("policy-test", {"kind": "PolicyTest", "cases": [{"tool": "a", "verdict": "ask"}]}),
        ("evaluation", {"kind": "Evaluation", "network": "a", "cases": [{"name": "b", "expects": {}}]}),
        ("evaluation", {"kind": "Evaluation", "network": "a", "cases": [{"name": "b", "gates": [{"tols": "c"}]}]}),
        ("mcp-servers", {"kind": "McpServers", "servers": {"a": {"comand": "b"}}}),
        ("mcp-servers", {"kind": "McpServers", "servers": {"not a name": {"command": "b"}}}),
        ("mcp-servers", {"kind": "McpServers", "servers": {"a": {"command": "b"}}, "folder": "c"}),
        ("model-prices", {"gemini:*": {"input_usd": 1}}),
        ("project", {"kind": "Project", "network": "networks"}),
    ],
)
def test_mistakes_do_not_fit(kind: str, written: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(file_schema(kind), written)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("network", {"name": "a", "model": ["gemini:b", "openai:c"], "agents": [{"key": "b", "model": ["local:d"]}]}),
        ("network", {"name": "a", "agents": [{"key": "b", "model": None, "budget": {"usd": 0.5}}]}),
        ("policy", {"kind": "Policy", "profile": "balanced"}),
        ("policy", {"kind": "Policy", "rules": [{"name": "a", "effect": "allow", "when": True}]}),
        ("mcp-servers", {"servers": {"a": {"url": "https://x", "timeout": "30s", "recheck": 5}}}),
        ("evaluation", {"kind": "Evaluation", "network": "a", "cases": [{"name": "b", "expect": {"max_usd": 0.1}}]}),
        ("model-prices", {"gemini:*": {"input_usd": 1, "output_usd": "2.5"}}),
        ("project", {"kind": "Project", "tools": ["tools"], "single_person": True}),
    ],
)
def test_what_is_read_fits(kind: str, written: dict[str, Any]) -> None:
    assert [error.message for error in jsonschema_rs.validator_for(file_schema(kind)).iter_errors(written)] == []


def test_an_unknown_kind_is_told_with_the_one_that_may_have_been_meant() -> None:
    with pytest.raises(ProblemError, match="did you mean network"):
        file_schema("netwrok")


def test_a_kind_that_can_be_one_word_is_completed() -> None:
    assert file_schema("network")["properties"]["kind"]["const"] == "Network"
    assert json.dumps(file_schema("network")["properties"]["model"]).count("gemini:gemini-2.5-flash") == 2
