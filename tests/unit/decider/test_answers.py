"""RegisterEntry what models write."""

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decider.decisions import RESPOND, USE_TOOL, as_text, check_decision

from towpath_decider.core import answers
from towpath_decider.core.answer_checks import schema_check
from towpath_decider.core.answers import AcceptedAnswer, RefusedAnswer, find_object, read_answer


@pytest.mark.parametrize(
    "text",
    [
        as_text(RESPOND),
        f"```json\n{as_text(RESPOND)}\n```",
        f"```\n{as_text(RESPOND)}```",
        f"Here you are:\n```JSON\r\n{as_text(RESPOND)}\n```\nAnything else?",
        f"I think {{maybe}} this: {as_text(RESPOND)} and that is all.",
        f"\ufeff  {as_text(RESPOND)}\n\n",
    ],
)
def test_an_object_is_found_in_fences_and_prose(text: str) -> None:
    assert find_object(text) == AcceptedAnswer(value=RESPOND)


def test_braces_and_quotes_inside_strings_do_not_end_the_object() -> None:
    text = 'so: {"a": "} \\" {", "b": {"c": "\\\\"}} done }'
    assert find_object(text) == AcceptedAnswer(value={"a": '} " {', "b": {"c": "\\"}})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("I am not sure.", "not JSON"),
        ("[1]", "a JSON object is wanted, not list"),
        ('{"action": "RESPOND"', "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": 1e999}', "a number is too large"),
        ('{"a": -1e999}', "a number is too large"),
        ('{"a":' + "[" * 48 + "]" * 48 + "}", "more than 48 levels"),
        ('{"a":' * 49 + "1" + "}" * 49, "more than 48 levels"),
        ("```json\n" + '{"a":' * 49 + "1" + "}" * 49 + "\n```", "not JSON"),
        ("so: " + '{"a":' * 49 + "1" + "}" * 49, "not JSON"),
        ('{"a": "\\u0000"}', "U\\+0000"),
        ('{"\\u0000": 1}', "U\\+0000"),
        ('{"a": "\\ud800"}', "not JSON"),
        ('{"a": "\ud800"}', "surrogate"),
        ('{"a":' + "[" * 500 + "]" * 500 + "}", "recursion"),
        ("{" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_usable_object_is_refused_with_a_reason(text: str, reason: str) -> None:
    found = find_object(text)
    assert isinstance(found, RefusedAnswer)
    assert re.search(reason, found.reason)


def test_an_answer_may_be_as_deep_as_values_may() -> None:
    assert isinstance(find_object('{"a":' * 48 + "1" + "}" * 48), AcceptedAnswer)


@given(st.text(alphabet=st.sampled_from('{}"\\`\n abc:1,[]')) | st.text())
def test_reading_never_raises(text: str) -> None:
    assert isinstance(read_answer(text, check_decision), AcceptedAnswer | RefusedAnswer)


@pytest.mark.parametrize("decision", [USE_TOOL, RESPOND])
def test_a_decision_is_accepted_as_it_was_written(decision: dict[str, object]) -> None:
    assert read_answer(as_text(decision), check_decision) == AcceptedAnswer(value=decision)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": "DANCE"}, "answer: no action is called 'DANCE'; there are USE_TOOL, "),
        ({"action": "USETOOL"}, "answer: no action is called 'USETOOL'; did you mean USE_TOOL? There are USE_TOOL"),
        ({"action": "X" * 99}, f"answer: no action is called '{'X' * 64}'; "),
        ({"surprise": 1}, "surprise: there is no such field"),
        ({"action_details": {}}, "payload is missing"),
        ({"action_details": {"payload": 7}}, "payload: Input should be a valid dictionary"),
        ({"action_details": {"payload": {}, "more": 1}}, "more: there is no such field"),
    ],
)
def test_unknown_actions_and_fields_are_refused(change: dict[str, object], reason: str) -> None:
    read = read_answer(as_text({**RESPOND, **change}), check_decision)
    assert isinstance(read, RefusedAnswer)
    assert reason in read.reason


@pytest.mark.parametrize(
    ("details", "field", "own"),
    [
        ({"tool": "crm.lookup"}, "tool", "tool_name"),
        ({"tool_name": "crm.lookup", "args": {}}, "args", "tool_params"),
        ({"calls": [{"tool_name": "crm.lookup", "arguments": {}}]}, "calls.0.arguments", "tool_params"),
        ({"tool_requests": []}, "tool_requests", "calls"),
    ],
)
def test_the_fields_of_a_call_are_told_where_others_name_them(details: dict[str, object], field: str, own: str) -> None:
    said = check_decision({**USE_TOOL, "action_details": details})
    assert f"{field}: there is no such field; here it is {own}" in said
    other = check_decision({**USE_TOOL, "action_details": {"tool_name": "crm.lookup", "surprise": 1}})
    assert other == "USE_TOOL.action_details.surprise: there is no such field"


def test_a_string_payload_is_a_decision() -> None:
    assert check_decision({**RESPOND, "action_details": {"payload": "hello"}}) == ""


def test_other_answers_are_held_against_their_schema() -> None:
    check = schema_check(
        {"type": "object", "properties": {"confidence": {"type": "number"}}, "required": ["confidence"]}
    )
    assert not isinstance(check, RefusedAnswer)
    assert check({"confidence": 0.5}) == ""
    assert "is not of type 'number'" in check({"confidence": "high"})


def test_a_schema_that_is_none_is_refused() -> None:
    assert isinstance(schema_check({"type": 7}), RefusedAnswer)


def test_a_schema_never_leads_outside() -> None:
    check = schema_check({"$ref": "http://127.0.0.1:9/schema.json"})
    assert not isinstance(check, RefusedAnswer)
    assert "which is not part of it" in check({})


@pytest.mark.parametrize("text", ["{" * 300_000, '{"' * 200_000, '{"a":' * 100_000])
def test_of_a_text_of_braces_so_many_are_looked_at_and_no_more(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signs, looked_at = answers._SIGN, [0]

    def finditer(text: str, start: int) -> Iterator[re.Match[str]]:
        for match in signs.finditer(text, start):
            looked_at[0] += 1
            yield match

    monkeypatch.setattr(answers, "_SIGN", SimpleNamespace(finditer=finditer))
    assert isinstance(find_object(text), RefusedAnswer)
    assert looked_at[0] <= answers.MAX_SIGNS


def test_an_object_is_looked_for_behind_fifteen_other_braces_and_no_more() -> None:
    assert isinstance(find_object("{x} " * 15 + '{"a": 1}'), AcceptedAnswer)
    assert isinstance(find_object("{x} " * 16 + '{"a": 1}'), RefusedAnswer)


def test_an_object_with_so_many_signs_is_found_in_prose_and_no_larger_one() -> None:
    """It opens, closes, and each empty text in its list has two quotes."""
    for texts, found in ((49_998, True), (49_999, False)):
        said = 'Here: {"a":[' + ",".join(['""'] * texts) + "]}"
        assert isinstance(find_object(said), AcceptedAnswer) is found
