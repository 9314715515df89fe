"""Which tools a model is offered natively, under which names, and what is made of its calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError
from tests.support.decider.decisions import LOOKUP, context, request

from towpath_contracts.decisions.decision import UseTool, decision_adapter
from towpath_contracts.decisions.request import Cost, OfferedTool, Usage
from towpath_decider.adapters.anthropic_messages import ClaudeProvider
from towpath_decider.adapters.openai_chat import OpenAiProvider
from towpath_decider.core.answer_checks import decision_check
from towpath_decider.core.answers import RefusedAnswer
from towpath_decider.core.conversation import AskModel, ModelReply, converse
from towpath_decider.core.native_tool_calls import (
    INCOMPLETE,
    MAX_NAME_CHARS,
    NativeCall,
    is_switched_on,
    native_tools,
    read_written,
    sent_name,
    tools_by_native_name,
)
from towpath_decider.core.prompt import render
from towpath_decider.settings import DeciderSettings

KEY = SecretStr("k")
ADA = NativeCall(name="crm_lookup", arguments='{"customer": "ada"}')


def tool(name: str) -> OfferedTool:
    return OfferedTool(name=name, parameters={"type": "object"})


@given(st.lists(st.text(alphabet="a_./é", min_size=1, max_size=70), unique=True, max_size=20))
def test_every_tool_has_a_name_of_its_own_that_every_provider_takes(names: list[str]) -> None:
    named = tools_by_native_name([tool(name) for name in names])
    assert [one.name for one in named.values()] == names
    for native, one in named.items():
        assert 1 <= len(native) <= MAX_NAME_CHARS
        assert native.replace("_", "").replace("-", "").isascii()
        assert native == one.name or not set(one.name) <= {"a", "_"} or len(one.name) > MAX_NAME_CHARS


def test_a_name_that_providers_take_stays_with_its_own_tool() -> None:
    named = tools_by_native_name([tool("crm.list"), tool("crm/list"), tool("crm_list")])
    assert {native: one.name for native, one in named.items()} == {
        "crm_list": "crm_list",
        "crm_list_2": "crm.list",
        "crm_list_3": "crm/list",
    }


def test_a_switch_of_a_model_wins_over_that_of_its_provider_and_this_over_the_default() -> None:
    switches = {"openai": False, "openai:gpt-5": True, "local:qwen3:8b": True}
    asked = ["openai:gpt-5", "openai:gpt-4", "local:qwen3:8b", "local:qwen3", "anthropic:claude"]
    assert [is_switched_on(one, switches, otherwise=True) for one in asked] == [True, False, True, True, True]
    assert not is_switched_on("local:qwen3", switches, otherwise=False)


def test_tools_are_offered_natively_where_the_providers_own_address_is_asked() -> None:
    """Another server under the same API may not know tools, and say so in no words that are understood here."""
    openai, claude = request(model="openai:gpt-5"), request(model="anthropic:claude-sonnet-4-5")
    assert OpenAiProvider(api_key=KEY).offers_tools(openai)
    assert ClaudeProvider(api_key=KEY).offers_tools(claude)
    elsewhere = "http://127.0.0.1:9"
    assert not OpenAiProvider(api_key=KEY, base_url=elsewhere).offers_tools(openai)
    assert not ClaudeProvider(api_key=KEY, base_url=elsewhere).offers_tools(claude)
    assert not OpenAiProvider(api_key=None, base_url=elsewhere, local=True).offers_tools(request(model="local:qwen3"))
    assert not OpenAiProvider(api_key=KEY, tool_switches={"openai": False}).offers_tools(openai)


def test_switches_are_read_from_the_environment_and_refused_for_providers_without_such_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOWPATH_NATIVE_TOOLS", '{"openai:gpt-4.1": false, "local": true}')
    assert DeciderSettings.load().native_tools == {"openai:gpt-4.1": False, "local": True}
    with pytest.raises(
        ValidationError, match=r"to anthropic, local, openai or a model of one, not to gemini, scripted:task"
    ):
        DeciderSettings.model_validate({"native_tools": {"scripted:task": True, "gemini": True, "openai": True}})


def test_calls_count_before_a_text_beside_them_which_is_their_reason() -> None:
    for text, why in ((" Because. ", "Because."), ('{"action_reasoning": "So."}', "So."), ("{x} is y", "{x} is y")):
        written = read_written(text, [ADA], request())
        decision = decision_adapter.validate_json(written.text)
        assert isinstance(decision, UseTool)
        assert (written.fault, decision.action_reasoning) == ("", why)
        assert decision.action_details.tool_name == LOOKUP.name
        assert decision.action_details.tool_params == {"customer": "ada"}
    assert read_written("said", [], request()).text == "said"


def test_every_call_that_cannot_be_read_is_named_and_no_arguments_at_all_are_an_empty_object() -> None:
    calls = [ADA, NativeCall(name="pay", arguments="{"), NativeCall(name="crm_lookup", arguments=" ")]
    fault = read_written("", [*calls, NativeCall(name="pay", arguments="7")], request()).fault
    assert "call 2, of pay, can't be read: they are not JSON" in fault
    assert "call 4, of pay, can't be read: they are int, not an object" in fault
    assert "call 1" not in fault and "call 3" not in fault
    assert read_written("", [ADA], request(), cut_off=True).fault == INCOMPLETE


def test_a_fault_of_calls_is_sent_back_for_repair_though_the_decision_has_its_form() -> None:
    check = decision_check(context())
    assert not isinstance(check, RefusedAnswer)
    dialogue = converse(render(context()), check)
    assert isinstance(next(dialogue), AskModel)
    written = read_written("", [NativeCall(name="crm_lookup", arguments='{"customer"')], request())
    assert decision_adapter.validate_json(written.text)
    usage, cost = Usage(model_calls=1), Cost(usd=0.0, price_known=True)
    asked = dialogue.send(ModelReply(text=written.text, usage=usage, cost=cost, fault=written.fault))
    assert isinstance(asked, AskModel)
    assert "of crm.lookup, can't be read" in asked.question.turns[-1].text
    assert asked.question.repairs == 1


def test_the_prompt_speaks_of_direct_calls_only_where_tools_are_offered_for_them() -> None:
    words = "The same tools are offered to you for direct calls."
    assert words in render(context(), native_tools=True).instructions
    assert words not in render(context()).instructions
    assert words not in render(context(tools=()), native_tools=True).instructions
    assert words not in render(context(), {"type": "object"}, native_tools=True).instructions
    assert native_tools(request(context=context(run_kind="background"))) == {}


def test_a_name_of_64_characters_is_taken_and_a_longer_one_is_cut() -> None:
    assert list(tools_by_native_name([tool("a" * 64), tool("b" * 65)])) == ["a" * 64, "b" * 64]
    assert sent_name("c" * 65, {}) == "c" * 64
