"""What is wrong with a network that no platform is needed to find: placeholders, blanks, and what was meant."""

from typing import Any

import pytest

from towpath_contracts.network_checks.network_agents import MAX_PLACEHOLDERS_TOLD, SHOWN_CHARS, check_network
from towpath_contracts.network_checks.written_models import MAX_AGENTS_LOOKED_AT, written_model_problems
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import REGISTRY, ProblemDetail


def problems(**agent: Any) -> list[ProblemDetail]:
    lead = {"key": "lead", "is_default": True, "allow_respond": True, **agent}
    return check_network(NetworkSpec.model_validate({"name": "desk", "agents": [lead, {"key": "billing"}]}))


@pytest.mark.parametrize(
    ("prompt", "detail"),
    [
        ("Use {toolz}.", "lead: {toolz} is no placeholder; did you mean {tools}?"),
        (
            "Greet {customer}.",
            "lead: {customer} is no placeholder; there are {tools}, {routes}, {agent_key}, {tool_history}",
        ),
    ],
)
def test_a_word_in_braces_that_is_no_placeholder_is_refused(prompt: str, detail: str) -> None:
    assert [(one.code, one.pointer, one.detail) for one in problems(prompt_template=prompt)] == [
        ("placeholder_unknown", "/agents/0/prompt_template", detail)
    ]
    assert "put blanks inside" in REGISTRY["placeholder_unknown"].remedy


def test_each_line_of_a_prompt_with_such_a_word_is_told_once() -> None:
    found = problems(prompt_template="You help.\n\nUse {toolz}, {toolz}.\n{tools} or {toolz}\n")
    assert [one.detail for one in found] == [
        f"lead: line {line} of its prompt_template: {{toolz}} is no placeholder; did you mean {{tools}}?"
        for line in (3, 4)
    ]
    assert len(problems(prompt_template="Use {toolz}, {toolz}.\n")) == 1


@pytest.mark.parametrize(
    "prompt",
    ["{tools} {routes} {agent_key} {tool_history}", '{"a": 1}', "{ customer }", "{{ display_name }}", "{}", ""],
)
def test_other_braces_are_text(prompt: str) -> None:
    assert problems(prompt_template=prompt) == []


def test_a_prompt_with_thousands_of_words_in_braces_is_told_in_few_sentences() -> None:
    found = problems(prompt_template=" ".join(f"{{toolz{number}{'x' * 99}}}" for number in range(500)))
    assert len(found) == MAX_PLACEHOLDERS_TOLD == 20
    assert all(f"{{toolz{number}{'x' * 99}"[: SHOWN_CHARS + 1] + "}" in one.detail for number, one in enumerate(found))
    near = problems(prompt_template=" ".join(f"{{tools{number}}}" for number in range(9)))
    assert ["did you mean" in one.detail for one in near] == [True] * SUGGESTED + [False] * (9 - SUGGESTED)


def test_a_prompt_of_blanks_is_refused() -> None:
    assert [one.code for one in problems(prompt_template=" \n")] == ["prompt_empty"]


def test_an_unknown_route_is_told_with_the_agent_that_was_meant() -> None:
    (found,) = problems(allowed_routes=["biling"])
    assert found.detail == "lead routes to biling, which is no agent of this network; did you mean 'billing'?"
    assert [one.detail for one in problems(allowed_routes=["zzz"])] == [
        "lead routes to zzz, which is no agent of this network: add it, or name another"
    ]


def test_models_are_found_in_whatever_was_written() -> None:
    written = {
        "model": "opneai:gpt-5",
        "agents": [
            {"key": "a", "fallback_models": ["openai:x", "gpt-5"]},
            7,
            {"model": "foo:bar"},
            {"model": 3},
            {"model": ["openai:x", "gpt-5"]},
        ],
        "goal": {"judge_model": "gpt-5"},
    }
    assert [(one.pointer, one.code) for one in written_model_problems(written)] == [
        ("/model", "model_unknown"),
        ("/agents/0/fallback_models/1", "model_unknown"),
        ("/agents/2/model", "model_unknown"),
        ("/agents/4/model/1", "model_unknown"),
        ("/goal/judge_model", "model_unknown"),
    ]
    for odd in ([], "x", None, {"agents": "openai"}, {"agents": {"a": 1}, "fallback_models": "gpt-5", "goal": []}):
        assert list(written_model_problems(odd)) == []
    many = {"agents": [{"model": "openai:x"}] * MAX_AGENTS_LOOKED_AT + [{"model": "gpt-5"}]}
    assert list(written_model_problems(many)) == []
    assert len(list(written_model_problems({"agents": [{"model": "gpt-5"}] * MAX_AGENTS_LOOKED_AT}))) == SUGGESTED
