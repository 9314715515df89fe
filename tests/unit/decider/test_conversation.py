"""The order of attempts, without a model and without a clock."""

from collections.abc import Sequence

import pytest
from tests.support.decider.decisions import RESPOND, as_text, check_decision, context

from towpath_contracts.decisions.request import Cost, PlayedScriptEntry, Usage
from towpath_decider.core.conversation import (
    MAX_WAIT_S,
    Answered,
    AskModel,
    GaveUp,
    ModelCallFailure,
    ModelQuestion,
    ModelReply,
    converse,
)
from towpath_decider.core.prompt import render
from towpath_decider.core.usage import NOTHING, add_costs, add_usage

GOOD = ModelReply(text=as_text(RESPOND), usage=Usage(model_calls=1), cost=NOTHING)
BAD = ModelReply(text="no idea", usage=Usage(model_calls=1), cost=NOTHING)
LATER = ModelCallFailure(code="model_unavailable", message="503", retryable=True)
NEVER = ModelCallFailure(code="context_too_long", message="too long")


def play(*replies: ModelReply | ModelCallFailure) -> tuple[list[ModelQuestion], list[float], Answered | GaveUp]:
    """Answer in order; return what was asked, how long was waited, and the result."""
    return _play(list(replies))


def _play(
    replies: Sequence[ModelReply | ModelCallFailure],
) -> tuple[list[ModelQuestion], list[float], Answered | GaveUp]:
    dialogue = converse(render(context()), check_decision)
    asked: list[ModelQuestion] = []
    waits: list[float] = []
    answers = iter(replies)
    step = next(dialogue)
    while True:
        try:
            if isinstance(step, AskModel):
                asked.append(step.question)
                step = dialogue.send(next(answers))
            else:
                waits.append(step.seconds)
                step = dialogue.send(None)
        except StopIteration as over:
            assert next(answers, None) is None, "every prepared answer was asked for"
            return asked, waits, over.value


def test_a_good_answer_is_asked_for_once() -> None:
    asked, waits, result = play(GOOD)
    assert (len(asked), waits, result) == (1, [], Answered(value=RESPOND))


@pytest.mark.parametrize("hostile", ['{"a":' * 60 + "1" + "}" * 60, '{"a":' * 300 + "1" + "}" * 300, "NaN", "1e999"])
def test_what_others_can_not_read_is_fed_back_and_then_given_up(hostile: str) -> None:
    text = as_text({**RESPOND, "action_details": {"payload": {"deep": "HERE"}}}).replace('"HERE"', hostile)
    reply = ModelReply(text=text, usage=Usage(model_calls=1), cost=NOTHING)
    asked, _, result = play(reply, reply)
    assert len(asked) == 2
    assert isinstance(result, GaveUp)
    assert result.code == "invalid_output"
    assert isinstance(play(reply, GOOD)[2], Answered)


def test_a_malformed_answer_is_repaired_once() -> None:
    asked, waits, result = play(BAD, GOOD)
    assert result == Answered(value=RESPOND)
    assert waits == []
    assert [turn.role for turn in asked[1].turns] == ["user", "model", "user"]
    assert asked[1].turns[1].text == "no idea"
    assert "not JSON" in asked[1].turns[2].text
    assert "only the raw JSON object" in asked[1].turns[2].text


def test_a_second_malformed_answer_is_invalid_output() -> None:
    _, _, result = play(BAD, BAD)
    assert isinstance(result, GaveUp)
    assert result.code == "invalid_output"
    assert "no idea" in result.message


def test_of_a_script_that_can_t_be_used_it_is_said_what_is_wrong_and_no_model_is_said_to_have_written_it() -> None:
    played = PlayedScriptEntry(queue="*", index=0)
    entry = ModelReply(text='{"action": "USETOOL"}', usage=Usage(), cost=NOTHING, script=played)
    _, _, result = play(entry, entry)
    assert isinstance(result, GaveUp)
    assert result.message.startswith("no action is called 'USETOOL'; did you mean USE_TOOL? There are ")
    assert "model" not in result.message and "repair" not in result.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"acton": "RESPOND", "action_details": {"payload": {}}}',
            "action is missing; did you mean action by 'acton'?",
        ),
        ('{"action_details": {"payload": {}}}', "action is missing"),
    ],
)
def test_a_decision_without_its_action_is_told_in_words_for_people(text: str, said: str) -> None:
    entry = ModelReply(text=text, usage=Usage(), cost=NOTHING, script=PlayedScriptEntry(queue="*", index=0))
    _, _, result = play(entry, entry)
    assert isinstance(result, GaveUp)
    assert result.message == said
    asked, _, _ = play(ModelReply(text=text, usage=Usage(model_calls=1), cost=NOTHING), GOOD)
    assert f"answer: {said}" in asked[1].turns[2].text


def test_an_empty_answer_is_named_in_words_for_the_model() -> None:
    asked, _, _ = play(ModelReply(text="", usage=Usage(), cost=NOTHING), GOOD)
    assert asked[1].turns[1].text == "(nothing)"


def test_a_cut_off_answer_is_repaired_with_the_reason() -> None:
    asked, _, _ = play(ModelReply(text='{"action', usage=Usage(), cost=NOTHING, cut_off=True), GOOD)
    assert "limit of output tokens" in asked[1].turns[2].text


def test_failures_are_waited_out_one_and_two_seconds() -> None:
    asked, waits, result = play(LATER, LATER, GOOD)
    assert (len(asked), waits, result) == (3, [1.0, 2.0], Answered(value=RESPOND))


def test_the_third_failure_is_the_result_and_names_all_causes() -> None:
    asked, waits, result = play(
        LATER, ModelCallFailure(code="model_rate_limited", message="429", retryable=True), LATER
    )
    assert len(asked) == 3
    assert waits == [1.0, 2.0]
    assert result == GaveUp(code="model_unavailable", message="503 (attempt 3; before: 503; 429)")


def test_what_can_not_succeed_is_not_asked_again() -> None:
    asked, waits, result = play(NEVER)
    assert (len(asked), waits, result) == (1, [], GaveUp(code="context_too_long", message="too long"))


def limited(wished: float, code: str = "model_rate_limited") -> ModelCallFailure:
    return ModelCallFailure(code=code, message="429", retryable=True, retry_after_s=wished)


@pytest.mark.parametrize(("wished", "waited"), [(0.5, 1.0), (4.0, 4.0), (MAX_WAIT_S, MAX_WAIT_S)])
def test_retry_after_is_waited_for_where_it_is_short(wished: float, waited: float) -> None:
    _, waits, _ = play(limited(wished), GOOD)
    assert waits == [waited]


@pytest.mark.parametrize("code", ["model_rate_limited", "model_unavailable"])
def test_a_longer_wait_is_left_to_the_run(code: str) -> None:
    asked, waits, result = play(limited(MAX_WAIT_S + 1, code))
    assert (len(asked), waits) == (1, [])
    assert result == GaveUp(code=code, message="429", retry_after_s=MAX_WAIT_S + 1)


def test_no_attempt_waits_longer_than_its_share_in_all() -> None:
    asked, waits, result = play(limited(6.0), limited(6.0))
    assert (len(asked), waits) == (2, [6.0])
    assert isinstance(result, GaveUp)
    assert result.retry_after_s == 6.0


def test_a_limit_that_lasts_is_waited_out_by_the_run_and_an_outage_is_not() -> None:
    for failure, later in ((limited(0.5), 0.5), (limited(0.5, "model_unavailable"), None), (LATER, None)):
        asked, waits, result = play(failure, failure, failure)
        assert (len(asked), waits) == (3, [1.0, 2.0])
        assert isinstance(result, GaveUp)
        assert result.retry_after_s == later


def test_failures_during_repair_count_with_those_before() -> None:
    asked, waits, result = play(LATER, BAD, LATER, LATER)
    assert (len(asked), waits) == (4, [1.0, 2.0])
    assert isinstance(result, GaveUp)
    assert result.code == "model_unavailable"


def test_usage_and_cost_are_summed_and_an_unknown_price_stays_unknown() -> None:
    one = Usage(input_tokens=1, output_tokens=2, total_tokens=3, model_calls=1)
    assert add_usage([one, one]) == Usage(input_tokens=2, output_tokens=4, total_tokens=6, model_calls=2)
    known, unknown = Cost(usd=0.5, price_known=True), Cost(price_source="list")
    assert add_costs([known, known]).usd == 1.0
    assert add_costs([known, unknown, known]) == Cost(usd=None, price_known=False)
    assert add_costs([]) == NOTHING
