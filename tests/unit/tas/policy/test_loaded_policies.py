"""A large policy is built in threads of its own, once for as long as its rules stay; a small one on the loop."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from towpath_tas.adapters.cel import compile_condition
from towpath_tas.app import loaded_policies
from towpath_tas.app.loaded_policies import LoadedPolicies, PolicyNotLoadedError, StoredPolicy, StoredShadow
from towpath_tas.core.policy.conditions import Condition, ConditionBudget, ConditionContext
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import rule_row, rules_digest

CONDITION = "false && {} == 1 && args.a == [" + ",".join("1" for _ in range(400)) + "]"


def stored(conditions: int, version: int = 1, note: str = "") -> StoredPolicy:
    rules = [Rule(name=f"r{n}", effect="deny", when=CONDITION.format(n), note=note) for n in range(conditions)]
    columns = [(n, rule.name, rule.effect, rule.tool, rule.operation) for n, rule in enumerate(rules)]
    applied = rules_digest((*row, rule_row(rule)) for row, rule in zip(columns, rules, strict=True))
    names = ("place", "name", "effect", "tool", "operation")
    rows = [
        {**dict(zip(names, row, strict=True)), "rule": json.dumps(rule_row(rule))}
        for row, rule in zip(columns, rules, strict=True)
    ]
    return StoredPolicy(version=version, applied=applied, rows=rows)


def shadow(conditions: int) -> StoredShadow:
    rows = [json.loads(row["rule"]) for row in stored(conditions).rows]
    return StoredShadow(digest=f"digest of {conditions}", text=json.dumps(rows))


@pytest.fixture
def compiled_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kind of thread of every compilation."""
    threads: list[str] = []

    def note(text: str) -> Condition:
        threads.append(threading.current_thread().name.rpartition("_")[0])
        return compile_condition(text)

    monkeypatch.setattr(loaded_policies, "compile_condition", note)
    return threads


@pytest.mark.parametrize("make", [stored, shadow])
async def test_the_conditions_of_a_large_policy_are_all_compiled_in_its_own_threads(
    compiled_in: list[str], make: Callable[[int], Any]
) -> None:
    policy = await LoadedPolicies().of("p", make(30), None)
    assert compiled_in == ["policy-loads"] * 30
    context = ConditionContext({"args": {"a": 1}}, ConditionBudget())
    assert not any(policy.matrix.applies(rule, context) for rule in policy.matrix.rules)
    assert len(compiled_in) == 30


async def test_a_small_policy_is_built_on_the_loop_and_compiled_when_it_is_needed(compiled_in: list[str]) -> None:
    policy = await LoadedPolicies().of("p", stored(2), 0)
    assert (len(policy.matrix.rules), policy.changed, compiled_in) == (2, False, [])


async def test_what_was_built_is_kept_until_its_rules_change(compiled_in: list[str]) -> None:
    policies = LoadedPolicies()
    first, second = await policies.of("p", stored(30), None), await policies.of("p", shadow(20), None)
    for _ in range(3):  # as often as the registry changes
        assert await policies.of("p", stored(30), 0) is first
        assert await policies.of("p", shadow(20), 0) is second
    assert len(compiled_in) == 50
    other = stored(30, note="other")
    forged = StoredPolicy(version=1, applied=stored(30).applied, rows=other.rows)
    assert (await policies.of("p", other, None)).changed is False
    assert (await policies.of("p", stored(30, version=2), None)).matrix.version == 2
    refused = await policies.of("p", forged, None)
    assert (refused.changed, refused.matrix.rules) == (True, ())
    policies.forget("p")
    assert await policies.of("p", stored(30), None) is not first


async def test_a_build_goes_on_where_nobody_waits_and_holds_up_no_other_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, begun, build = threading.Event(), list[str](), loaded_policies._built_whole

    def held(policy: StoredPolicy) -> loaded_policies.LoadedPolicy:
        begun.append(threading.current_thread().name)
        assert go_on.wait(20)
        return build(policy)

    monkeypatch.setattr(loaded_policies, "_built_whole", held)
    policies = LoadedPolicies()
    try:
        for _ in range(3):
            with pytest.raises(PolicyNotLoadedError):
                await policies.of("p", stored(30), 0.01)
        assert len(begun) == 1
        assert not (await policies.of("other", stored(2), 0)).changed
    finally:
        go_on.set()
    async with asyncio.timeout(60):
        await policies.wait("p", None)
    assert len((await policies.of("p", stored(30), 0)).matrix.rules) == 30
    assert len(begun) == 1


async def test_a_build_that_fails_is_told_and_tried_again() -> None:
    policies = LoadedPolicies()
    broken = StoredShadow(digest="d", text='[{"nothing": "' + "x" * 40_000 + '"}]')
    for _ in range(2):
        with pytest.raises(TypeError):
            await policies.of("p", broken, None)
    assert len((await policies.of("p", stored(30), None)).matrix.rules) == 30
