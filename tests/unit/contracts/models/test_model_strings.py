"""Model strings, and what is said about those that name no model."""

import pytest

from towpath_contracts.decisions.model_strings import LISTED_BY, PROVIDERS, model_fault
from towpath_contracts.problems.examples.problem_examples import EXAMPLES


@pytest.mark.parametrize("model", [*(f"{provider}:x" for provider in sorted(PROVIDERS)), "agent:mine", "openai:a:b"])
def test_what_a_decider_or_an_agent_serves_has_no_fault(model: str) -> None:
    assert model_fault(model) == ""


@pytest.mark.parametrize("model", ["mistral:x", "", ":x", "mistral:" + "x" * 500])
def test_an_unknown_provider_that_none_is_like_is_told_which_there_are(model: str) -> None:
    fault = model_fault(model)
    assert "; there are agent, anthropic, gemini, google, local, openai, scripted. " in fault
    assert fault.endswith(LISTED_BY) and len(fault) < 300


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("gpt-5", "openai:gpt-5"),
        ("Gemini:flash", "gemini:flash"),
        ("opena:x", "openai:x"),
        ("claude-x", "anthropic:claude-x"),
    ],
)
def test_a_model_that_one_is_like_is_told_that_one_first_and_no_list(model: str, meant: str) -> None:
    fault = model_fault(model)
    assert f"; did you mean {meant!r}? " in fault and fault.endswith(LISTED_BY)
    assert "scripted" not in fault and len(fault) < 160


def test_the_command_that_is_named_lists_the_providers_and_how_to_ask_another_server() -> None:
    *_, code = LISTED_BY.split()
    cause = EXAMPLES[code].cause
    assert all(provider in cause for provider in ("agent", *PROVIDERS))
    assert "openai:NAME" in cause and "TOWPATH_OPENAI_BASE_URL" in cause


@pytest.mark.parametrize("model", ["openai:", "agent:foo bar", "gemini:a\nb"])
def test_a_known_provider_without_a_model_is_told_what_is_missing(model: str) -> None:
    assert model_fault(model).endswith(f"write {model.partition(':')[0]}:NAME")
