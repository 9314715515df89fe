"""What a goal's run, or its fork, begins with: settings filled in, a judge that is known, and what it may cost."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.engine.machine import RUN, agent, snapshot

from towpath_contracts.budgets import ModelPrice
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.goal import GoalSettings
from towpath_contracts.networks.spec import NetworkSnapshot, NetworkVersion
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.budget_scopes import BudgetLimits, models_of
from towpath_orchestrator.core.tasks import check_task, created_event, replayed_by_script
from towpath_orchestrator.settings import OrchestratorSettings

NOW = datetime(2026, 11, 22, tzinfo=UTC)
VERSION = NetworkVersion(
    project="default", name="desk", version=1, digest="sha256:0", published_at=NOW, published_by="me"
)


def network(**goal: Any) -> NetworkSnapshot:
    return snapshot(agent("a", model="openai:acts", allow_respond=True), goal=GoalSettings(**goal) if goal else None)


def begun(on: NetworkSnapshot, /, settings: dict[str, Any] | None = None, **more: Any) -> RunCreated:
    task = SubmitTask.model_validate({"network": "desk", "goal": {"goal": "g", "settings": settings}, **more})
    assert check_task(task, on, OrchestratorSettings(embedded=True)) is None
    return created_event(task, VERSION, on, "me", "sha256:1" if task.script is not None else None)


def objective(settings: dict[str, Any], **more: Any) -> RunCreated:
    given = {"network": "desk", "background": {"objective": "o", "settings": settings}, **more}
    task = SubmitTask.model_validate(given)
    return created_event(task, VERSION, network(), "me", "sha256:1" if task.script is not None else None)


def test_an_objective_needs_an_agent_that_can_plan_and_a_schema_that_can_be_used() -> None:
    background = {"objective": "o", "deliverable_schema": {"type": "strng"}}
    task = SubmitTask.model_validate({"network": "desk", "background": background})
    found = check_task(task, network(), OrchestratorSettings(embedded=True))
    assert found is not None and [(one.code, one.pointer) for one in found.errors] == [
        ("deliverable_schema_invalid", "/background/deliverable_schema"),
        ("plan_tools_missing", "/agent_key"),
    ]
    assert "plan_setup" in found.errors[1].detail


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({}, True),
        ({"allow_words": True}, False),
        ({"allow_words": True, "require_evidence": True}, True),
        ({"require_evidence": False}, False),
    ],
)
def test_c1_whether_evidence_is_needed_is_on_the_record(settings: dict[str, Any], needed: bool) -> None:
    """Row C1: what reaches a goal is fixed when its run begins."""
    assert begun(network(), settings).goal_settings.require_evidence is needed
    assert GoalSettings().require_evidence is None, "logs of earlier runs do not say so"


def test_a_judge_is_priced_and_budgeted_like_every_model_of_the_run() -> None:
    limits = BudgetLimits(
        lambda model: None if model == "openai:judge" else ModelPrice(input_micros=1, output_micros=1)
    )
    settings = {"judge_model": "openai:judge"}
    created = begun(network(), settings, budget={"usd": 1})
    assert models_of(created, network()) == {"openai:acts", "openai:judge"}
    with pytest.raises(ProblemError, match="no price is known of openai:judge"):
        limits.check(RUN, created, network(), NOW)


MET = [{"text": "It is done."}]
ASKED = {"agent_key": "a", "prompt": "Go.", "acceptance_criteria": MET}
PLAIN = {"agent_key": "a", "prompt": "Go."}
TEAM = CompiledSwarm(mode="team", members=("a", "b"), stages=(("a",),), delegates=("b",))
OUTER = CompiledSwarm(mode="team", members=("a", "team"), stages=(("a",),), delegates=("team",), swarms={"team": TEAM})
AROUND = CompiledSwarm(mode="workflow", members=("team",), stages=(("team",),), swarms={"team": TEAM})
ROUND = CompiledSwarm(mode="workflow", members=("a",), stages=(("a",),))


@pytest.mark.parametrize(
    ("swarm", "task", "asked"),
    [
        (None, {"plan": {"plan": {"steps": [{"type": "agent", "agent": ASKED}]}}}, True),
        (None, {"plan": {"plan": {"steps": [{"type": "parallel", "parallel": {"steps": [PLAIN, ASKED]}}]}}}, True),
        (None, {"plan": {"plan": {"steps": [{"type": "agent", "agent": PLAIN}]}}}, False),
        (None, {"plan": {"prompt": "Go."}}, False),
        (None, {"user_message": "Go."}, False),
        (TEAM, {"user_message": "Go."}, True),
        (AROUND, {"user_message": "Go."}, True),
        (ROUND, {"user_message": "Go."}, False),
        (TEAM, {"user_message": "Go.", "single_instruction": True}, False),
        (TEAM, {"user_message": "Go.", "script": []}, False),
        (TEAM, {"goal": {"goal": "g", "settings": {"judge_model": "openai:own"}}}, False),
        (OUTER, {"goal": {"goal": "g", "settings": {"judge_model": "openai:own"}}}, True),
    ],
)
def test_the_judge_of_goals_below_a_run_is_priced_with_it(
    swarm: CompiledSwarm | None, task: dict[str, Any], asked: bool
) -> None:
    limits = BudgetLimits(
        lambda model: None if model == "openai:judge" else ModelPrice(input_micros=1, output_micros=1)
    )
    on = network(judge_model="openai:judge").model_copy(update={"swarm": swarm})
    given = SubmitTask.model_validate({"network": "desk", "budget": {"usd": 1}, **task})
    created = created_event(given, VERSION, on, "me", "sha256:1" if given.script is not None else None)
    assert ("openai:judge" in models_of(created, on)) is asked
    if asked:
        with pytest.raises(ProblemError, match="no price is known of openai:judge"):
            limits.check(RUN, created, on, NOW)
    else:
        assert limits.check(RUN, created, on, NOW)


def test_the_script_of_a_fork_decides_and_judges_in_the_place_of_the_models_of_its_parent() -> None:
    on, script = network(judge_model="openai:judge"), [{"action": "RESPOND", "action_details": {"payload": {}}}]
    for parent in (begun(on), begun(network(), {"judge_model": "openai:mine", "max_steps": 3})):
        fork = replayed_by_script(parent.model_copy(update={"planner_model": "openai:plans"}), "sha256:2")
        assert models_of(fork, on) == {"scripted:task"}
        assert (fork.script_digest, fork.goal_settings.max_steps) == ("sha256:2", parent.goal_settings.max_steps)
    scripted = begun(on, {"judge_model": "agent:mine"}, script=script)
    assert replayed_by_script(scripted, "sha256:2").goal_settings.judge_model == "agent:mine", "its task wants it"
    settings = {"summarize_model": "openai:sums", "max_steps": 4}
    for parent in (objective(settings), objective(settings, script=script)):
        fork = replayed_by_script(parent, "sha256:2")
        kept = None if parent.script_digest is None else "openai:sums"
        assert (fork.background_settings.summarize_model, fork.background_settings.max_steps) == (kept, 4)
    plain = SubmitTask(network="desk", user_message="Go.")
    assert replayed_by_script(created_event(plain, VERSION, on, "me", None), "sha256:2").goal is None


def test_a_script_brings_its_judgements_along_unless_the_task_names_a_judge() -> None:
    on, script = network(judge_model="openai:judge"), [{"action": "RESPOND", "action_details": {"payload": {}}}]
    assert begun(on).goal_settings.judge_model == "openai:judge"
    assert begun(on, script=script).goal_settings.judge_model is None
    assert begun(on, {"judge_model": "agent:mine"}, script=script).goal_settings.judge_model == "agent:mine"


def test_a_judge_that_no_provider_has_is_refused_at_its_place() -> None:
    goal = {"goal": "g", "settings": {"judge_model": "mistral:large"}}
    task = SubmitTask.model_validate({"network": "desk", "goal": goal})
    refused = check_task(task, network(), OrchestratorSettings(embedded=True))
    assert refused is not None and refused.errors is not None
    (fault,) = refused.errors
    assert (fault.pointer, fault.code) == ("/goal/settings/judge_model", "model_unknown")
    assert "no provider is called 'mistral'" in fault.detail
