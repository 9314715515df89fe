"""The bounds and defaults of the files that people write, as they are promised to those who have written some.

Networks and plans are messages too, whose bounds `tests/golden/limits.txt` has.
"""

from typing import Any

import pytest

from towpath.project.file_schemas import file_schema

BOUNDS = (
    *("minimum", "exclusiveMinimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)
HELD: dict[str, dict[str, list[Any]]] = {
    "policy": {
        "policy.rules": ["maxItems", 10_000],
        "DocumentRule.max_calls_per_run": ["minimum", 1, "maximum", 1_000_000],
        "DocumentRule.max_cost_per_run_usd": ["exclusiveMinimum", 0, "maximum", 1_000_000],
        "DocumentRule.expires_s": ["minimum", 60, "maximum", 30 * 86_400, "default", 86_400],
        "DocumentRule.quorum": ["minimum", 1, "maximum", 10, "default", 1],
        "DocumentRule.on_expiry": ["default", "deny"],
        "DocumentRule.discovered": ["default", False],
        "RuleRate.calls": ["minimum", 1, "maximum", 1_000_000],
        "RuleRate.per_s": ["minimum", 1, "maximum", 31 * 86_400],
    },
    "policy-test": {
        "policy-test.cases": ["minItems", 1, "maxItems", 10_000],
        "PolicyTestCase.name": ["maxLength", 256],
        "PolicyTestCase.step": ["default", 1],
        "PolicyTestCase.discovered": ["default", False],
    },
    "evaluation": {
        "evaluation.network": ["minLength", 1],
        "evaluation.timeout_s": ["exclusiveMinimum", 0, "maximum", 86_400, "default", 120.0],
        "evaluation.cases": ["minItems", 1, "maxItems", 1_000],
        "EvaluationCase.name": ["minLength", 1, "maxLength", 256],
        "ExpectedCall.times": ["minimum", 1],
        "ExpectedGate.decide": ["default", "approve"],
        "ExpectedOutcome.status": ["default", "completed"],
        "ExpectedOutcome.max_usd": ["minimum", 0],
        "ExpectedOutcome.max_tokens": ["minimum", 0],
        "ExpectedOutcome.max_steps": ["minimum", 1],
    },
    "mcp-servers": {
        "mcp-servers.servers": ["minProperties", 1, "maxProperties", 64],
        "ServerConfig.command": ["minLength", 1, "maxLength", 4_096],
        "ServerConfig.network": ["default", False],
        "ServerConfig.url": ["maxLength", 4_096],
        "ServerConfig.plain_http": ["default", False],
        "ServerConfig.protocol": ["default", "auto"],
        "ServerConfig.max_output_bytes": ["minimum", 1_024, "maximum", 16 * 1_024**2, "default", 4 * 1_024**2],
        "ToolOverride.effect_class": ["default", "irreversible"],
        "ToolOverride.operation": ["minLength", 1, "maxLength", 64, "default", "call"],
        "ToolOverride.trusted_output": ["default", False],
        "ToolOverride.sensitive": ["default", False],
        "ToolOverride.polling": ["default", False],
        "ToolOverride.description": ["maxLength", 4_096],
        "ToolOverride.summary": ["maxLength", 256],
    },
    "project": {"project.tools": ["maxItems", 100], "project.single_person": ["default", False]},
}


def promised(part: dict[str, Any]) -> list[Any]:
    """Return the bounds of a field, also those of a choice of it, and its default where that is not empty."""
    found = {word: one[word] for one in (part, *part.get("anyOf", ())) for word in BOUNDS if word in one}
    default = {"default": part["default"]} if part.get("default") not in (None, "", []) else {}
    return [word for pair in (found | default).items() for word in pair]


@pytest.mark.parametrize("kind", HELD)
def test_a_file_may_hold_what_it_could_before_and_says_the_same_by_leaving_it_out(kind: str) -> None:
    schema = file_schema(kind)
    fields = {
        f"{owner}.{name}": promised(part)
        for owner, described in {kind: schema, **schema.get("$defs", {})}.items()
        for name, part in described.get("properties", {}).items()
    }
    assert {name: fields[name] for name in HELD[kind]} == HELD[kind]
