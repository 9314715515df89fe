"""The prompts of a network are checked before it is published, within a budget of tokens for all of them."""

import time

from towpath_contracts.networks.spec import NetworkSpec
from towpath_orchestrator.app.api.network_registry import MAX_PROMPT_TOKENS, check_prompts

DENSE = "{% if tools %}x{{agent_key|upper}}{% else %}y{% endif %}"
"""24 tokens, or one fewer for the text at its end."""


def found(*prompts: str) -> list[tuple[str, str]]:
    agents = [{"key": f"a{place}", "prompt_template": prompt} for place, prompt in enumerate(prompts)]
    spec = NetworkSpec.model_validate({"name": "desk", "agents": agents})
    return [(one.code, one.pointer) for one in check_prompts(spec)]


def test_each_prompt_that_can_not_be_compiled_is_told() -> None:
    assert found("{tools}", "{{ password }}", "{% if %}") == [
        ("prompt_invalid", "/agents/1/prompt_template"),
        ("prompt_invalid", "/agents/2/prompt_template"),
    ]


def test_long_texts_with_placeholders_are_taken() -> None:
    assert found(*["You are {agent_key}. " + "Be kind. " * 7_000 + "{tools}{routes}{tool_history}"] * 50) == []


def test_prompts_with_too_many_tokens_together_are_refused_uncompiled() -> None:
    prompts = [DENSE * 380 + str(place) for place in range(45)]
    began = time.thread_time()
    assert found(*prompts) == [("network_too_large", "/agents")]
    assert time.thread_time() - began < 2  # to compile them takes four seconds
    assert found(DENSE * (MAX_PROMPT_TOKENS // 24)) == []


def test_the_most_costly_prompts_that_are_taken_are_compiled_soon() -> None:
    costly = "{{ tools" + "|upper" * 15 + " }}"  # 35 tokens
    began = time.thread_time()
    assert found(costly * (MAX_PROMPT_TOKENS // 36)) == []
    assert time.thread_time() - began < 8  # 1.3 s on a quiet machine
