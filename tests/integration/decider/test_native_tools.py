"""Tools that are offered natively: the real SDKs over real HTTP, to servers that speak each provider's wire format.

Whatever a provider's calls look like, whole or in pieces, they are the decision that the JSON form gives.
"""

import re
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import pytest
import pytest_asyncio
import structlog
from pydantic import TypeAdapter
from structlog.testing import LogCapture
from tests.docs_site.taken_blocks import settings_of, taken
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, RecordingListener, failed, made, serve
from tests.support.decider.decisions import LOOKUP, RESPOND, USE_TOOL, as_text, context
from tests.support.decider.gemini_server import Answer
from tests.support.decider.model_servers import DIALECTS, Claude, OpenAi

from towpath_contracts.decisions.decision import decision_adapter
from towpath_contracts.decisions.request import DecisionKind, OfferedTool
from towpath_decider.core.native_tool_calls import MAX_OFFERED
from towpath_decider.settings import DeciderSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ["anthropic", "local", "openai"]
PAY = OfferedTool(name="pay", description="Pay.", parameters={"properties": {"amount": {"type": "integer"}}})
CLASH = OfferedTool(name="crm_lookup", description="An older one.", parameters={"type": "object"})
TOOLS = (LOOKUP, PAY, CLASH)
ADA, FIVE = '{"customer": "ada"}', '{"amount": 5}'


@cache  # not at import: every process of tests imports this, and the SDKs take a second
def published(provider: str) -> TypeAdapter[Any]:
    """Return what the provider's SDK says that its API takes as `tools`."""
    if provider == "anthropic":
        from anthropic.types import ToolParam

        return TypeAdapter(list[ToolParam])
    from openai.types.chat import ChatCompletionFunctionToolParam

    return TypeAdapter(list[ChatCompletionFunctionToolParam])


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=NAMES)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ProviderApi]:
    """Every provider in turn that takes tools beside JSON."""
    async with serve(DIALECTS[request.param], tool_switches={request.param: True}) as served:
        yield served


def dialect_of(api: ProviderApi) -> Claude | OpenAi:
    assert isinstance(api.dialect, Claude | OpenAi)
    return api.dialect


def as_it_comes(api: ProviderApi, answer: Answer, *, in_pieces: bool) -> tuple[Answer, RecordingListener | None]:
    return (dialect_of(api).streamed(answer), RecordingListener()) if in_pieces else (answer, None)


async def test_b17_tools_are_offered_in_the_words_of_each_api(api: ProviderApi) -> None:
    """Row B17: tools are offered natively."""
    made(await api.ask(api.dialect.says(GOOD), context=context(tools=TOOLS)))
    (seen,) = api.seen
    published(api.name).validate_python(seen.body["tools"])
    offered = dialect_of(api).offered(seen)
    assert offered == [
        ("crm_lookup_2", "Look a customer up.", LOOKUP.parameters),
        ("pay", "Pay.", {"type": "object", **PAY.parameters}),
        ("crm_lookup", "An older one.", {"type": "object", "properties": {}}),
    ]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name, _, _ in offered)
    assert "Call them directly" in api.sent_turns(0)[0][1]


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_b17_parallel_calls_are_the_decision_that_the_json_form_gives(api: ProviderApi, in_pieces: bool) -> None:
    """Row B17: native calls, whole and in pieces, are read as the same decision."""
    why = "I must know who pays."
    called = dialect_of(api).calls_tools(("crm_lookup_2", ADA), ("pay", FIVE), ("crm_lookup", ""), text=why)
    calls = [
        {"tool_name": "crm.lookup", "tool_params": {"customer": "ada"}},
        {"tool_name": "pay", "tool_params": {"amount": 5}},
        {"tool_name": "crm_lookup", "tool_params": {}},
    ]
    written = {"action": "USE_TOOL", "action_reasoning": why, "action_details": {"calls": calls}}
    found = []
    for answer in (called, api.dialect.says(as_text(written))):
        comes, listener = as_it_comes(api, answer, in_pieces=in_pieces)
        fact = made(await api.ask(comes, listener=listener, context=context(tools=TOOLS)))
        found.append(decision_adapter.validate_python(fact.decision))
        assert len(api.seen) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_b17_one_call_is_the_decision_that_the_json_form_gives(api: ProviderApi, in_pieces: bool) -> None:
    """Row B17: also where the reason stands in an object of the JSON form beside the call."""
    answer = dialect_of(api).calls_tools(("crm_lookup", ADA), text=as_text({**RESPOND, "action_reasoning": "Why."}))
    comes, listener = as_it_comes(api, answer, in_pieces=in_pieces)
    fact = made(await api.ask(comes, listener=listener))
    assert decision_adapter.validate_python(fact.decision) == decision_adapter.validate_python(
        {**USE_TOOL, "action_reasoning": "Why."}
    )


@pytest.mark.parametrize("arguments", ['{"customer": "ad', '{"customer": ada}', "[1]", "NaN"])
async def test_arguments_that_are_no_json_object_are_asked_for_again(api: ProviderApi, arguments: str) -> None:
    dialect, listener = dialect_of(api), RecordingListener()
    bad = dialect.streamed(dialect.calls_tools(("pay", FIVE), ("crm_lookup", arguments)))
    good = dialect.streamed(dialect.calls_tools(("crm_lookup", ADA)))
    tools = context(tools=(LOOKUP, PAY))
    fact = made(await api.ask(bad, good, listener=listener, context=tools))
    assert fact.decision["action_details"]["tool_name"] == "crm.lookup"
    assert fact.usage.model_calls == 2
    repair = api.sent_turns(1)[-1][1]
    assert "the arguments of call 2, of crm.lookup, can't be read" in repair
    assert "None of its calls was made" in repair
    assert dialect.offered(api.seen[1]), "it may be called again"
    again = failed(await api.ask(bad, listener=listener, context=tools), "invalid_output")
    assert "of crm.lookup, can't be read" in again.message
    assert len(api.seen) == 2


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_calls_that_were_cut_off_at_the_limit_are_not_made(api: ProviderApi, in_pieces: bool) -> None:
    """What is left of an object may be an object: Claude's SDK would complete one."""
    finish = "max_tokens" if api.name == "anthropic" else "length"
    cut_off = dialect_of(api).calls_tools(("crm_lookup", "{}"), finish=finish)
    comes, listener = as_it_comes(api, cut_off, in_pieces=in_pieces)
    fact = made(await api.ask(comes, api.dialect.says(GOOD), listener=listener))
    assert fact.decision == RESPOND
    repair = api.sent_turns(1)[-1][1]
    assert "limit of output tokens" in repair and "may be incomplete" in repair


async def test_calls_of_a_stream_that_ends_early_are_not_made(api: ProviderApi) -> None:
    dialect, clock = dialect_of(api), Clock()
    cut_short = dialect.streamed(dialect.calls_tools(("crm_lookup", ""), ("crm_lookup", ADA)), without_end=True)
    outcome = await api.ask(
        cut_short, dialect.streamed(api.dialect.says(GOOD)), clock=clock, listener=RecordingListener()
    )
    assert made(outcome).decision == RESPOND
    assert clock.waited == [1.0]


async def test_calls_of_an_answer_that_is_a_refusal_are_not_made(api: ProviderApi) -> None:
    finish = "refusal" if api.name == "anthropic" else "content_filter"
    called = dialect_of(api).calls_tools(("crm_lookup", ADA), text="Look.", finish=finish)
    failed(await api.ask(called), "model_refused")
    assert len(api.seen) == 1


async def test_a_tool_that_was_not_offered_keeps_the_name_that_the_model_gave_it(api: ProviderApi) -> None:
    fact = made(await api.ask(dialect_of(api).calls_tools(("rm_rf", "{}"))))
    assert fact.decision["action_details"]["tool_name"] == "rm_rf"  # which the run refuses, as it does in the JSON form


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": DecisionKind.CONFIDENCE},
        {"context": context(run_kind="goal")},
        {"context": context(tools=())},
        {"context": context(tools=tuple(LOOKUP.model_copy(update={"name": f"t{n}"}) for n in range(MAX_OFFERED + 1)))},
    ],
)
async def test_where_a_native_call_could_not_say_all_the_json_form_is_asked_for(
    api: ProviderApi, changes: dict[str, Any]
) -> None:
    answer = '{"confidence": 0.7}' if "kind" in changes else GOOD
    made(await api.ask(api.dialect.says(answer), **changes))
    assert "tools" not in api.seen[0].body
    assert "directly" not in api.sent_turns(0)[0][1]


REFUSED = {
    "openai": "Unsupported parameter: 'tools' is not supported with this model.",
    "anthropic": "tools: Extra inputs are not permitted",
    "local": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
}


@pytest.mark.parametrize("name", NAMES)
async def test_b17_a_model_without_native_tools_is_asked_in_the_json_form_from_then_on(name: str) -> None:
    """Row B17: the JSON form is the fallback, within the same attempt."""
    lines, dialect, clock = LogCapture(), DIALECTS[name], Clock()
    everything = structlog.make_filtering_bound_logger(0)
    log = structlog.wrap_logger(structlog.testing.ReturnLogger(), processors=[lines], wrapper_class=everything)
    async with serve(dialect, log=log, tool_switches={name: True}) as api:
        outcome = await api.ask(dialect.fails(400, REFUSED[name]), dialect.says(as_text(USE_TOOL)), clock=clock)
        first = api.seen
        made(await api.ask(dialect.says(GOOD)))
        prompt = api.sent_turns(0)[0][1]
    assert made(outcome).decision == USE_TOOL
    assert ["tools" in one.body for one in (*first, *api.seen)] == [True, False, False]
    assert [line["option"] for line in lines.entries] == ["tools"]
    assert (clock.waited, "directly" in prompt) == ([], False)


SCHEMA_REFUSED = {
    "openai": "Invalid schema for function 'crm_lookup': In context=(), 'oneOf' is not permitted.",
    "anthropic": "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    "local": "Unable to generate parser for this template: tool schema is too deep",
}


@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_whose_schema_is_refused_is_asked_for_in_words_that_once(name: str) -> None:
    dialect = DIALECTS[name]
    async with serve(dialect, tool_switches={name: True}) as api:
        made(await api.ask(dialect.fails(400, SCHEMA_REFUSED[name]), dialect.says(GOOD)))
        first = api.seen
        made(await api.ask(dialect.says(GOOD)))
    assert ["tools" in one.body for one in (*first, *api.seen)] == [True, False, True]
    assert api.dialect.schema(first[1]) is not None or name == "anthropic"  # the form of the answer is still asked for


@pytest.mark.parametrize("name", NAMES)
async def test_b17_a_switch_of_a_model_wins_over_that_of_its_provider(name: str) -> None:
    """Row B17: a switch per model."""
    dialect = DIALECTS[name]
    async with serve(dialect, tool_switches={name: True, f"{name}:{dialect.model}": False}) as api:
        made(await api.ask(dialect.says(GOOD)))
        named = api.seen
        made(await api.ask(dialect.says(GOOD), model=f"{name}:another"))
    assert ["tools" in one.body for one in (*named, *api.seen)] == [False, True]


async def test_the_switches_of_the_page_about_models_do_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings_of(taken("docs/models.md: TOWPATH_NATIVE_TOOLS")).items():
        monkeypatch.setenv(name, value)
    switches = DeciderSettings().native_tools
    offered = {}
    for model in switches:
        name, _, one = model.partition(":")
        dialect = DIALECTS[name]
        async with serve(dialect, tool_switches=switches) as api:
            made(await api.ask(dialect.says(GOOD), model=f"{name}:{one or dialect.model}"))
            offered[model] = "tools" in api.seen[0].body
    assert offered == switches and {*switches.values()} == {True, False}
