"""Tasks with a plan: refused at the door with everything that is wrong, and what their runs begin with."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.engine.plan_machine import NETWORK, ask, block, step

from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.runs.children import RunTreeCaps
from towpath_contracts.tasks import SubmitTask
from towpath_engine.rules.plan_goals import EXPRESSION_CHARS
from towpath_orchestrator.core.run_caps import caps_of
from towpath_orchestrator.core.tasks import check_task, created_event
from towpath_orchestrator.settings import OrchestratorSettings


def task(*steps: dict[str, Any], plan: dict[str, Any] | None = None, **more: Any) -> SubmitTask:
    given = {"plan": {"steps": list(steps)}} if plan is None else plan
    return SubmitTask.model_validate({"network": "desk", "plan": given, **more})


def refused(given: SubmitTask) -> list[tuple[str, str]]:
    found = check_task(given, NETWORK, OrchestratorSettings(embedded=True))
    return [] if found is None else [(one.pointer, one.code) for one in found.errors]


def created(given: SubmitTask) -> RunCreated:
    version = NetworkVersion(
        project="default", name="desk", version=1, digest="sha256:00", published_at=datetime.now(UTC), published_by="me"
    )
    return created_event(given, version, NETWORK, "me", None)


def test_e7_whoever_runs_the_platform_lowers_the_caps_of_trees_and_raises_none() -> None:
    """Row E7: caps are settings that can only lower."""
    lowered = OrchestratorSettings(embedded=True, max_plan_steps=1, max_depth=2)
    assert caps_of(OrchestratorSettings(embedded=True)) is None, "runs of a platform that lowers none record none"
    assert caps_of(lowered) == RunTreeCaps(max_depth=2, plan_steps=1)
    assert caps_of(lowered, RunTreeCaps(max_parallel=3, plan_steps=5)) == RunTreeCaps(
        max_depth=2, plan_steps=1, max_parallel=3
    )
    found = check_task(task(step("ann"), step("bob")), NETWORK, lowered)
    assert found is not None and [one.pointer for one in found.errors] == ["/plan/plan/steps"]
    for raised in ({"max_depth": 4}, {"max_plan_steps": 13}, {"max_parallel": 5}):
        with pytest.raises(ValidationError):
            OrchestratorSettings(embedded=True, **raised)


def test_e2_a_task_is_refused_with_every_fault_of_its_plan_at_its_place() -> None:
    """Row E2: all errors at once with paths."""
    assert refused(task(step("ghost"), block(ask("ann", "{{ result.none }}")))) == [
        ("/plan/plan/steps/0/agent/agent_key", "plan_invalid"),
        ("/plan/plan/steps/1/parallel/steps/0/prompt", "plan_invalid"),
    ]
    silent = {"plan": {"steps": [step("ann", "")]}}
    assert refused(task(plan=silent)) == [("/plan/plan/steps/0/agent", "plan_invalid")]
    assert not refused(task(plan=silent, user_message="Look."))
    assert refused(task(step("ann"), response_schema={"type": "object"}, single_instruction=True)) == [
        ("/response_schema", "plan_invalid"),
        ("/single_instruction", "plan_invalid"),
    ]
    assert refused(task(step("ann", "{{ bindings.x }}"))) and not refused(
        task(plan={"plan": {"steps": [step("ann", "{{ bindings.x }}")]}, "bindings": {"x": 1}})
    )
    assert refused(task(plan={"prompt": "x", "bindings": {"x": "y" * 300_000}})) == [
        ("/plan/bindings", "request_too_large")
    ]


def test_criteria_of_a_plan_are_bounded_together_and_in_what_each_agent_has_searched() -> None:
    def met(*criteria: str) -> dict[str, Any]:
        asked = step("ann")
        return {**asked, "agent": {**asked["agent"], "acceptance_criteria": [{"when": one} for one in criteria]}}

    text = "claimed == '" + "x" * (EXPRESSION_CHARS // 16 - len("claimed == ''")) + "'"
    half = [text] * 8
    assert refused(task(met(*half), met(*half))) == []
    assert refused(task(met(*half), met(*half[1:], text + " "))) == [("/plan/plan/steps", "request_too_large")]
    costly = [rf"last_output.text.matches('\\pL{{20}}{place}')" for place in range(3)]
    assert refused(task(met(*costly[:2]), met(costly[2]))) == []
    assert refused(task(met(*costly), step("bob"))) == [
        ("/plan/plan/steps/0/agent/acceptance_criteria/2/when", "criterion_invalid")
    ]


def test_e7_the_time_of_a_plan_can_only_lower_that_of_its_run() -> None:
    """Row E7: timeouts min(own, parent); callers can only lower."""
    made = created(task(plan={"prompt": "Do it.", "timeout_ms": 5_000}, timeout_ms=60_000))
    assert (made.kind, made.timeout_ms, made.user_message) == ("plan", 5_000, "Do it.")
    assert created(task(plan={"prompt": "Do it.", "timeout_ms": 86_400_000}, timeout_ms=60_000)).timeout_ms == 60_000
    assert created(task(step("ann"), plan=None)).timeout_ms == NETWORK.timeout_ms


@pytest.mark.parametrize(
    "given",
    [
        {"max_parallel": 5},
        {"max_parallel": 0},
        {"timeout_ms": 0},
        {"prompt": "both"},
        {"depth": 9},
        {"max_steps": 99},
    ],
)
def test_e7_no_field_of_a_plan_raises_a_cap(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        task(plan={"plan": {"steps": [step("ann")]}, **given})


def test_a_task_is_of_one_kind() -> None:
    with pytest.raises(ValidationError, match="one of a goal, a background objective and a plan"):
        task(step("ann"), goal={"goal": "x"})
    assert created(
        task(plan={"plan": {"name": "Poem", "description": "Two lines.", "steps": [step("ann")]}})
    ).user_message == ("Poem\nTwo lines.")
