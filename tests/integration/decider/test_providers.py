"""One suite for every provider: the real SDKs over real HTTP, against local servers that speak their APIs.

Rows B2, B4, B5 and B13 of the features, exactly the same for each of them.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import structlog
from structlog.testing import LogCapture
from tests.support.decider.asked_models import GOOD, Clock, ProviderApi, RecordingListener, failed, made, serve
from tests.support.decider.decisions import RESPOND, as_text, context
from tests.support.decider.gemini_server import Answer, gemini
from tests.support.decider.model_servers import DIALECTS, INPUT_TOKENS, KEY, OUTPUT_TOKENS, OpenAi

from towpath_contracts.decisions.decision import UseTool, decision_adapter
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.facts import DecisionFailedFact
from towpath_decider.app.decision_service import DecisionMaker, log_calls
from towpath_decider.core.prompt import render

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["ship", "hold"]}, "score": {"type": "integer"}},
    "required": ["verdict", "score"],
}


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=sorted(DIALECTS))
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ProviderApi]:
    """Every provider in turn."""
    async with serve(DIALECTS[request.param]) as served:
        yield served


async def test_b2_the_provider_is_taken_from_the_model_string(api: ProviderApi) -> None:
    """Row B2: provider from the model string `provider:model`."""
    others = {name: one.provider("http://127.0.0.1:9") for name, one in DIALECTS.items() if name != api.name}
    api.server.play(api.dialect.says(GOOD))
    outcome = await DecisionMaker({**others, api.name: api.provider}).answer(api.request())
    assert made(outcome).model == f"{api.name}:{api.dialect.model}"
    (seen,) = api.seen
    assert api.dialect.key(seen) == KEY
    assert api.dialect.model in (seen.body.get("model"), seen.path.rpartition("/")[2].partition(":")[0])


async def test_what_a_provider_says_of_its_answer_is_kept_whole_and_streamed(api: ProviderApi) -> None:
    whole = api.dialect.says(GOOD)
    for answer, listener in ((whole, None), (api.dialect.streamed(whole), RecordingListener())):
        outcome = await api.ask(answer, listener=listener)
        said = outcome.progress.calls[-1].reply.response
        assert (said.model, said.finish_reason) == (api.dialect.model, "stop")
        assert said.response_id == whole.body.get("id", whole.body.get("responseId"))
    cut_off = await api.ask(api.dialect.says("{", cut_off=True))
    assert cut_off.progress.calls[0].reply.response.finish_reason == "length"
    refused = await api.ask(api.dialect.refuses())
    assert refused.progress.calls[0].reply.response.model == api.dialect.model


async def test_b4_messages_are_system_then_history_then_user(api: ProviderApi) -> None:
    """Row B4: message order [system, …history, user]; usage merged; history contains the current turn."""
    outcome = await api.ask(api.dialect.says("I would respond."), api.dialect.says(GOOD))
    prompt = render(context())
    first, second = api.sent_turns(0), api.sent_turns(1)
    assert first == [("system", prompt.instructions), ("user", prompt.context)]
    assert [role for role, _ in second] == ["system", "user", "assistant", "user"]
    assert second[:3] == [*first, ("assistant", "I would respond.")]
    assert "only the raw JSON object" in second[3][1]
    usage = made(outcome).usage
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS, 2)
    assert usage.total_tokens == 2 * (INPUT_TOKENS + OUTPUT_TOKENS)


async def test_b5_an_answer_is_held_against_the_agents_schema_and_repaired(api: ProviderApi) -> None:
    """Row B5: structured output validated against a schema, with repair."""
    wrong = as_text({**RESPOND, "action_details": {"payload": {"verdict": "maybe"}}})
    right = {**RESPOND, "action_details": {"payload": {"verdict": "ship", "score": 7}}}
    only_respond = context(respond_schema=VERDICT, tools=(), routes=())
    outcome = await api.ask(api.dialect.says(wrong), api.dialect.says(as_text(right)), context=only_respond)
    assert made(outcome).decision == right
    schema = api.dialect.schema(api.seen[0])
    assert schema is not None
    details = schema["properties"]["action_details"]["anyOf"]
    assert details[0]["properties"]["payload"]["properties"]["verdict"]["enum"] == ["ship", "hold"]
    repair = api.sent_turns(1)[-1][1]
    assert "'maybe' is not one of" in repair
    assert "'score' is missing" in repair
    twice = await api.ask(api.dialect.says(wrong), context=only_respond)
    assert "'score' is missing" in failed(twice, "invalid_output").message


async def test_b13_two_failures_then_success_wait_one_and_two_seconds(api: ProviderApi) -> None:
    """Row B13: 3 attempts in total, waits 1 s then 2 s."""
    clock = Clock()
    outcome = await api.ask(api.dialect.fails(500), api.dialect.fails(429), api.dialect.says(GOOD), clock=clock)
    assert made(outcome).decision == RESPOND
    assert clock.waited == [1.0, 2.0]
    assert len(api.seen) == 3
    assert made(outcome).usage.model_calls == 3


async def test_b13_always_failing_is_three_calls_with_the_causes_chained(api: ProviderApi) -> None:
    """Row B13: 3 attempts in total, cause chained."""
    clock, fails = Clock(), api.dialect.fails
    outcome = await api.ask(fails(500, "first"), fails(503, "second"), fails(529, "third"), clock=clock)
    message = failed(outcome, "model_unavailable").message
    places = [message.index(cause) for cause in ("529: third", "500: first", "503: second")]
    assert places == sorted(places)
    assert clock.waited == [1.0, 2.0]
    assert len(api.seen) == 3


async def test_b13_a_context_that_is_too_long_is_one_call(api: ProviderApi) -> None:
    """Row B13: context-length at once."""
    clock = Clock()
    outcome = await api.ask(api.dialect.fails(*api.dialect.too_long), clock=clock)
    failed(outcome, "context_too_long")
    assert (len(api.seen), clock.waited) == (1, [])


async def test_b13_a_cancelled_request_is_one_call(api: ProviderApi) -> None:
    """Row B13: never retried after cancellation."""
    clock = Clock()
    answer = Answer(body=api.dialect.says(GOOD).body, delay_s=60)
    api.server.arrived.clear()
    task = asyncio.create_task(api.ask(answer, clock=clock))
    assert await asyncio.to_thread(api.server.arrived.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(api.seen), clock.waited) == (1, [])


async def test_a_decision_is_had_with_its_schema_and_without_thinking(api: ProviderApi) -> None:
    closed = context(allow_respond=False)
    fence = api.dialect.says(f"```json\n{GOOD}\n```")
    outcome = await api.ask(fence, context=closed, max_output_tokens=777)
    assert made(outcome).decision == RESPOND
    (seen,) = api.seen
    schema = api.dialect.schema(seen)
    assert schema is not None
    assert schema["properties"]["action"]["enum"] == ["USE_TOOL", "ROUTE_TO_AGENT"]
    assert not api.dialect.thinks(seen)
    assert api.dialect.limit(seen) == 777


async def test_usage_and_cost_are_in_the_fact_and_an_unknown_price_is_none(api: ProviderApi) -> None:
    fact = made(await api.ask(api.dialect.says(GOOD)))
    assert (fact.usage.input_tokens, fact.usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert fact.cost.usd == pytest.approx(api.dialect.usd)
    assert fact.cost.price_known
    unknown = await api.ask(api.dialect.says(GOOD), model=f"{api.name}:of-tomorrow")
    if api.name == "local":
        assert unknown.fact.cost == fact.cost
    else:
        assert (unknown.fact.cost.usd, unknown.fact.cost.price_known) == (None, False)


async def test_an_answer_cut_off_at_its_limit_is_repaired(api: ProviderApi) -> None:
    made(await api.ask(api.dialect.says('{"action": "RESP', cut_off=True), api.dialect.says(GOOD)))
    assert "limit of output tokens" in api.sent_turns(1)[-1][1]


async def test_a_refusal_is_reported_with_its_reason_and_not_asked_again(api: ProviderApi) -> None:
    fact = failed(await api.ask(api.dialect.refuses()), "model_refused")
    assert "SAFETY" in fact.message
    assert fact.usage.input_tokens == INPUT_TOKENS
    assert len(api.seen) == 1


async def test_a_wrong_key_is_not_tried_again_and_never_repeated(api: ProviderApi) -> None:
    outcome = await api.ask(api.dialect.fails(401, f"key {KEY} is not valid"), debug=True)
    assert KEY not in failed(outcome, "model_unauthorized").model_dump_json()
    assert all(KEY not in call.model_dump_json() for call in log_calls(outcome))
    assert len(api.seen) == 1


async def test_without_a_key_nothing_is_asked_but_a_local_server(api: ProviderApi) -> None:
    async with serve(api.dialect, key=None) as keyless:
        outcome = await keyless.ask(api.dialect.says(GOOD))
    if api.name == "local":
        made(outcome)
    else:
        assert f"{api.name.upper()}_API_KEY" in failed(outcome, "model_unauthorized").message
        assert keyless.seen == []


async def test_a_wait_that_the_api_asks_for_is_kept(api: ProviderApi) -> None:
    clock = Clock()
    made(await api.ask(api.dialect.fails(429, **{"retry-after": "5"}), api.dialect.says(GOOD), clock=clock))
    assert clock.waited == [5.0]


async def test_what_is_no_answer_of_the_api_is_tried_again(api: ProviderApi) -> None:
    bad = (Answer(body=b"<html>oops</html>"), Answer(body=b'{"candidates": 7, "choices": 7, "content": 7}'))
    for answers in (bad, (Answer(body=b""), Answer(body=api.dialect.says(GOOD).body, cut=True))):
        made(await api.ask(*answers, api.dialect.says(GOOD)))
        assert len(api.seen) == 3


async def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(api: ProviderApi) -> None:
    with gemini(api.dialect.says(GOOD)) as elsewhere:
        away = Answer(status=307, body={}, headers={"location": f"{elsewhere.url}/v1/stolen"})
        assert isinstance((await api.ask(away)).fact, DecisionFailedFact)
        assert elsewhere.seen == []


@pytest.mark.parametrize("option", ["schema_refused", "thinking_refused"])
async def test_an_option_that_the_server_does_not_know_is_left_out_and_named_once(
    api: ProviderApi, option: str
) -> None:
    lines, dialect, clock = LogCapture(), api.dialect, Clock()
    everything = structlog.make_filtering_bound_logger(0)  # whatever this process was told to leave out elsewhere
    log = structlog.wrap_logger(structlog.testing.ReturnLogger(), processors=[lines], wrapper_class=everything)
    closed = context(allow_respond=False)
    async with serve(dialect, log=log) as served:
        made(
            await served.ask(
                dialect.fails(400, getattr(dialect, option)), dialect.says(GOOD), clock=clock, context=closed
            )
        )
        first = served.seen
        made(await served.ask(dialect.says(GOOD), context=closed))
    asks_schema = option == "schema_refused"
    sent = [
        dialect.schema(one) is not None if asks_schema else not dialect.thinks(one) for one in (*first, *served.seen)
    ]
    lasting = not (api.name == "gemini" and asks_schema)  # its schemas are refused one by one
    assert sent == [True, False, not lasting]
    assert [line["model"] for line in lines.entries] == [dialect.model] * lasting
    assert clock.waited == []


async def test_any_other_bad_request_is_not_tried_again(api: ProviderApi) -> None:
    failed(await api.ask(api.dialect.fails(400, "Invalid value at contents")), "model_refused_request")
    assert len(api.seen) == 1


async def test_assessments_are_asked_with_their_own_schema_and_held_against_it(api: ProviderApi) -> None:
    unsure = (api.dialect.says('{"confidence": "high"}'), api.dialect.says('{"confidence": 0.7}'))
    assert made(await api.ask(*unsure, kind=DecisionKind.CONFIDENCE)).decision == {"confidence": 0.7}
    schema = api.dialect.schema(api.seen[0])
    assert schema is not None
    assert sorted(schema["properties"]) == ["confidence", "reason"]
    assert "say how sure you are" in api.sent_turns(0)[0][1]


@pytest.mark.parametrize("name", ["openai", "local"])
async def test_a_server_without_response_formats_is_asked_in_words_from_then_on(name: str) -> None:
    dialect = DIALECTS[name]
    refusal = dialect.fails(400, "unknown field: response_format")
    async with serve(dialect) as api:
        made(await api.ask(refusal, refusal, dialect.says(GOOD)))
        first = api.seen
        made(await api.ask(dialect.says(GOOD)))
    formats = [one.body.get("response_format", {}).get("type") for one in (*first, *api.seen)]
    assert formats == ["json_schema", "json_object", None, None]


@pytest.mark.parametrize("name", ["openai", "local"])
async def test_the_word_for_the_limit_is_changed_where_a_server_knows_the_other(name: str) -> None:
    dialect = DIALECTS[name]
    unknown = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    async with serve(dialect) as api:
        made(await api.ask(dialect.fails(400, unknown), dialect.says(GOOD)))
    words = [{"max_tokens", "max_completion_tokens"} & set(one.body) for one in api.seen]
    assert words[0] | words[1] == {"max_tokens", "max_completion_tokens"}
    assert [len(word) for word in words] == [1, 1]


async def test_a_limit_that_does_not_fit_beside_the_prompt_is_left_out_for_that_question() -> None:
    dialect = DIALECTS["local"]
    refusal = dialect.fails(
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 "
        "tokens and your request has 900 input tokens.",
    )
    async with serve(dialect) as api:
        made(await api.ask(refusal, dialect.says(GOOD)))
        first = api.seen
        made(await api.ask(dialect.says(GOOD)))
    assert ["max_tokens" in one.body for one in (*first, *api.seen)] == [True, False, True]


async def test_b5_native_tool_calls_are_read_as_the_decision_they_mean() -> None:
    """Row B5: tool arguments decoded (empty → {}), also where a server makes tool calls of the answer by itself."""
    dialect = DIALECTS["local"]
    assert isinstance(dialect, OpenAi)
    async with serve(dialect) as api:
        fact = made(await api.ask(dialect.calls_tools(("crm.lookup", '{"customer": "ada"}'), ("crm.lookup", ""))))
        decision = decision_adapter.validate_python(fact.decision)
        assert isinstance(decision, UseTool)
        first, second = decision.action_details.proposals()
        assert (first.tool_params, second.tool_params) == ({"customer": "ada"}, {})
        thought = made(await api.ask(dialect.says(f"<think>Maybe {{}}?</think>\n{GOOD}")))
        assert (thought.decision, len(api.seen)) == (RESPOND, 1)
        assert api.seen[0].body["chat_template_kwargs"] == {"enable_thinking": False}
