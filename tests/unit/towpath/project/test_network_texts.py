"""A network whose tools are known: its script and its test, and example arguments from a tool's signature."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from towpath import tool
from towpath.networks.spec_files import load_network
from towpath.project.network_texts import example_arguments
from towpath.project.project_file import ProjectFile
from towpath.project.scaffold import AddedPart, add_network, create_project
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError

PROJECT = ProjectFile(kind="Project", networks=Path("networks"), policy=Path("policies.yaml"), tools=(Path("tools"),))
ARGUMENTS = {"rooms.free": {"day": "Monday"}, "doors.unlock": {"room": "214", "is_suite": True}}
SCRIPT = """\
[
  {"action": "USE_TOOL", "action_details": {"tool_name": "rooms.free", "tool_params": {"day": "Monday"}}},
  {"action": "USE_TOOL", "action_details": {"tool_name": "doors.unlock", "tool_params": {"room": "214", "is_suite": true}}},
  {"when": {"last_call": "succeeded"}, "action": "RESPOND", "action_details": {"payload": "Done."}},
  {"action": "RESPOND", "action_details": {"payload": "It was not done."}}
]
"""  # noqa: E501 - as it is written
TEST = '''\
"""The network hotel in this process, without a platform and without a key."""


def test_hotel_calls_its_tools_once_a_person_agrees(towpath_harness):
    h = towpath_harness("hotel")  # it plays networks/hotel.json
    run = h.run("Try it.")
    gate = h.next_gate()
    assert (gate.rule, gate.tool) == ("hotel-doors.unlock", "doors.unlock")
    gate.approve(reason="looked at")
    result = run.result()
    assert [call.tool for call in result.tool_calls()] == ["rooms.free", "doors.unlock"]
    assert result.text == "Done."


def test_hotel_does_nothing_that_a_person_denies(towpath_harness):
    h = towpath_harness("hotel")
    run = h.run("Try it.")
    h.next_gate().deny("not today")
    result = run.result()
    assert [call.tool for call in result.tool_calls()] == ["rooms.free"]
    assert result.text == "It was not done."
'''


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hotel(folder: Path, **options: Any) -> AddedPart:
    given = {"allow": ["rooms.free"], "ask": ["doors.unlock"], "arguments": ARGUMENTS, **options}
    return add_network(folder, PROJECT, "hotel", **given)


def test_a_network_with_tools_is_written_with_its_script_its_rules_and_a_test(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    added = hotel(tmp_path)
    assert [str(path) for path in added.paths] == [
        "networks/hotel.yaml", "networks/hotel.json", "tests/test_hotel.py", "policies.yaml"
    ]  # fmt: skip
    assert added.next_step == (
        'look at the example arguments in networks/hotel.json: rooms.free {"day": "Monday"}, doors.unlock {"room": '
        '"214", "is_suite": true}; then towpath test; and while towpath up runs: towpath run hotel "Try it." --watch'
    )
    (agent,) = load_network(tmp_path / "networks/hotel.yaml").agents
    assert agent.equipped_tools == ("rooms.free", "doors.unlock")
    assert (tmp_path / "networks/hotel.json").read_text("utf-8") == SCRIPT
    assert (tmp_path / "tests/test_hotel.py").read_text("utf-8") == TEST
    rules = yaml.safe_load((tmp_path / "policies.yaml").read_text("utf-8"))["rules"]
    assert [(rule["name"], rule["who"], rule["tool"], rule["effect"]) for rule in rules] == [
        ("hotel-rooms.free", {"network": "hotel"}, "rooms.free", "allow"),
        ("hotel-doors.unlock", {"network": "hotel"}, "doors.unlock", "require_approval"),
    ]


def test_where_no_person_is_asked_there_is_one_test(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    hotel(tmp_path, ask=[])
    text = (tmp_path / "tests/test_hotel.py").read_text("utf-8")
    assert text.count("def test_") == 1
    assert "def test_hotel_calls_its_tools(towpath_harness):" in text


def test_a_tool_that_no_file_has_is_told_and_its_arguments_are_marked(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    added = hotel(tmp_path, ask=["doors.unlok"])
    assert added.next_step.startswith(
        "no file of tools has doors.unlok (did you mean doors.unlock?): put its arguments in place of ARGUMENT and "
        'VALUE in networks/hotel.json; then look at the example arguments in networks/hotel.json: rooms.free {"day": '
    )
    script = json.loads((tmp_path / "networks/hotel.json").read_text("utf-8"))
    assert script[1]["action_details"]["tool_params"] == {"ARGUMENT": "VALUE"}


@pytest.mark.parametrize("there", ["networks/hotel.yaml", "networks/hotel.json", "tests/test_hotel.py"])
def test_nothing_is_written_where_one_of_the_files_is_in_the_way(tmp_path: Path, there: str) -> None:
    create_project(tmp_path, empty=True)
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    before = files_in(tmp_path)
    with pytest.raises(ProblemError, match=there):
        hotel(tmp_path)
    assert files_in(tmp_path) == before


@pytest.mark.parametrize(
    "policy", ["kind: Policy\nrules: {}\n", "kind: Policy\nrules:\n- {name: hotel-doors.unlock, effect: deny}\n"]
)
def test_nothing_is_written_where_the_policy_takes_no_rule_or_has_one_of_that_name(tmp_path: Path, policy: str) -> None:
    create_project(tmp_path, empty=True)
    (tmp_path / "policies.yaml").write_text(policy)
    before = files_in(tmp_path)
    with pytest.raises(ProblemError, match=r"policies\.yaml"):
        hotel(tmp_path)
    assert files_in(tmp_path) == before


def test_a_tool_is_either_allowed_or_asked_about(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"rooms\.free is to be allowed and asked about"):
        hotel(tmp_path, ask=["rooms.free"])
    with pytest.raises(ProblemError, match="is no name here"):
        hotel(tmp_path, allow=["rooms.*"])
    assert files_in(tmp_path) == {}


class Kind(StrEnum):
    """Kinds of rooms."""

    SINGLE = "single"
    SUITE = "suite"


class Guest(BaseModel):
    """A guest."""

    name: str = Field(examples=["Ann"])
    years: int = 0


@tool
def book(
    day: str, kind: Kind, guest: Guest, nights: int, deposit: float = Field(ge=5), note: str = "", *, last: bool | None
) -> str:
    """Book a room.

    Args:
        day: The day, e.g. 2026-08-01.
        nights: How many, such as 3.
    """
    return f"{day}{kind}{guest}{nights}{deposit}{note}{last}"


def test_example_arguments_are_those_that_a_call_must_have_and_fit_their_types() -> None:
    assert example_arguments(book.spec.parameters, ["last"]) == {
        "day": "2026-08-01", "kind": "single", "guest": {"name": "Ann"}, "nights": 3, "deposit": 5
    }  # fmt: skip
    assert example_arguments({"type": "object"}) == {}
    assert example_arguments({"required": ["rows", "more"], "properties": {
        "rows": {"type": "array", "minItems": 2, "items": {"type": "string"}}, "more": {"type": "array"}
    }}) == {"rows": ["rows", "rows"], "more": []}  # fmt: skip
    assert example_arguments({"required": ["day", "debt", "left", "room"], "properties": {
        "day": {"type": "string", "format": "date"}, "debt": {"type": "integer", "maximum": -2},
        "left": {"type": "number", "exclusiveMaximum": 0}, "room": {"type": "string", "description": "Such as 12."}
    }}) == {"day": "2030-01-31", "debt": -2, "left": -1, "room": "12"}  # fmt: skip


def test_names_that_yaml_reads_as_something_else_stay_names(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    add_network(tmp_path, PROJECT, "null", allow=["true", "no"])
    network = load_network(tmp_path / "networks/null.yaml")
    assert (network.name, network.agents[0].equipped_tools) == ("null", ("true", "no"))


def test_each_tool_has_its_own_rule_where_names_have_to_be_cut(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    first, second = f"a.{'x' * 60}", f"b.{'x' * 60}"
    add_network(tmp_path, PROJECT, "n" * 64, allow=[first], ask=[second])
    rules = yaml.safe_load((tmp_path / "policies.yaml").read_text("utf-8"))["rules"]
    assert [(rule["tool"], len(rule["name"])) for rule in rules] == [(first, 64), (second, 64)]
    assert f'"{rules[1]["name"]}"' in (tmp_path / f"tests/test_{'n' * 64}.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("told", "schema", "found"),
    [
        ("The part, such as front brake pads.", {"type": "string"}, "front brake pads"),
        ("The plate, such as K-AB 123, without spaces.", {"type": "string"}, "K-AB 123"),
        ('Such as "ink, black" or "ink, red".', {"type": "string"}, "ink, black"),
        ("What it is, such as read or write; a pattern.", {"type": "string"}, "read"),
        ("The rental, such as R-17 (see its label).", {"type": "string"}, "R-17"),
        ("A note, e.g. it's late.", {"type": "string"}, "it's late"),
        ("Where, such as a.example/b.", {"type": "string"}, "a.example/b"),
        ("The price, such as 12.50.", {"type": "number"}, 12.5),
        ("The price, such as 12.50.", {"anyOf": [{"type": "number"}, {"type": "string"}]}, 12.5),
        ("How much, such as 80 EUR.", {"type": "integer"}, 80),
        ("How much, such as 2.5.", {"type": "integer"}, 1),
        ("What else, such as oil.", {"type": "array", "items": {"type": "string"}}, ["oil"]),
        ("Which, such as 3.", {"type": "array", "items": {"type": "integer"}}, [3]),
    ],
)
def test_an_example_is_all_that_the_docstring_says_of_it(told: str, schema: JsonObject, found: Any) -> None:
    parameters = {"required": ["it"], "properties": {"it": {"description": told, **schema}}}
    assert example_arguments(parameters) == {"it": found}
