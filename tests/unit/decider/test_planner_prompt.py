"""Plans that a model writes: tools off, bound to a schema, mended once."""

from typing import Any

import pytest
from tests.support.engine.machine import agent, snapshot, types
from tests.support.engine.plan_machine import AGENTS, PlanRun, ask, block, step

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.json_schema import schema_faults, unusable_schema
from towpath_contracts.networks.plan_checks import check_plan
from towpath_decider.core.answer_checks import check_for, expected_schema
from towpath_decider.core.answer_schema import schema_of
from towpath_decider.core.answers import RefusedAnswer
from towpath_decider.core.prompt import render
from towpath_decider.core.script import Script


def planner(**more: Any) -> PlanRun:
    return PlanRun(prompt="Write a poem about locks.", **more)


def request_of(run: PlanRun) -> DecisionRequest:
    (request,) = run.requests
    assert isinstance(request, DecisionRequest)
    return request


def test_e3_the_planner_is_asked_with_tools_off_and_bound_to_a_schema() -> None:
    """Row E3: structured path and prompt path (planner with tools off, schema-bound); it can't call itself."""
    armed = agent("lead", equipped_tools=("echo",), allowed_routes=("ann",), allow_respond=True, prompt="Call tools!")
    run = planner(network=snapshot(armed, *AGENTS[1:]))
    request = request_of(run)
    context = request.context
    assert (request.kind, request.step) == (DecisionKind.COMPILE_PLAN, 0)
    assert (context.tools, context.routes, context.allow_respond, context.base_prompt) == ((), (), False, "")
    schema = request.response_schema
    assert schema is not None and unusable_schema(schema) == ""
    assert not schema_faults(schema, {"steps": [step("ann", id="a"), block(ask("bob"), ask("cid"), id="b")]})
    assert schema_faults(schema, {"steps": [step("ghost", id="a")]}) and schema_faults(schema, {"steps": []})
    assert schema_faults(schema, {"steps": [step("ann", id=f"s{n}") for n in range(13)]})
    prompt = render(context, expected_schema(request), request.kind)
    assert "# Task: write a plan" in prompt.instructions and "USE_TOOL" not in prompt.instructions
    assert "Call tools!" not in prompt.text and '"agent_key"' in prompt.instructions
    assert "Write a poem about locks." in prompt.context and "## Who can be asked" in prompt.context
    assert schema_of(request)["properties"]["steps"]["type"] == "array"


def test_e3_a_written_plan_is_carried_out() -> None:
    """Row E3: prompt path."""
    run = planner(task={"bindings": {"n": 3}})
    events = run.decide({"name": "poem", "steps": [step("ann", "{{ bindings.n }} lines", result_key="poem")]})
    assert types(events) == [
        "decision_received", "plan_accepted", "plan_moved", "plan_moved", "plan_step_started", "child_started",
        "plan_moved",
    ]  # fmt: skip
    (accepted,) = run.events(ev.PlanAccepted)
    assert (accepted.origin, accepted.plan.name) == ("planned", "poem") and run.asked == [("ann", "3 lines")]
    run.end()
    assert run.output["success"] and run.state.step == 1


@pytest.mark.parametrize("unreadable", [False, True])
def test_e3_a_wrong_plan_is_mended_once_with_every_fault_listed(unreadable: bool) -> None:
    """Row E3: one corrective retry."""
    run = planner()
    if unreadable:
        run.miss("invalid_output", "no JSON")
        wanted = ["the answer is no JSON object"]
    else:
        run.decide({"steps": [step("ghost"), block(id="two")]})
        wanted = [
            "steps[0].agent.agent_key 'ghost' is not an agent here; agents are: ann, bob, cid, dan, eve, lead",
            "steps[1].parallel.steps needs at least 1 agent",
        ]
    request = request_of(run)
    assert request.context.assessment is not None and request.context.assessment["faults"] == wanted
    shown = request.context.assessment["last_plan"]
    assert shown is None if unreadable else shown["steps"][0] == step("ghost")
    assert f"- {wanted[0]}" in render(request.context, expected_schema(request), request.kind).context
    run.decide({"steps": [step("ann")]})
    run.end()
    assert run.output["success"] and run.output["errors"] == []
    assert run.path[:4] == ["plan_init", "planner_active", "planner_active", "plan_validated"]


def test_e3_a_plan_that_is_wrong_twice_ends_the_run_with_every_fault() -> None:
    """Row E3: one corrective retry, and no second one."""
    run = planner()
    run.decide({"steps": []})
    events = run.decide({"steps": [step("ghost"), {"id": "x"}]})
    assert types(events) == ["decision_received", "plan_moved", "run_finished"]
    assert (run.finished.status, run.finished.reason) == ("failed", "plan_invalid")
    assert run.triggers == ["start_plan", "start_plan", "validation_failed"] and run.children == []
    (error,) = run.output["errors"]
    assert len(error["error"]["faults"]) == 3 and run.output["steps"] == []


def test_e3_the_planner_may_have_a_model_of_its_own() -> None:
    assert request_of(planner(planner_model="openai:planner")).model == "openai:planner"
    assert request_of(planner()).model == "scripted:task"
    assert request_of(planner(model="openai:any")).model == "openai:any"


def test_e3_the_schema_and_the_check_agree_on_what_a_model_may_write() -> None:
    schema = request_of(planner()).response_schema
    assert schema is not None
    written: list[dict[str, Any]] = [
        {"steps": [step("ann", id="a")]},
        {"steps": [block(ask("ann"), id="a", merge_strategy="fail_fast", max_concurrency=2)]},
        {"steps": [{"id": "a", "type": "agent", "agent": ask("ann", **{"with": {"x": 1}}, timeout_ms=5)}]},
        {"steps": [step("ann", id="a b")]},
        {"steps": [block(id="a")]},
        {"steps": [step("ann", id="a", retries=2)]},
    ]
    names = [one.key for one in AGENTS]
    for plan in written:
        assert bool(schema_faults(schema, plan)) == bool(check_plan(plan, agents=names)[1]), plan


def test_e3_the_decider_leaves_the_faults_of_a_plan_to_the_run() -> None:
    check = check_for(request_of(planner()))
    assert not isinstance(check, RefusedAnswer) and check({"steps": "wrong"}) == ""


def test_e3_a_script_has_a_queue_of_its_own_for_plans() -> None:
    script = Script([{"agent": "lead", "action": "RESPOND"}, {"kind": "compile_plan", "steps": []}, {"action": "X"}])
    answer = script.next_answer("lead", {}, DecisionKind.COMPILE_PLAN)
    assert answer is not None and (answer.use.queue, answer.use.index, answer.text(0)) == (
        ":compile_plan",
        1,
        '{"steps":[]}',
    )
    assert script.next_answer("lead", {":compile_plan": 2}, DecisionKind.COMPILE_PLAN) is None
