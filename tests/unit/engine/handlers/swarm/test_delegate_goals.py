"""Members that a lead asks with acceptance criteria: goal runs, whose ends are the outcomes of the calls."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.engine.machine import Machine, respond, use
from tests.support.engine.team_machine import INNER, NETWORK, TEAM, TeamLeadRun

from towpath_contracts.events import log as ev
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.networks.child_tools import DelegatedTask, delegate_spec
from towpath_contracts.networks.goal import Criterion, GoalSettings
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_engine.handlers.children import new_child_run
from towpath_engine.rules.plan_goals import delegate_faults

FLOW = INNER.model_copy(update={"mode": "workflow", "delegates": ()})
TEAM_WITH_FLOW = TEAM.model_copy(
    update={"delegates": (*TEAM.delegates, "flow"), "swarms": {"inner": INNER, "flow": FLOW}}
)
LEAD = NETWORK.agents["lead"]
WITH_FLOW = NETWORK.model_copy(
    update={
        "agents": {
            **NETWORK.agents,
            "lead": LEAD.model_copy(update={"equipped_tools": (*LEAD.equipped_tools, "delegate_to_flow")}),
        },
        "tools": {**NETWORK.tools, "delegate_to_flow": delegate_spec("flow")},
        "swarm": TEAM_WITH_FLOW,
    }
)
ECHOED = {"when": "results.exists(r, r.tool == 'echo' && r.status == 'succeeded')"}
WELL = {"name": "well", "text": "It is well done."}


def network(**settings: Any) -> NetworkSnapshot:
    ann = NETWORK.agents["ann"].model_copy(update={"equipped_tools": ("echo",)})
    told = {"goal": GoalSettings(**settings), "agents": {**NETWORK.agents, "ann": ann}}
    return NETWORK.model_copy(update=told)


def asked(*criteria: Any, on: NetworkSnapshot = NETWORK, member: str = "ann", **more: Any) -> TeamLeadRun:
    """A lead that has asked a member, with *criteria* and other arguments."""
    arguments = {name: more.pop(name) for name in ("max_steps", "timeout_ms") if name in more}
    run = TeamLeadRun(network=on, **more)
    run.decide(use(f"delegate_to_{member}", task="Echo it.", acceptance_criteria=list(criteria), **arguments))
    run.permit()
    return run


def child_of(run: TeamLeadRun) -> ev.RunCreated:
    return new_child_run(run.state, run.children[0]).task


def pursued(run: TeamLeadRun, on: NetworkSnapshot) -> Machine:
    """The run of the member, which decides by hand."""
    return Machine(on, **child_of(run).model_dump(mode="json"))


def tell(run: TeamLeadRun, child: Machine) -> ev.ToolCallFinished:
    """Report the end of the member's run to its lead; returns the outcome of the call."""
    run.end(status=child.finished.status, reason=child.finished.reason, final=child.finished.final)
    return run.results[0]


def test_a_member_that_is_asked_with_criteria_works_in_a_goal_run() -> None:
    on = network(judge_model="local:judge", allow_words=True, max_steps=4)
    child = child_of(asked(ECHOED, WELL, on=on, script_digest=None))
    assert child.goal is not None and (child.kind, child.goal.goal, child.user_message) == ("goal", *["Echo it."] * 2)
    assert [one.words() for one in child.goal.acceptance_criteria] == [ECHOED["when"], WELL["text"]]
    settings = child.goal_settings
    assert (settings.judge_model, settings.allow_words, settings.require_evidence) == ("local:judge", True, False)
    assert child.max_steps == 4, "as many as the network gives to goals"
    strict = child_of(asked(WELL)).goal_settings
    assert (strict.judge_model, strict.allow_words, strict.require_evidence) == (None, False, True)
    assert child_of(asked(WELL, on=on, script_digest="sha256:aa")).goal_settings.judge_model is None
    plain = child_of(asked())
    assert (plain.kind, plain.goal, plain.max_steps) == ("network", None, 10), "a member works as always without them"
    assert plain.parent is not None and "wants_criteria" not in plain.parent.model_dump(mode="json")


def test_a_member_of_a_lead_that_pursues_a_goal_is_judged_as_the_lead_is() -> None:
    settings = {"judge_model": "local:mine", "autonomy": "low", "max_steps": 9, "validate_steps": False}
    lead = {"kind": "goal", "goal": {"goal": "Do it.", "acceptance_criteria": [ECHOED], "settings": settings}}
    on = network(judge_model="local:judge", max_steps=3)
    child = child_of(asked(WELL, on=on, script_digest=None, **lead))
    assert (child.goal_settings.judge_model, child.goal_settings.autonomy) == ("local:mine", "low")
    assert child.goal_settings.require_evidence is True
    assert child.max_steps == 3, "its steps are its own, and never more than the lead's"


@pytest.mark.parametrize(("given", "steps", "timeout_ms"), [(2, 2, 5_000), (900, 10, 99_000_000)])
def test_a_lead_only_lowers_the_steps_and_the_time_of_a_member(given: int, steps: int, timeout_ms: int) -> None:
    child = child_of(asked(ECHOED, max_steps=given, timeout_ms=min(timeout_ms, 86_400_000)))
    left = asked().children[0].task.timeout_ms
    assert left is not None
    assert (child.max_steps, child.timeout_ms) == (steps, min(timeout_ms, left))


def test_a_goal_that_is_reached_is_the_outcome_of_the_call_with_its_answer() -> None:
    on = network(validate_steps=False)
    run = asked(ECHOED, on=on)
    child = pursued(run, on)
    child.decide(respond("I am done."))
    assert not child.state.is_final, "a word alone is not believed"
    child.decide(use("echo", text="a"))
    child.finish(0, {"said": "a"})
    outcome = tell(run, child)
    assert (child.finished.reason, outcome.status) == ("criteria_met", "succeeded")
    met = [{"number": 0, "criterion": ECHOED["when"], "met": True}]
    assert outcome.result == {"goal": "reached", "criteria": met, "answer": {"said": "a"}}
    claimed = asked(ECHOED, on=on)
    claimed.end(reason="criteria_met", final={"message": "I said a."})
    assert claimed.results[0].result["answer"] == {"message": "I said a."}


def test_a_goal_that_is_not_reached_fails_the_call_and_says_what_is_missing() -> None:
    on = network(validate_steps=False)
    never = {"name": "twice", "when": "size(results) == 2"}
    run = asked(ECHOED, never, on=on, max_steps=1)
    child = pursued(run, on)
    child.decide(use("echo", text="a"))
    child.finish(0, "a")
    outcome = tell(run, child)
    assert child.finished.reason == "max_steps_exceeded"
    assert outcome.failure is not None and (outcome.status, outcome.failure.code) == ("failed", "delegation_failed")
    assert outcome.failure.message.endswith("these acceptance criteria are not met: 1 (size(results) == 2)")
    assert outcome.result["goal"] == "not_reached" and outcome.result["last_output"] == "a"
    assert [one["met"] for one in outcome.result["criteria"]] == [True, False]
    assert run.context.outputs[0].status == "failed" and "not_reached" in run.context.outputs[0].text
    assert run.state.asked == "decide", "the lead goes on"
    gone = asked(ECHOED, on=on)
    gone.end(status="quarantined", reason="log_unreadable")
    assert gone.results[0].result == {"goal": "not_reached"}


@pytest.mark.parametrize(
    ("criteria", "member", "code", "expected"),
    [
        ([{"when": "now() > 1"}, {"when": "progress"}], "ann", "criterion_invalid", "acceptance_criteria/1/when"),
        ([{"when": f"last_output == '{'x' * 900}'"}] * 3, "ann", "criterion_invalid", "the limit is 2048"),
        ([{"when": "tests.failed == 0"}], "ann", "criterion_invalid", "no tool of the network reports tests"),
        ([{"name": "neither"}], "ann", "arguments_invalid", "give either when (an expression) or text"),
        ([ECHOED], "flow", "criterion_invalid", "flow is a swarm (workflow): only a team pursues a goal"),
    ],
)
def test_criteria_that_can_not_be_met_fail_the_call_before_anything_begins(
    criteria: list[Any], member: str, code: str, expected: str
) -> None:
    run = asked(*criteria, on=WITH_FLOW, member=member, swarm={"swarm": WITH_FLOW.swarm})
    (result,) = run.results
    assert result.failure is not None and not run.children
    assert (result.failure.code, result.failure.began) == (code, False) and expected in result.failure.message


def test_a_nested_team_pursues_the_goal_that_it_is_asked_for() -> None:
    run = asked(ECHOED, member="inner")
    child = child_of(run)
    assert (child.kind, child.agent_key) == ("goal", "gus")
    assert child.swarm is not None and child.swarm.swarm == INNER


def test_criteria_that_a_person_changed_are_those_of_the_goal() -> None:
    run = TeamLeadRun()
    run.decide(use("delegate_to_ann", task="Echo it.", acceptance_criteria=[WELL]))
    run.permit(executed_args={"task": "Echo it.", "acceptance_criteria": [ECHOED]}, edited_by="eve")
    child = child_of(run)
    assert child.goal is not None and child.goal.acceptance_criteria[0].words() == ECHOED["when"]
    run.end(final={"message": "a"})
    assert [one["criterion"] for one in run.results[0].result["criteria"]] == [ECHOED["when"]]


def test_the_expressions_of_a_member_s_criteria_have_2048_characters_together() -> None:
    long = Criterion(when="claimed == '" + "x" * (1_024 - len("claimed == ''")) + "'")
    assert delegate_faults("ann", (long, long), None, NETWORK) == []
    more = Criterion(when="true")
    assert "have 2052 characters" in delegate_faults("ann", (long, long, more), None, NETWORK)[0]


@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        ({"task": "x" * 32_000}, {"task": "x" * 32_001}),
        ({"acceptance_criteria": [{"when": "true"}] * 16}, {"acceptance_criteria": [{"when": "true"}] * 17}),
        ({"max_steps": 1}, {"max_steps": 0}),
        ({"max_steps": 1_000}, {"max_steps": 1_001}),
        ({"timeout_ms": 1}, {"timeout_ms": 0}),
        ({"timeout_ms": 24 * 3_600_000}, {"timeout_ms": 24 * 3_600_000 + 1}),
        ({}, {"acceptance_criteria": [{"when": "true", "unless": "x"}]}),
    ],
)
def test_a_model_is_told_the_bounds_that_its_task_for_a_member_has(
    taken: dict[str, Any], refused: dict[str, Any]
) -> None:
    told = delegate_spec("ann").parameters
    DelegatedTask.model_validate(taken)
    with pytest.raises(ValidationError):
        DelegatedTask.model_validate(refused)
    assert schema_faults(told, {"task": "t", **taken}) == () != schema_faults(told, {"task": "t", **refused})
