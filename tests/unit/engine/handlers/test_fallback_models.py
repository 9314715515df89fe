"""Several models for one agent: the next is asked where the one before can't answer, and what each used is counted."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.engine.machine import RUN, START, Machine, agent, respond, snapshot, types, use
from tests.unit.engine.handlers.stop_checks.test_budgets import Spender

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_engine.advance import wake_at
from towpath_engine.publish.networks import check, compile_snapshot
from towpath_readings.nodes import project_nodes

ONE, TWO, THREE = "gemini:one", "openai:two", "local:three"
NETWORK = snapshot(agent("a", allow_respond=True, equipped_tools=("echo",), model=ONE, fallback_models=(TWO, THREE)))


def machine_of(**options: Any) -> Machine:
    return Machine(NETWORK, agent_key="a", **options)


def asked(machine: Machine) -> tuple[str, int]:
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest)
    return request.model, request.attempt


def miss(machine: Machine, attempt: int, code: str = "model_unavailable", **more: Any) -> list[str]:
    told = {"request_id": machine.request_id, "attempt": attempt, "code": code, "message": "m", **more}
    return types(machine.feed(facts.DecisionFailedFact.model_validate({"run_id": RUN, **told})))


@pytest.mark.parametrize("code", ["model_unavailable", "model_timeout", "model_rate_limited", "model_refused"])
def test_b16_the_next_model_is_asked_at_once(code: str) -> None:
    """Row B16: several models for an agent."""
    machine = machine_of()
    assert asked(machine) == (ONE, 1)
    assert miss(machine, 1, code, retry_after_s=30 if code == "model_rate_limited" else None) == [
        "decision_postponed",
        "effect_resent",
    ]
    assert asked(machine) == (TWO, 2)
    miss(machine, 2, code)
    assert asked(machine) == (THREE, 3)


@pytest.mark.parametrize("code", ["model_unauthorized", "model_not_found", "context_too_long", "prompt_invalid"])
def test_a_fault_of_the_network_is_not_hidden_by_another_model(code: str) -> None:
    assert miss(machine_of(), 1, code) == ["decision_missed", "run_finished"]


def test_the_last_failure_ends_the_run() -> None:
    machine = machine_of()
    miss(machine, 1)
    miss(machine, 2)
    assert miss(machine, 3, "model_refused") == ["decision_missed", "run_finished"]
    assert machine.finished.reason == "model_refused"


@pytest.mark.parametrize("listed", [(ONE,), (TWO, ONE), (TWO, TWO)])
def test_a_list_that_names_a_model_twice_ends_all_the_same(listed: tuple[str, ...]) -> None:
    network = snapshot(agent("a", allow_respond=True, model=ONE, fallback_models=listed))
    machine = Machine(network, agent_key="a")
    attempt = 1
    while machine.state.pending and attempt < 10:
        miss(machine, attempt)
        attempt += 1
    assert machine.finished.reason == "model_unavailable"
    assert attempt == 1 + len({ONE, *listed})


def test_where_all_fail_the_run_waits_for_the_first_that_named_a_time_and_begins_anew() -> None:
    machine = machine_of()
    miss(machine, 1, "model_rate_limited", retry_after_s=90)
    miss(machine, 2, "model_rate_limited", retry_after_s=40)
    assert miss(machine, 3) == ["decision_postponed"]
    assert (wake_at(machine.state) - START).total_seconds() == 40  # type: ignore[operator]
    machine.wake()
    assert asked(machine) == (ONE, 4)


def test_a_repeated_word_about_a_model_that_was_left_changes_nothing() -> None:
    machine = machine_of()
    miss(machine, 1)
    assert miss(machine, 1) == []
    assert miss(machine, 1, "model_unauthorized") == []
    assert machine.state.pending[0].attempt == 2


def test_which_one_answered_is_recorded_and_the_next_step_begins_with_the_first() -> None:
    machine = machine_of()
    spent = {"usage": Usage(total_tokens=3, input_tokens=3, model_calls=3), "cost": Cost(usd=0.0, price_known=True)}
    miss(machine, 1, **{name: value.model_dump() for name, value in spent.items()})
    made = facts.DecisionMadeFact(
        run_id=RUN,
        request_id=machine.request_id,
        attempt=2,
        decision=use("echo", text="x"),
        model=TWO,
        usage=Usage(total_tokens=5, output_tokens=5, model_calls=1),
        cost=Cost(usd=0.25, price_known=True),
    )
    machine.feed(made)
    (received,) = machine.events(ev.DecisionReceived)
    (node,) = project_nodes(RUN, machine.entries).nodes
    assert (received.model, node.model) == (TWO, TWO)
    assert (node.usage.total_tokens, node.cost.usd, machine.state.cost.usd) == (8, 0.25, 0.25)
    machine.finish()
    assert asked(machine) == (ONE, 1)


def test_a_task_that_names_its_model_is_asked_of_that_alone() -> None:
    assert miss(machine_of(model="openai:mine"), 1) == ["decision_missed", "run_finished"]


def test_a_budget_holds_for_all_models_together() -> None:
    machine = Spender(
        network=snapshot(agent("a", allow_respond=True, model=ONE, fallback_models=(TWO,))), agent_key="a"
    )
    (first,) = machine.events(ev.DecisionRequested)
    assert machine.account()[0] == first.reserved
    miss(machine, 1, usage={"total_tokens": 7, "input_tokens": 7, "model_calls": 3})
    (again,) = machine.events(ev.EffectResent)
    assert machine.account()[0] == again.reserved
    assert machine.account()[1].tokens == 7
    assert [hold.model for hold in machine.budget.holds] == [TWO]
    machine.decide(respond("done"))


def test_a_list_of_models_is_written_where_one_is() -> None:
    spec = NetworkSpec.model_validate(
        {
            "name": "n",
            "model": [ONE, TWO],
            "agents": [
                {"key": "a", "is_default": True, "allow_respond": True},
                {"key": "b", "model": [THREE, ONE], "allow_respond": True},
                {"key": "c", "model": THREE, "allow_respond": True},
            ],
        }
    )
    assert NetworkSpec.model_validate(spec.model_dump(mode="json")) == spec
    agents = compile_snapshot(spec, {}).agents
    found = {key: (one.model, *one.fallback_models) for key, one in agents.items()}
    assert found == {"a": (ONE, TWO), "b": (THREE, ONE), "c": (THREE,)}


@pytest.mark.parametrize(
    "written",
    [{"model": []}, {"model": [1]}, {"model": [ONE], "fallback_models": [TWO]}, {"fallback_models": [TWO]}],
)
def test_a_list_of_no_models_and_one_without_a_first_are_refused(written: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentSpec.model_validate({"key": "a", **written})


def test_every_model_of_a_list_has_to_name_a_provider() -> None:
    listed = {"key": "a", "is_default": True, "allow_respond": True, "model": [ONE, "mistral:x"]}
    problems = check(NetworkSpec.model_validate({"name": "n", "model": [ONE, "x"], "agents": [listed]}), {})
    assert {(one.pointer, one.code) for one in problems} == {
        ("/fallback_models/0", "model_unknown"),
        ("/agents/0/fallback_models/0", "model_unknown"),
    }
