"""Names of the source designs that callers may use (docs/reference/sources.md), and what stays wrong."""

from typing import Any

import pytest
from pydantic import ValidationError

from towpath_contracts.networks.background import BackgroundRunSettings
from towpath_contracts.networks.goal import GoalTask
from towpath_contracts.networks.plan_checks import check_plan
from towpath_contracts.tasks import SubmitTask


def planned(*steps: dict[str, Any]) -> Any:
    task = SubmitTask.model_validate({"network": "support", "plan": {"plan": {"steps": list(steps)}}})
    assert task.plan is not None and task.plan.plan is not None
    return task.plan.plan


def test_agents_and_actions_of_a_plan_may_be_named_as_the_source_does() -> None:
    asked = {"agent_id": "ann", "action_id": "triage", "prompt": "Look at {{ bindings.order }}."}
    alone = {"agent_id": "bob", "action_id": "sum up"}
    plan = planned(
        {"id": "one", "type": "agent", "agent": asked},
        {"id": "two", "type": "parallel", "parallel": {"steps": [alone]}},
    )
    checked, faults = check_plan(plan, agents=["ann", "bob"], bindings=["order"], self_contained=True)
    assert (faults, checked is not None) == ([], True)
    assert plan["steps"][0]["agent"] == {"agent_key": "ann", "prompt": "Action: triage\nLook at {{ bindings.order }}."}
    assert plan["steps"][1]["parallel"]["steps"] == [{"agent_key": "bob", "prompt": "Action: sum up"}]
    assert "agent_id" in asked, "what was given is not changed"


def test_what_is_wrong_in_a_plan_stays_for_its_check() -> None:
    both = {"id": "one", "type": "agent", "agent": {"agent_id": "ann", "agent_key": "bob", "action_id": 7}}
    plan = planned(both, "no step")  # type: ignore[arg-type]
    _, faults = check_plan(plan, agents=["ann", "bob"])
    assert {"/steps/0/agent/agent_id", "/steps/0/agent/action_id", "/steps/1"} <= {fault.pointer for fault in faults}


def test_iterations_are_steps_and_a_text_is_a_criterion() -> None:
    settings = BackgroundRunSettings.model_validate({"max_iterations": 7})
    assert (settings.max_steps, settings.model_dump()) == (7, {"max_steps": 7})
    with pytest.raises(ValidationError, match="max_iterations"):
        BackgroundRunSettings.model_validate({"max_iterations": 7, "max_steps": 8})
    goal = GoalTask.model_validate({"goal": "ship", "acceptance_criteria": ["it is shipped", {"when": "true"}]})
    assert [(one.text, one.when) for one in goal.acceptance_criteria] == [("it is shipped", None), (None, "true")]
