"""What is said of an input that is wrong: unknown fields with what was meant, and of very many faults a hundred."""

import time
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ValidationError

from towpath.project.project_file import ProjectFile
from towpath_contracts.decisions.decision import UseToolDetails
from towpath_contracts.files.policy_document import RULE_KEYS
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_contracts.problems.foreign_fields import MEANT
from towpath_contracts.problems.given_values import MAX_SHOWN, in_words_of_a_file, value_at
from towpath_contracts.problems.input_faults import (
    MAX_BUILT,
    MAX_LISTED,
    MAX_PART_CHARS,
    describe_validation_error,
    details_of,
    entry_message,
    faults_of_sample,
    in_plain_words,
    list_faults,
    located_message,
)
from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask


def refused(value: dict[str, object]) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        SubmitTask.model_validate(value)
    return caught.value


def fields(count: int) -> dict[str, object]:
    return {"network": "n", "user_message": "go", **{f"a{place}": 0 for place in range(count)}}


def test_a_hundred_faults_are_listed_and_the_others_counted() -> None:
    found = list_faults(refused(fields(1_500)))
    assert (len(found.details), found.total) == (MAX_LISTED, 1_500)
    assert found.summary == "1500 problems, 1400 of them not listed"


def test_few_faults_are_all_listed() -> None:
    assert list_faults(refused(fields(3))).summary == "3 problems"


def test_a_sample_stands_for_faults_that_pydantic_is_not_asked_for() -> None:
    """The error can be asked once for how many there are, and not for what they are."""
    wrong = fields(MAX_BUILT + 1)
    error = refused(wrong)
    found = list_faults(error, faults_of_sample(SubmitTask, wrong))
    assert found.total == MAX_BUILT + 1 and 0 < len(found.details) <= MAX_LISTED
    assert {one.code for one in found.details} == {"extra_forbidden"}
    assert list_faults(error).details == ()


def test_a_sample_says_nothing_of_what_it_left_out() -> None:
    """Nothing is called missing that stands behind the fields that were looked at."""
    wrong: dict[str, object] = {f"a{place}": 0 for place in range(MAX_BUILT + 1)} | {
        "network": "n",
        "user_message": "x",
    }
    found = list_faults(refused(wrong), faults_of_sample(SubmitTask, wrong))
    assert {one.code for one in found.details} == {"extra_forbidden"}


def test_a_long_name_is_cut_in_its_pointer() -> None:
    (detail,) = details_of(refused({"network": "n", "user_message": "go", "x" * 5_000: 0}))
    assert len(detail.pointer) == MAX_PART_CHARS + 1


def test_an_unreadable_message_that_is_wrong_everywhere_is_described_by_a_number() -> None:
    assert describe_validation_error(refused(fields(MAX_BUILT + 7))) == f"{MAX_BUILT + 7} problems"


def test_of_many_unknown_fields_the_first_are_told_with_the_one_that_was_meant() -> None:
    written = {"network": "n", "user_message": "u"} | {f"max_step{number}": 1 for number in range(SUGGESTED + 3)}
    with pytest.raises(ValidationError) as caught:
        SubmitTask.model_validate(written)
    told = [one.detail for one in list_faults(caught.value, kind=SubmitTask).details]
    assert [one.endswith("did you mean 'max_steps'?") for one in told] == [True] * SUGGESTED + [False] * 3


@pytest.mark.parametrize(
    ("place", "word", "told"),
    [
        ("agent", "tools", "there is no field 'tools'; here it is 'equipped_tools'"),
        ("agent", "routes", "there is no field 'routes'; here it is 'allowed_routes'"),
        ("agent", "prompts", "there is no field 'prompts'; here it is 'prompt_template'"),
        ("agent", "name", "there is no field 'name'; here it is 'key'"),
        ("agent", "temperature", "there is no field 'temperature' here; it belongs inside 'model_settings'"),
        ("network", "model_name", "there is no field 'model_name'; here it is 'model'"),
        ("network", "max_turns", "there is no field 'max_turns'; here it is 'max_steps'"),
        ("network", "tools", "no field 'tools' here; it belongs inside an entry of 'agents', as 'equipped_tools'"),
        (
            "network",
            "default",
            "there is no field 'default' here; it belongs inside an entry of 'agents', as `is_default: true`",
        ),
        ("task", "prompt", "there is no field 'prompt'; here it is 'user_message'"),
        ("agent", "promt", "there is no field 'promt'; did you mean 'prompt_template'?"),
        ("task", "max_stepz", "there is no field 'max_stepz'; did you mean 'max_steps'?"),
    ],
)
def test_a_field_of_another_framework_is_named_with_what_it_is_here(place: str, word: str, told: str) -> None:
    written: Any = {"name": "n", "agents": [{"key": "a"}]}
    (written if place == "network" else written["agents"][0])[word] = "x"
    task = {"network": "n", "user_message": "u", word: "x"}
    kind: type[BaseModel] = SubmitTask if place == "task" else NetworkSpec
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(task if place == "task" else written)
    (found,) = list_faults(caught.value, kind=kind).details
    assert found.detail.endswith(told)


def test_an_unknown_field_is_named_where_nothing_is_known_of_its_neighbours() -> None:
    assert [one.detail for one in details_of(refused(fields(1)))] == ["there is no field 'a0'"]


def test_what_words_of_other_frameworks_stand_for_are_fields() -> None:
    known = {
        field
        for one in (AgentSpec, NetworkSpec, SubmitTask, ModelSettings, UseToolDetails, ProjectFile)
        for field in one.model_fields
    }
    assert set(MEANT) <= known | set(RULE_KEYS)


def test_a_misspelt_field_is_not_told_as_a_missing_one_too() -> None:
    for kind in (SubmitTask, None):
        (found,) = details_of(refused({"netwrok": "n", "user_message": "u"}), kind)
        assert (found.pointer, found.detail) == ("/netwrok", "there is no field 'netwrok'; did you mean 'network'?")
    written = {"name": "n", "agents": [{"name": "a"}, {"nothing": 1}]}
    with pytest.raises(ValidationError) as caught:
        NetworkSpec.model_validate(written)
    told = [(one.pointer, one.code) for one in details_of(caught.value, NetworkSpec)]
    assert told[0] == ("/agents/0/name", "extra_forbidden")
    assert {one for one in told if one[1] == "missing"} == {("/agents/1/key", "missing")}, "it was not meant there"


def test_each_of_many_misspelt_fields_is_one_problem() -> None:
    """Of the first few all fields are compared; of the others those that are missing where they stand."""
    words = ("name", "kye", "id", "agent", "keyy", "kez", "role", "name", "kkey", "key_")
    written = {"name": "n", "agents": [{word: "a"} for word in words] + [{"role": "a", "name": "b", "promt": "c"}]}
    with pytest.raises(ValidationError) as caught:
        NetworkSpec.model_validate(written)
    told = details_of(caught.value, NetworkSpec)
    assert [one.pointer for one in told if one.code == "missing"] == []
    assert [one.pointer for one in told[: len(words)]] == [f"/agents/{at}/{word}" for at, word in enumerate(words)]
    assert all(one.detail.endswith(("here it is 'key'", "did you mean 'key'?")) for one in told[: len(words)])
    assert {one.pointer: one.detail for one in told[len(words) :]} == {
        "/agents/10/role": "there is no field 'role'; here it is 'key'",
        "/agents/10/name": "there is no field 'name'",
        "/agents/10/promt": "there is no field 'promt'",
    }


def test_a_missing_field_is_named_by_whoever_says_it() -> None:
    error = refused({"user_message": "u"})
    (entry,) = error.errors(include_url=False)
    assert entry_message(entry) == details_of(error)[0].detail == "'network' is missing: add it"
    assert located_message(entry, "task") == "network is missing"
    unknown = refused(fields(1)).errors()[0]
    assert located_message(unknown, "task") == "a0: there is no such field"
    assert located_message({"loc": (), "type": "model_type", "msg": "no"}, "task") == "task: no"


WRITTEN: dict[str, Any] = {
    "max_steps": "many",
    "agents": [
        {"key": "a", "is_default": "ture", "allowed_routes": "billing", "equipped_tools": "orders find", "budget": 5},
        {"key": "b", "description": 5, "is_default": "x" * 50, "allowed_routes": {"billing": True}},
    ],
}


def test_a_wrong_type_in_a_file_is_told_with_the_value_that_stands_there() -> None:
    with pytest.raises(ValidationError) as caught:
        NetworkSpec.model_validate(WRITTEN)
    told = {one.pointer: one.detail for one in in_words_of_a_file(details_of(caught.value), WRITTEN)}
    a_list = "or in YAML a dash before each entry"
    assert told["/max_steps"] == 'a whole number belongs here, not "many"'
    assert told["/agents/0/is_default"] == 'true or false belongs here, not "ture"; did you mean true?'
    assert told["/agents/0/allowed_routes"] == f'a list belongs here, not "billing": write [billing], {a_list}'
    assert told["/agents/0/equipped_tools"] == f'a list belongs here, not "orders find": [first, second], {a_list}'
    assert told["/agents/0/budget"] == "a mapping of keys and values belongs here, not 5"
    assert told["/agents/1/description"] == "a text belongs here, not 5; quote it"
    assert told["/agents/1/is_default"] == f'true or false belongs here, not "{"x" * (MAX_SHOWN - 1)}…'
    assert told["/agents/1/allowed_routes"] == f"a list belongs here: [first, second], {a_list}"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/servers/0/api_key", "abc"),
        ("/servers/0/env/GH", 12345),
        ("/servers/0/headers/X", 5),
        ("/max_steps", "sk-1234567890abcdef"),
        ("/max_steps", "my password is x"),
    ],
)
def test_a_value_that_may_be_a_secret_is_not_repeated(pointer: str, value: object) -> None:
    written: Any = value
    for part in reversed(pointer.split("/")[1:]):
        written = [written] if part == "0" else {part: written}
    fault = ProblemDetail(pointer=pointer, code="int_parsing", detail="Input should be a valid integer")
    (told,) = in_words_of_a_file([fault], written)
    assert value_at(pointer, written) == value and told.detail == "a whole number belongs here"


@pytest.mark.parametrize(
    ("value", "is_told"), [("a" * 60_000, True), ("a" * 60_000 + "1", False), ("a1 " * 20_000, True)]
)
def test_a_value_of_any_length_is_told_soon_and_its_beginning_alone(value: str, is_told: bool) -> None:
    fault = ProblemDetail(pointer="/cases", code="list_type", detail="Input should be a valid list")
    began = time.process_time()
    (told,) = in_words_of_a_file([fault], {"cases": value})
    assert time.process_time() - began < 5
    assert (value[: MAX_SHOWN - 1] in told.detail) == is_told and len(told.detail) < 200


def test_an_id_that_is_cut_off_is_told_as_one_that_is_to_be_whole() -> None:
    class Asked(BaseModel):
        run_id: UUID

    with pytest.raises(ValidationError) as wrong:
        Asked.model_validate({"run_id": "abc"})
    (told,) = in_plain_words(details_of(wrong.value))
    assert told.detail == "a whole id belongs here, such as 0192f3c4-5d6e-7f80-9a1b-2c3d4e5f6a7b"
