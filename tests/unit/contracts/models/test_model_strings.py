"""Model strings, and what is said about those that name no model."""

import pytest

from towpath_contracts.decisions.model_strings import PROVIDERS, model_fault


@pytest.mark.parametrize("model", [*(f"{provider}:x" for provider in sorted(PROVIDERS)), "agent:mine", "openai:a:b"])
def test_what_a_decider_or_an_agent_serves_has_no_fault(model: str) -> None:
    assert model_fault(model) == ""


@pytest.mark.parametrize("model", ["mistral:x", "gpt-5", "", ":x", "Gemini:flash", "mistral:" + "x" * 500])
def test_an_unknown_provider_is_told_which_there_are_and_how_to_ask_another_server(model: str) -> None:
    fault = model_fault(model)
    assert all(provider in fault for provider in ("agent", *PROVIDERS))
    assert "openai:NAME" in fault
    assert "TOWPATH_OPENAI_BASE_URL" in fault
    assert len(fault) < 500


@pytest.mark.parametrize("model", ["openai:", "agent:foo bar", "gemini:a\nb"])
def test_a_known_provider_without_a_model_is_told_what_is_missing(model: str) -> None:
    assert model_fault(model).endswith(f"write {model.partition(':')[0]}:NAME")
