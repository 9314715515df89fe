"""How large the parts of a task may be: each is taken to the last byte of its limit, and refused whole above it."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.engine.machine import agent, snapshot

from towpath_contracts.problems.registry import Problem
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.tasks import check_task
from towpath_orchestrator.settings import OrchestratorSettings

KIB = 1024
NETWORK = snapshot(agent("planner", equipped_tools=("plan_setup",)))


def check(**parts: Any) -> Problem | None:
    return check_task(SubmitTask(network="desk", **parts), NETWORK, OrchestratorSettings(embedded=True))


def labels(text: str) -> dict[str, Any]:
    return {"user_message": "m", "labels": {"a": text}}


def system_params(text: str) -> dict[str, Any]:
    return {"user_message": "m", "system_params": {"a": text}}


def user_message(text: str) -> dict[str, Any]:
    """Characters of four bytes: a message has at most 100,000 characters, however many bytes they are."""
    return {"user_message": "\U0001f642" * (len(text) // 4) + "x" * (len(text) % 4)}


@pytest.mark.parametrize(
    ("part", "empty", "limit"),
    [(user_message, len('""'), 256 * KIB), (system_params, len('{"a":""}'), 32 * KIB), (labels, 8, 16 * KIB)],
)
def test_a_part_of_a_task_is_taken_up_to_its_limit(
    part: Callable[[str], dict[str, Any]], empty: int, limit: int
) -> None:
    assert check(**part("x" * (limit - empty))) is None
    refused = check(**part("x" * (limit - empty + 1)))
    assert refused is not None and refused.code == "request_too_large" and f"has {limit + 1} bytes" in refused.detail


def goal(text: str) -> dict[str, Any]:
    return {"goal": {"goal": "g", "constraints": {"a": text}}}


def objective(text: str) -> dict[str, Any]:
    sections = [{"title": "s", "text": text[start : start + 40_000]} for start in range(0, 120_000, 40_000)]
    return {"background": {"objective": "o", "context_sections": sections, "deliverable_schema": {"a": text[120_000:]}}}


@pytest.mark.parametrize(("part", "pointer"), [(goal, "/goal"), (objective, "/background")])
def test_a_goal_and_an_objective_have_at_most_128_kib(part: Callable[[str], dict[str, Any]], pointer: str) -> None:
    """Each request to a model holds all of it."""
    said = check(**part("x" * 200 * KIB))
    assert said is not None
    (told,) = [one for one in said.errors if one.code == "request_too_large"]
    size = int(told.detail.partition(" bytes")[0].rpartition(" ")[2])
    empty = size - 200 * KIB
    assert check(**part("x" * (128 * KIB - empty))) is None
    above = check(**part("x" * (128 * KIB + 1 - empty)))
    assert above is not None and [(one.pointer, one.code) for one in above.errors] == [(pointer, "request_too_large")]
