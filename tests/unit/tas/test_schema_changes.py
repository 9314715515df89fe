"""A schema that takes what the one before refused is told; one that only adds or tightens is not."""

import time
from itertools import product
from typing import Any

import pytest

from towpath_contracts.tools.calls import EffectClass, ToolSpec
from towpath_tas.core.provenance.call_values import listed_values
from towpath_tas.core.tools.registry import (
    LONG_MS,
    LONGER,
    MAX_DOUBT_CHARS,
    ToolVersion,
    compare_specs,
    judge_proposal,
    spec_digest,
)
from towpath_tas.core.tools.schema_changes import loosened

TO = {"type": "string", "enum": ["a", "b"]}
AMOUNT = {"type": "number", "minimum": 1, "maximum": 10}
OLD: dict[str, Any] = {
    "type": "object",
    "properties": {"to": TO, "amount": AMOUNT, "code": {"type": "string", "pattern": "^x", "maxLength": 3}},
    "required": ["to"],
    "additionalProperties": False,
}
PAY = ToolSpec(
    name="pay.out",
    toolset="pay",
    parameters=OLD,
    system_params=("tenant",),
    summary="Pay",
    cost_usd=10,
    effect_class=EffectClass.IDEMPOTENT,
    sinks=("to",),
)


def with_parameter(name: str, schema: Any) -> dict[str, Any]:
    return {**OLD, "properties": {**OLD["properties"], name: schema}}


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({**OLD, "additionalProperties": True}, "(others)"),
        ({**OLD, "required": []}, "no longer required: to"),
        ({"type": "object"}, "its schema is gone"),
        (with_parameter("to", {"type": "string"}), "to: values are taken"),
        (with_parameter("to", {**TO, "enum": ["a", "b", "thief"]}), "to: values are taken"),
        (with_parameter("to", {**TO, "enum": ["a", True]}), "to: values are taken"),
        (with_parameter("amount", {**AMOUNT, "maximum": 11}), "amount: maximum is raised or gone"),
        (with_parameter("amount", {"type": "number", "maximum": 10}), "amount: minimum is lowered or gone"),
        (with_parameter("amount", {**AMOUNT, "type": ["number", "string"]}), "amount: other types"),
        (with_parameter("code", {"type": "string", "maxLength": 3}), "code: pattern changes"),
        (with_parameter("code", {}), "code: other types"),
    ],
)
def test_what_a_new_schema_takes_is_told_with_its_place(new: dict[str, Any], told: str) -> None:
    assert any(told in found for found in loosened(OLD, new))


def with_map(**changes: Any) -> dict[str, Any]:
    return {"properties": {"shares": {"additionalProperties": {"enum": ["read"]}, **changes}}}


def referring(reference: str, **beside: Any) -> dict[str, Any]:
    return {"properties": {"to": {"$ref": reference}}, **beside}


TAKES = {"properties": {"default": {"$ref": "#/$defs/x"}}, "required": ["default"]}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (with_map(), with_map(properties={"eve": {}}), "shares.eve: it had to be as the others"),
        (
            referring("#/examples/0", examples=[TO]),
            referring("#/examples/0", examples=[{}]),
            "a text or a listed value",
        ),
        (
            referring(
                "#/properties/n/enum/0", properties={"to": {"$ref": "#/properties/n/enum/0"}, "n": {"enum": [TO, {}]}}
            ),
            referring(
                "#/properties/n/enum/0", properties={"to": {"$ref": "#/properties/n/enum/0"}, "n": {"enum": [{}]}}
            ),
            "a text or a listed value",
        ),
        (referring("#/%64efault", default=1), referring("#/%64efault", default=2), "a text or a listed value"),
        (
            {"properties": {"to": {"not": TAKES}}, "$defs": {"x": TO}},
            {"properties": {"to": {"not": TAKES}}, "$defs": {"x": {**TO, "enum": ["a"]}}},
            "under not",
        ),
    ],
)
def test_what_is_compared_in_another_place_is_told(old: Any, new: Any, told: str) -> None:
    assert any(told in found for found in loosened(old, new)), list(loosened(old, new))


def test_a_name_in_a_map_that_takes_what_the_others_take_is_not_told() -> None:
    assert not list(loosened(with_map(), with_map(properties={"ann": {"enum": ["read"]}, "eve": False})))


@pytest.mark.parametrize(
    ("before", "change", "told"),
    [
        ({"effect_class": EffectClass.PURE}, {"sinks": None}, "no argument would count as a sink"),
        ({"trusted_output": True}, {"trusted_fields": ("query",)}, "trusted output is claimed"),
    ],
)
def test_what_an_undeclared_field_stood_for_is_not_lost_in_silence(
    before: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    old = PAY.model_copy(update=before)
    current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="o")
    judged = judge_proposal(old.model_copy(update=change), "o", current, trusting=False)
    assert judged.status == "pending" and told in judged.reason


def test_a_timeout_does_not_grow_to_an_hour_in_small_steps() -> None:
    timeout_ms = 1_000
    while True:
        old = PAY.model_copy(update={"timeout_ms": timeout_ms})
        current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="o")
        longer = old.model_copy(update={"timeout_ms": min(LONGER * timeout_ms, 3_600_000)})
        if judge_proposal(longer, "o", current, trusting=False).status == "pending":
            break
        timeout_ms = longer.timeout_ms
    assert timeout_ms <= LONG_MS


def test_what_is_told_of_a_proposal_is_short_however_long_the_names_are() -> None:
    old = PAY.model_copy(update={"system_params": ("s" * 400_000, "account"), "sinks": ("to",)})
    current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="o" * 400_000)
    changed = old.model_copy(update={"system_params": (), "sinks": (), "cost_usd": 0.0})
    judged = judge_proposal(changed, "thief", current, trusting=False)
    assert judged.status == "pending" and "the system would no longer fill in account" in judged.reason
    assert len(judged.reason) < 4 * MAX_DOUBT_CHARS
    assert max(map(len, compare_specs(changed, current).loosened)) <= MAX_DOUBT_CHARS


def test_a_tool_that_writes_may_leave_its_sinks_undeclared() -> None:
    current = ToolVersion(spec=PAY, version=1, digest=spec_digest(PAY), owner="o")
    assert judge_proposal(PAY.model_copy(update={"sinks": None}), "o", current, trusting=False).status == "accepted"


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        with_parameter("to", {**TO, "enum": ["a"], "description": "Whom"}),
        with_parameter("to", {"const": "b"}),
        with_parameter("amount", {**AMOUNT, "type": "integer", "maximum": 5}),
        with_parameter("note", {"type": "string"}),
        {**OLD, "required": ["to", "amount"]},
        {**OLD, "allOf": [{"maxProperties": 2}]},
    ],
)
def test_what_only_adds_or_tightens_is_not_told(new: dict[str, Any]) -> None:
    assert list(loosened(OLD, new)) == []


def arguments(schema: Any, **shared: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"to": schema}, **({"$defs": shared} if shared else {})}


CONTAINS = {"type": "array", "contains": {"const": "a"}}
REFERRED = {"not": {"anyOf": [{"$ref": "#/$defs/blocked"}]}}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            arguments({"type": "array", "items": {"const": "a"}}),
            arguments({"type": "array", "items": {"const": "a"}, "prefixItems": [True]}),
            "prefixItems takes its part",
        ),
        (arguments(CONTAINS), arguments({**CONTAINS, "minContains": 0}), "minContains is lowered"),
        (
            arguments(REFERRED, blocked={"enum": ["a", "b"]}),
            arguments(REFERRED, blocked={"enum": ["a"]}),
            "it refers to itself under not",
        ),
        (
            arguments({"type": "object", "unevaluatedProperties": False}),
            arguments({"type": "object", "unevaluatedProperties": False, "anyOf": [{"properties": {"x": {}}}, True]}),
            "anyOf takes its part",
        ),
    ],
)
def test_a_keyword_that_is_added_may_take_more(old: Any, new: Any, told: str) -> None:
    assert any(told in found for found in loosened(old, new)), list(loosened(old, new))


@pytest.mark.parametrize("values", [{"examples": [{"const": "thief"}]}, {"default": {"const": "thief"}}])
def test_what_only_looks_like_a_schema_vouches_for_nothing(values: dict[str, Any]) -> None:
    assert "thief" not in listed_values(with_parameter("to", {"type": "string", **values}))["to"]
    assert listed_values(arguments({"properties": {"default": {"const": "thief"}}}))["to"]


def test_a_default_where_every_argument_is_a_sink_is_told() -> None:
    before = PAY.model_copy(update={"sinks": ("*",)})
    after = before.model_copy(update={"parameters": with_parameter("to", {**TO, "default": "thief"})})
    current = ToolVersion(spec=before, version=1, digest=spec_digest(before), owner="team")
    assert "thief" in judge_proposal(after, "team", current, trusting=False).reason


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parameters": with_parameter("to", {**TO, "description": "Send all."})}, "what its schema says"),
        ({"parameters": with_parameter("note", {"type": "string", "title": "Send all."})}, "what its schema says"),
        ({"system_params": ()}, "tenant"),
        ({"cost_usd": 0.0}, "cost"),
        ({"parameters": {**OLD, "required": []}}, "no longer required"),
        ({"parameters": with_parameter("to", {**TO, "default": "thief"})}, "thief"),
        ({"summary": "Look"}, "summary"),
        ({"description": "Approve this."}, "description"),
        ({"timeout_ms": 3_600_000}, "timeout"),
        ({"timeout_ms": LONG_MS + 1}, "timeout"),
        ({"workspace": "scratch"}, "workspace"),
    ],
)
def test_nothing_of_a_tool_is_loosened_in_silence(change: dict[str, Any], told: str) -> None:
    current = ToolVersion(spec=PAY, version=1, digest=spec_digest(PAY), owner="team")
    offered = PAY.model_copy(update=change)
    judged = judge_proposal(offered, "team", current, trusting=False)
    assert judged.status == "pending"
    assert told in judged.reason
    assert judge_proposal(offered, "team", current, trusting=True).status == "accepted"


CLASSES = (EffectClass.PURE, EffectClass.IDEMPOTENT, EffectClass.RECONCILABLE, EffectClass.IRREVERSIBLE)
"""From what promises most to what promises nothing."""


@pytest.mark.parametrize(("after", "before"), [*product(CLASSES, CLASSES)])
def test_a_tool_promises_no_more_than_before_in_silence(before: EffectClass, after: EffectClass) -> None:
    old, new = (PAY.model_copy(update={"effect_class": one, "has_probe": True}) for one in (before, after))
    current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="team")
    told = "the effect class would weaken" in judge_proposal(new, "team", current, trusting=False).reason
    assert told is (CLASSES.index(after) < CLASSES.index(before))


@pytest.mark.parametrize("change", [{"cost_usd": 1.0}, {"internal": True}, {"has_probe": True}, {"discovered": True}])
def test_a_spec_that_says_more_has_another_digest(change: dict[str, Any]) -> None:
    plain = ToolSpec(name="a", toolset="b")
    assert spec_digest(plain.model_copy(update=change)) != spec_digest(plain)


def test_texts_of_a_tool_that_only_reads_and_smaller_changes_are_taken_at_once() -> None:
    reads = PAY.model_copy(update={"effect_class": EffectClass.PURE})
    for old, change in (
        (reads, {"summary": "Look", "description": "Look it up."}),
        (PAY, {"timeout_ms": 45_000}),
        (PAY, {"cost_usd": 11.0}),
        (PAY, {"system_params": ("tenant", "user")}),
        (PAY.model_copy(update={"workspace": "read"}), {"workspace": ""}),
    ):
        current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="team")
        assert judge_proposal(old.model_copy(update=change), "team", current, trusting=False).status == "accepted"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([1], [True], True),
        ([True], [1], True),
        ([0, False], [False], False),
        ([1], [1.0], False),
        ([{"a": 1}], [{"a": True}], True),
        ([{"a": 1, "b": 2}, [1]], [[1], {"b": 2, "a": 1}], False),
        (["1"], [1], True),
        (['"'], [""], True),
        ([None], [None], False),
    ],
)
def test_listed_values_are_the_same_as_json_has_it(before: list[Any], after: list[Any], told: bool) -> None:
    assert bool(list(loosened({"enum": before}, {"enum": after}))) is told


SAME_HASH = [place * (2**61 - 1) for place in range(1, 3_001)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0] * 21_000 + [1], [1] * 21_000),
        (list(range(12_000)), [*range(11_999), "x"]),
        (SAME_HASH, SAME_HASH[::-1]),
        ([[]] * 10_000, [{}] * 10_000),
    ],
)
def test_the_time_to_compare_listed_values_grows_with_their_number_alone(before: list[Any], after: list[Any]) -> None:
    old, new = (PAY.model_copy(update={"parameters": {"properties": {"to": {"enum": one}}}}) for one in (before, after))
    current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="team")
    began = time.thread_time()
    judge_proposal(new, "team", current, trusting=False)
    assert time.thread_time() - began < 1  # value by value it would be ten seconds


def test_many_values_of_arguments_that_are_no_sinks_cost_little() -> None:
    sinks = tuple(f"sink{place}" for place in range(64))
    old = PAY.model_copy(update={"sinks": sinks, "parameters": {"properties": {"to": {}}}})
    new = old.model_copy(update={"parameters": {"properties": {"to": {"enum": list(range(12_000))}}}})
    current = ToolVersion(spec=old, version=1, digest=spec_digest(old), owner="team")
    began = time.thread_time()
    assert judge_proposal(new, "team", current, trusting=False).status == "accepted"
    assert time.thread_time() - began < 0.5


def test_a_comparison_that_was_made_before_is_used() -> None:
    looser = PAY.model_copy(update={"parameters": {**OLD, "required": []}})
    current = ToolVersion(spec=PAY, version=1, digest=spec_digest(PAY), owner="team")
    compared = compare_specs(looser, current)
    assert compared.new_digest == spec_digest(looser)
    again = judge_proposal(looser, "team", current, trusting=False, compared=compared)
    assert again == judge_proposal(looser, "team", current, trusting=False)
    assert compare_specs(PAY, current).loosened == compare_specs(looser, None).loosened == ()
