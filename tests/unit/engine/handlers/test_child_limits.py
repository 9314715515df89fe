"""Limits of a run hold for it and all runs below it: what a child is counted with, and what it begins with."""

import pytest
from tests.support.engine.goal_machine import deny, goal_run
from tests.support.engine.machine import RUN, Machine, use
from tests.unit.engine.handlers.test_children import asked, born

from towpath_contracts import facts
from towpath_contracts.budgets import RunBudgetAccount
from towpath_contracts.decisions.request import Cost
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolRequest
from towpath_engine.advance import advance
from towpath_engine.state.run import RunState


def called(run: RunState, cost: Cost, machine: Machine) -> tuple[RunState, ToolRequest]:
    """Let a run decide for a tool, at a *cost*; returns it, and what it asks of the service."""
    fields = {"request_id": run.pending[0].effect_id, "attempt": 1, "decision": use("echo", text="a"), "cost": cost}
    fact = facts.DecisionMadeFact.model_validate({"run_id": run.run_id, **fields})
    _, effects, run = advance(run, fact, machine.now)
    return run, next(effect.message for effect in effects if isinstance(effect.message, ToolRequest))


def cost_of(usd: float | None) -> Cost:
    return Cost(usd=usd, price_known=usd is not None)


@pytest.mark.parametrize(
    ("above", "own", "expected"), [(0.25, 0.5, 0.75), (0.25, None, None), (None, 0.5, None), (0.0, 0.0, 0.0)]
)
def test_a_child_is_counted_with_its_root_and_costs_what_was_spent_above_it_too(
    above: float | None, own: float | None, expected: float | None
) -> None:
    """A `max_cost_per_run_usd` that is used up stays so in a child, and one unknown price makes the sum unknown."""
    machine = Machine()
    machine.state, request = called(machine.state, cost_of(above), machine)
    assert request.root_run_id is None and "root_run_id" not in request.model_dump_json()
    (started,) = asked(machine, "expert")
    child = born(machine.state, started, machine)
    _, _, child = advance(child, facts.RunAdmittedFact(run_id=child.run_id), machine.now)
    child, request = called(child, cost_of(own), machine)
    assert (request.run_id, request.root_run_id, request.spent_usd) == (started.child_id, RUN, expected)


def test_no_specialist_is_asked_where_a_limit_denied() -> None:
    """A limit is of the whole run: another agent would use it up as well, so that a person is asked at once."""
    machine = goal_run("tests.failed == 0", specialists=["senior"])
    machine.decide(use("deploy", text="x"))
    deny(machine, violation_type="limit_exceeded", reason="deploy was called 3 times in this run already")
    assert not machine.events(ev.ChildStarted)
    assert [gate.gate_type for gate in machine.state.gates] == ["permission"]


def test_a_run_that_is_stopped_asks_nobody_whether_it_may_spend_more() -> None:
    """A gate opened after a cancel could end the run otherwise than cancelled."""
    machine = Machine()
    scopes = (RunBudgetAccount(scope="project", key="default"),)
    machine.feed(facts.BudgetAccountsAppliedFact(run_id=RUN, scopes=scopes, prices={}))
    machine.decide(use("echo", text="a"))
    machine.feed(facts.CancelRequestedFact(run_id=RUN, by="ann"))
    fields = {"scope": "project", "key": "default", "unit": "tokens", "limit": 1000, "spent": 800, "on_soft": "gate"}
    assert machine.feed(facts.BudgetWarnedFact.model_validate({"run_id": RUN, **fields})) == []
