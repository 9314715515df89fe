"""Plans are checked whole: every fault at once, each with its path."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.engine.plan_machine import ask, block, step

from towpath_contracts.json_schema import schema_faults
from towpath_contracts.networks.child_tools import PLAN_PARAMETER
from towpath_contracts.networks.plan import Plan
from towpath_contracts.networks.plan_checks import BLOCK_AGENTS, MAX_REPORTED, PLAN_BYTES, check_plan

AGENTS = ("ann", "bob", "cid")


def faults(data: Any, **more: Any) -> list[str]:
    plan, found = check_plan(data, agents=AGENTS, **more)
    assert (plan is None) == bool(found), "a plan, or why it is none"
    assert all(one.code == "plan_invalid" for one in found)
    return [one.detail for one in found]


def accepted(*steps: dict[str, Any], **more: Any) -> Plan:
    plan, found = check_plan({"steps": list(steps), **more}, agents=AGENTS)
    assert plan is not None, found
    return plan


def test_e2_every_fault_is_reported_at_once_with_its_path() -> None:
    """Row E2: plan validation, all errors at once with paths; ids, result keys, duplicates, exactly one payload."""
    bad = {
        "steps": [
            {"type": "agent", "agent": {"prompt": "x"}},
            {
                "id": "a b",
                "type": "parallel",
                "parallel": {"steps": [], "max_concurrency": -1, "merge_strategy": "any"},
            },
            {"id": "two", "type": "agent", "agent": ask("ghost"), "parallel": {"steps": [ask("ann")]}},
            {"id": "two", "type": "agent", "agent": ask("ann", result_key="k y"), "retries": 3},
            {"id": "l" * 65, "type": "agent", "parallel": {"steps": [ask("ann", timeout_ms="7")]}},
            {"id": "none", "type": "agent", "timeout_ms": -5},
        ]
    }
    listed = faults(bad)
    assert [one.split(" ")[0].rstrip(":") for one in listed] == [
        "steps[0].agent.agent_key",
        "steps[1].id",
        "steps[1].parallel.max_concurrency",
        "steps[1].parallel.merge_strategy",
        "steps[1].parallel.steps",
        "steps[2]",
        "steps[2].agent.agent_key",
        "steps[3].agent.result_key",
        "steps[3].id",
        "steps[3].retries",
        "steps[4].id",
        "steps[4].parallel.steps[0].timeout_ms",
        "steps[4].type",
        "steps[5]",
        "steps[5].timeout_ms",
    ]
    assert listed[0] == "steps[0].agent.agent_key is required"
    assert "needs at least 1 agent" in listed[4] and "exactly one of agent and parallel" in listed[5]
    assert "'two' is used by steps[2].id already" in listed[8]
    _plan, found = check_plan(bad, agents=AGENTS)
    assert found[11].pointer == "/steps/4/parallel/steps/0/timeout_ms"


def test_e2_result_keys_are_used_once_across_steps_and_the_agents_of_parallel_ones() -> None:
    """Row E2: duplicates."""
    found = faults({"steps": [step("ann", result_key="x"), block(ask("bob", result_key="x"), ask("cid"), id="fan")]})
    assert found == [
        "steps[1].parallel.steps[0].result_key 'x' is used by steps[0].agent.result_key already",
    ]
    clash = faults({"steps": [step("ann", id="one", result_key="fan"), block(ask("bob"), id="fan")]})
    assert clash == ["steps[1].id 'fan' names results of this step, and is the result_key of steps[0].agent"]
    assert accepted(step("ann", id="one", result_key="fan"), block(ask("bob", result_key="b"), id="fan"))


def test_e2_missing_ids_are_filled_in_before_anything_is_checked() -> None:
    """Row E2: ids; those that are missing are step_01, step_02, …"""
    plan = accepted(step("ann"), step("bob", id="mine"), block(ask("cid")))
    assert [one.id for one in plan.steps] == ["step_01", "mine", "step_03"]
    assert "'step_02' is used by" in faults({"steps": [step("ann", id="step_02"), step("bob")]})[0]


def test_e2_unknown_fields_are_tolerated_at_the_top_and_nowhere_else() -> None:
    plan = accepted(step("ann"), transitions=[1], version="2", chain=True)
    assert not plan.chain, "nobody but a workflow chains its steps"
    assert faults({"steps": [step("ann", colour="red")]}) == ["steps[0].agent.colour: there is no such field"]


def test_e2_a_plan_has_one_to_twelve_steps_and_a_block_no_more_than_sixteen_agents() -> None:
    assert faults({"steps": []}) == ["steps needs at least 1 step"]
    assert faults({}) == ["steps is required"]
    assert faults({"steps": [step("ann")] * 13})[0] == "steps has 13 steps; the limit is 12"
    assert len(accepted(*[step("ann") for _ in range(12)]).steps) == 12
    assert faults({"steps": [step("ann")] * 3}, most_steps=2) == ["steps has 3 steps; the limit is 2"]
    assert faults({"steps": [step("ann")] * 13}, most_steps=99) == ["steps has 13 steps; the limit is 12"]
    crowd = [ask("ann")] * (BLOCK_AGENTS + 1)
    assert faults({"steps": [block(*crowd)]}) == ["steps[0].parallel.steps has 17 agents; the limit is 16"]


def test_e2_the_sources_other_word_for_collect_is_taken() -> None:
    plan = accepted(block(ask("ann"), merge_strategy="collect_all"))
    assert plan.steps[0].parallel is not None and plan.steps[0].parallel.merge_strategy == "collect"


def test_e4_a_reference_to_what_no_earlier_step_gives_is_a_fault_of_the_plan() -> None:
    """Row E4: templates over earlier results; an undefined reference is a clear failure."""
    first = step("ann", "{{ result.later }} and {{ bindings.who }}", result_key="first.draft")
    second = block(
        ask("bob", "{{ result.first.draft.text[0] }}"), ask("cid", **{"with": {"a": [{"b": "{{result.x}}"}]}})
    )
    third = step("ann", "{{ result.step_02[1] }} {{ result.step_02 }} {{ open() }}", result_key="later")
    assert faults({"steps": [first, second, third], "bindings": {"me": 1}}) == [
        "steps[0].agent.prompt: result.later is not defined; result has: nothing yet",
        "steps[0].agent.prompt: bindings.who is not defined; bindings has: me",
        "steps[1].parallel.steps[1].with: result.x is not defined; result has: first.draft",
        "steps[2].agent.prompt: {{ open() }} is no reference: write result.KEY or bindings.NAME, and fields below it",
    ]
    assert len(faults({"steps": [first]}, bindings={"who"})) == 1


def test_e4_a_plan_has_a_thousand_references_and_of_more_none_is_read() -> None:
    """Row E4: templates over earlier results; what they may cost is bounded, since a plan is checked several times."""

    def referring(count: int, reference: str = "{{bindings.a}}") -> dict[str, Any]:
        texts = {"with": {f"t{place}": reference for place in range(count - 1)}}
        return {"steps": [step("ann", reference, **texts)], "bindings": {"a": 1}}

    assert not faults(referring(1_000))
    assert faults(referring(1_001)) == ["steps have more than 1000 references together"]
    assert faults(referring(1_001, "{{ }}")) == ["steps have more than 1000 references together"]
    long = "{{bindings.a" + ".a" * 245 + "}}"
    assert not faults(referring(65, long))
    assert faults(referring(66, long)) == ["steps have references of more than 32768 characters together"]


@pytest.mark.parametrize("given", [None, [], "plan", 7])
def test_what_is_no_object_is_refused_as_such(given: Any) -> None:
    assert faults(given)[0].startswith("a plan is an object, not ")


def test_a_plan_is_bounded_in_size_depth_and_in_what_is_reported() -> None:
    assert "the limit is" in faults({"steps": [step("ann", "x" * PLAN_BYTES)]})[0]
    deep: Any = "x"
    for _ in range(60):
        deep = {"a": deep}
    assert "levels of nesting" in faults({"steps": [], "bindings": deep})[0]
    assert faults({"steps": [], "bindings": {"x": float("nan")}}) == ["NaN is not JSON"]
    many = [{"id": f"s{n}", "type": "agent", "agent": {"agent_key": "ghost"}} for n in range(3_000)]
    assert len(faults({"steps": many})) == MAX_REPORTED
    long = {"type": "agent", "k" * 9_000: 1, "agent": ask("a" * 9_000, "{{ bindings.x }}", result_key="r" * 9_000)}
    bindings = {f"{n}" * 900: n for n in range(90)}
    assert max(map(len, faults({"steps": [long, long], "bindings": bindings}))) < 2_000


@pytest.mark.parametrize("text", ["{{" * 20_000, "{{ result.a" * 10_000 + "}}", "{{ result" + ".a" * 20_000 + " }}"])
def test_hostile_braces_are_read_in_proportion_to_their_length(text: str) -> None:
    assert faults({"steps": [step("ann", "go", **{"with": {"t": [text]}})]}) is not None


_LEAVES = st.none() | st.booleans() | st.integers(-9, 99) | st.sampled_from(["ann", "x y", "", "{{ result.a }}", "a"])
_KEYS = st.sampled_from(
    ["id", "type", "agent", "parallel", "steps", "agent_key", "prompt", "with", "result_key", "timeout_ms", "zz"]
)
_JSON = st.recursive(_LEAVES, lambda part: st.lists(part, max_size=4) | st.dictionaries(_KEYS, part, max_size=6))


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(_KEYS, _JSON, max_size=6) | _JSON)
def test_checking_never_raises_and_what_it_accepts_it_accepts_again(data: Any) -> None:
    plan, found = check_plan(data, agents=AGENTS)
    assert (plan is None) == bool(found)
    if plan is not None:
        again, none = check_plan(json.loads(plan.model_dump_json()), agents=AGENTS)
        assert again == plan and not none


def test_e2_agents_need_words_where_nothing_but_the_plan_tells_them_what_to_do() -> None:
    """Row E2: plan validation."""
    plan = {"steps": [block(ask("ann", ""), ask("bob"), ask("cid", "", **{"with": {"x": 1}})), step("ann", "")]}
    assert not faults(plan)
    found = "needs a prompt or with: nothing else says what it is to do"
    assert faults(plan, self_contained=True) == [f"steps[0].parallel.steps[0] {found}", f"steps[1].agent {found}"]


def test_e2_the_criteria_of_an_agent_are_counted_and_the_first_of_them_checked() -> None:
    """Row E2: plan validation; of more criteria than an agent may have the number is told, however many they are."""
    at = "steps[0].agent.acceptance_criteria"
    assert not faults({"steps": [step("ann", acceptance_criteria=["done"] * 16)]})
    for many in (17, 20_000):
        asked = {"steps": [step("ann", acceptance_criteria=["done"] * many)]}
        assert faults(asked) == [f"{at} has {many} criteria; the limit is 16"]
    wrong = faults({"steps": [step("ann", acceptance_criteria=[{"why": 1}, *["done"] * 20])]})
    assert wrong[0] == f"{at} has 21 criteria; the limit is 16"
    assert any(one.startswith(f"{at}[0]") for one in wrong)


def _names(count: int) -> dict[str, int]:
    return {f"{number:x}": 0 for number in range(count)}


FULL = 240_000
"""Bytes; a plan may have a few more."""


def _given(count: int, **given: Any) -> dict[str, Any]:
    """A plan with *count* bindings, whose one agent gets *given*."""
    return {"bindings": _names(count), "steps": [{"type": "agent", "agent": ask("ann", **{"with": given})}]}


LARGEST: list[tuple[str, Any, int]] = [
    ("the same reference", _given(12_000, t="{{bindings.zz}}" * 8_000), 400_000),
    ("references", _given(9_000, **{f"k{place}": f"{{{{bindings.z{place}}}}}" for place in range(5_000)}), 200_000),
    ("steps", {"steps": [0] * (FULL // 2)}, 1_500_000),
    ("agents", {"steps": [{"type": "parallel", "parallel": {"steps": [0] * (FULL // 2)}}]}, 1_000_000),
    ("fields", {"steps": [{**step("ann"), **_names(25_000)}]}, 500_000),
    ("fields of an agent", {"steps": [block({**ask("ann"), **_names(25_000)})]}, 500_000),
    ("criteria", {"steps": [step("ann", acceptance_criteria=[{}] * (FULL // 3))]}, 600_000),
    ("criteria of many agents", {"steps": [block(*[{"acceptance_criteria": [0] * 16}] * 50)] * 60}, 600_000),
    ("agents of many steps", {"steps": [block(*[{"x": 0}] * 100)] * 90}, 400_000),
    ("fields of many agents", {"steps": [block(*[{**ask("ann"), **_names(20)}] * 16)] * 60}, 400_000),
]


@pytest.mark.parametrize(("about", "plan", "most"), LARGEST, ids=[about for about, _plan, _most in LARGEST])
def test_e2_what_checking_costs_does_not_multiply(about: str, plan: dict[str, Any], most: int) -> None:
    """Row E2: a plan of the largest size is refused in a moment; only the first faults are worked out."""
    calls = [0]

    def count(_frame: Any, event: str, _arg: Any) -> None:
        calls[0] += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = faults(plan)
    finally:
        sys.setprofile(before)
    assert found and len(found) <= MAX_REPORTED, about
    assert calls[0] < most, f"{about}: {calls[0]} calls"


def test_a_plan_with_a_hundred_steps_is_looked_through_and_of_more_their_number_is_told() -> None:
    many = [step("ann")] * 99 + [step("bob", colour="red"), step("bob", colour="red")]
    assert faults({"steps": many[:100]})[1:] == ["steps[99].agent.colour: there is no such field"]
    assert faults({"steps": many})[1:] == ["steps[99].agent.colour: there is no such field"]


def test_a_plan_has_so_many_levels_as_every_other_value() -> None:
    def nested(levels: int) -> Any:
        value: Any = "x"
        for _ in range(levels):
            value = [value]
        return value

    around = 2  # the plan, and its bindings
    accepted(step("ann"), bindings={"a": nested(48 - around)})
    assert "48 levels of nesting" in faults({"steps": [step("ann")], "bindings": {"a": nested(49 - around)}})[0]


def test_a_fault_names_sixteen_names_and_counts_the_others() -> None:
    bindings = {f"b{number:02}": 1 for number in range(16)}
    (told,) = faults({"steps": [step("ann", "{{ bindings.x }}")], "bindings": bindings})
    assert told.endswith("b14, b15")
    (told,) = faults({"steps": [step("ann", "{{ bindings.x }}")], "bindings": bindings | {"b16": 1}})
    assert told.endswith("b15, and 1 more")


@pytest.mark.parametrize("place", [("steps", "items"), ("steps", "items", "agent")])
def test_a_model_is_told_to_give_no_fields_that_a_plan_has_not(place: tuple[str, ...]) -> None:
    """Such a field is refused: a model that was not told would lose the whole plan by it."""
    given = step("ann", colour="red") if place[-1] == "agent" else {**step("ann"), "colour": "red"}
    assert schema_faults(PLAN_PARAMETER, {"steps": [step("ann")]}) == ()
    assert faults({"steps": [given]}) and schema_faults(PLAN_PARAMETER, {"steps": [given]})
