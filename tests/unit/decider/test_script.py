"""Scripts: whose entry is next, and what it says."""

import json
import uuid
from typing import Any

import pytest
from tests.support.decider.decisions import LOOKUP, RESPOND, USE_TOOL, as_text, context

from towpath_contracts.decisions.request import FullToolOutput, OfferedTool, PlayedScriptEntry
from towpath_contracts.json_schema import schema_faults
from towpath_decider.core.answer_schema import ANY_OBJECT, answer_schema, simplified
from towpath_decider.core.script import Script, exhaustion_message


def test_entries_are_played_in_order_from_the_cursors() -> None:
    script = Script([USE_TOOL, RESPOND])
    first = script.next_answer("triage", {})
    assert first is not None
    assert first.use == PlayedScriptEntry(queue="*", index=0)
    assert json.loads(first.text(0)) == USE_TOOL
    second = script.next_answer("triage", {"*": 1})
    assert second is not None
    assert json.loads(second.text(0)) == RESPOND
    assert script.next_answer("triage", {"*": 2}) is None


def test_who_reads_that_nothing_is_left_learns_what_the_agent_was_asked_again_about() -> None:
    fault = "Your last answer was not a valid decision: answer: no action is called 'USETOOL'; did you mean USE_TOOL?"
    assert exhaustion_message(1, "triage", ("an older one", fault)) == (
        "answer: no action is called 'USETOOL'; did you mean USE_TOOL? Mend that entry, or add what comes after it: "
        "the script of 1 entry has nothing left for agent triage"
    )
    assert exhaustion_message(2, "triage", ()).endswith(
        "of 2 entries has nothing left for agent triage: add what it does next"
    )
    assert exhaustion_message(1, "triage", ("x" * 401,)).startswith("x" * 399 + "… Mend that entry")
    assert exhaustion_message(1, "triage", ("x" * 400,)).startswith("x" * 400 + ". Mend that entry")


def test_entries_for_an_agent_of_a_near_name_are_told_to_who_has_none() -> None:
    script = Script([{**RESPOND, "agent": "dsk"}, {**RESPOND, "agent": "billing"}, {**RESPOND, "kind": "reflect"}])
    assert script.near_agent("desk", {}, ["billing"]) == "dsk"
    assert script.near_agent("desk", {"dsk": 1}, []) is None, "it has decided, so there is one"
    assert script.near_agent("desk", {}, ["dsk"]) is None, "the desk may hand over to it"
    assert script.near_agent("dsk", {}, []) is None, "it has an entry of its own"
    assert script.near_agent("triage", {}, []) is None and script.near_agent(":reflec", {}, []) is None
    assert exhaustion_message(3, "desk", (), "dsk") == (
        "the script of 3 entries has nothing left for agent desk, and entries for agent 'dsk', which has not decided; "
        "did you mean 'desk'?"
    )


def test_an_agent_reads_its_own_queue_and_the_common_one_by_lowest_index() -> None:
    script = Script([{**RESPOND, "agent": "billing"}, USE_TOOL, {**USE_TOOL, "agent": "triage"}, RESPOND])
    uses = []
    cursors: dict[str, int] = {}
    for agent in ("triage", "triage", "billing", "billing"):
        answer = script.next_answer(agent, cursors)
        assert answer is not None
        uses.append((answer.use.queue, answer.use.index))
        cursors[answer.use.queue] = answer.use.index + 1
    assert uses == [("*", 1), ("triage", 2), ("billing", 0), ("*", 3)]
    assert script.next_answer("triage", cursors) is None


def test_the_agent_and_the_delay_are_not_part_of_the_decision() -> None:
    answer = Script([{**RESPOND, "agent": "triage", "delay_ms": 20}]).next_answer("triage", {})
    assert answer is not None
    assert json.loads(answer.text(0)) == RESPOND
    assert answer.delay_ms == 20


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        ({"raw": "so: {"}, ["so: {", "so: {"]),
        ({"raw": ["bad", as_text(RESPOND)]}, ["bad", as_text(RESPOND)]),
        ({"raw": [{"action": "X"}], "agent": "triage"}, ['{"action":"X"}', '{"action":"X"}']),
        ("just text", ["just text", "just text"]),
        (7, ["7", "7"]),
        ({"raw": []}, ["[]", "[]"]),
    ],
)
def test_a_script_may_say_anything_a_model_may(entry: object, texts: list[str]) -> None:
    answer = Script([entry]).next_answer("triage", {})
    assert answer is not None
    assert [answer.text(0), answer.text(1)] == texts


@pytest.mark.parametrize("delay", [-1, "soon", None, True])
def test_a_senseless_delay_is_none(delay: object) -> None:
    answer = Script([{**RESPOND, "delay_ms": delay}]).next_answer("triage", {})
    assert answer is not None
    assert answer.delay_ms in (0, 1)


@pytest.mark.parametrize("data", [b"{}", b"no json", b'"text"', b"[1,"])
def test_a_script_that_is_no_array_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"array|expected|EOF"):
        Script.parse(data)


def test_the_answer_schema_offers_what_the_agent_may_do() -> None:
    schema = answer_schema(context())
    assert schema["properties"]["action"]["enum"] == ["USE_TOOL", "ROUTE_TO_AGENT", "RESPOND"]
    call, _, route, respond = schema["properties"]["action_details"]["anyOf"]
    assert call["properties"]["tool_name"]["enum"] == ["crm.lookup"]
    assert call["properties"]["tool_params"]["required"] == ["customer"]
    assert route["properties"]["target_agent_name"]["enum"] == ["billing"]
    assert respond["properties"]["payload"] == ANY_OBJECT


def test_a_tool_schema_is_written_in_the_keywords_that_gemini_takes() -> None:
    schema = {
        "$defs": {"City": {"type": "object", "properties": {"name": {"const": "Paris", "default": "Paris"}}}},
        "type": "object",
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "days": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
            "unit": {"oneOf": [{"enum": ["c", "f"]}, {"type": "null"}]},
            "flag": {"type": "boolean", "const": True},
        },
        "required": ["city", "gone"],
        "additionalProperties": False,
    }
    assert simplified(schema) == {
        "type": "object",
        "properties": {
            "city": {"type": "object", "properties": {"name": {"enum": ["Paris"]}}, "required": []},
            "days": {"type": "integer", "maximum": 9},
            "unit": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}]},
            "flag": {"type": "boolean"},
        },
        "required": ["city"],
    }


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/N"} for name in "abcdefgh"}}
    schema = {"$defs": {"N": node}, "$ref": "#/$defs/N"}
    assert simplified(schema) == ANY_OBJECT


def test_with_many_tools_their_parameters_are_left_to_the_prompt() -> None:
    tools = tuple(OfferedTool(name=f"t{n}", parameters=LOOKUP.parameters) for n in range(40))
    call = answer_schema(context(tools=tools))["properties"]["action_details"]["anyOf"][0]
    assert len(call["properties"]["tool_name"]["enum"]) == 40
    assert call["properties"]["tool_params"] == ANY_OBJECT


@pytest.mark.parametrize(("count", "in_detail"), [(24, True), (25, False)])
def test_the_parameters_of_24_tools_are_written_out(count: int, in_detail: bool) -> None:
    tools = tuple(OfferedTool(name=f"t{n}", parameters=LOOKUP.parameters) for n in range(count))
    call = answer_schema(context(tools=tools))["properties"]["action_details"]["anyOf"][0]
    assert ("anyOf" in call) is in_detail


def test_any_object_may_have_any_fields() -> None:
    """Gemini writes an object without fields where the schema takes no others than it names."""
    assert schema_faults(ANY_OBJECT, {"customer": "ada"}) == ()


def test_a_schema_is_written_out_twelve_levels_down() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        schema = {"type": "object", "properties": {"a": schema}}
    simple = simplified(schema)
    for _ in range(11):
        simple = simple["properties"]["a"]
    assert simple["properties"] == {"a": ANY_OBJECT}, "the thirteenth may be anything"


@pytest.mark.parametrize(("fields", "whole"), [(510, True), (511, False)])
def test_a_schema_with_more_than_511_parts_is_any_object(fields: int, whole: bool) -> None:
    schema = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(fields)}}
    assert (simplified(schema) != ANY_OBJECT) is whole


@pytest.mark.parametrize(("asked", "waits"), [(3_600_000, 3_600_000), (3_600_001, 3_600_000)])
def test_a_script_waits_for_an_hour_at_most(asked: int, waits: int) -> None:
    answer = Script([{**RESPOND, "delay_ms": asked}]).next_answer("triage", {})
    assert answer is not None and answer.delay_ms == waits


def told(**changes: Any) -> list[str]:
    """Return what a script with conditions would say in a context."""
    script = Script(
        [
            {**RESPOND, "when": {"task": "8811"}, "action_reasoning": "another task"},
            {**RESPOND, "when": {"last_call": "succeeded"}, "action_reasoning": "went well"},
            {**RESPOND, "when": {"last_call": "failed"}, "action_reasoning": "did not"},
            {**RESPOND, "when": "Friday", "action_reasoning": "no condition"},
        ]
    )
    answer = script.next_answer("triage", {}, context=context(**changes))
    assert answer is not None
    said = json.loads(answer.text(0))
    return [said["action_reasoning"], said.get("when", "")]


def output(status: str, step: int = 2) -> FullToolOutput:
    """Return what a call of a step gave."""
    return FullToolOutput(execution_id=uuid.uuid4(), tool="orders.find", step=step, status=status, text="x")


def test_an_entry_is_passed_over_where_its_condition_does_not_hold() -> None:
    assert told(user_message="Refund order 8811") == ["another task", ""]
    assert told(outputs=(output("succeeded"), output("denied", step=1))) == ["went well", ""]
    assert told(outputs=(output("denied"), output("succeeded"))) == ["went well", ""], "the second call of the step"
    for status in ("failed", "denied", "unknown"):
        assert told(outputs=(output(status), output("succeeded", step=1))) == ["did not", ""]
    assert told() == ["no condition", "Friday"], "before a call none has succeeded, and none has failed"
