"""The costs of a goal run: a sum with an unknown addend is unknown, and never less."""

from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import RUN, Machine, use

from towpath_contracts import facts
from towpath_contracts.decisions.request import Cost
from towpath_readings.goals import GoalView, project_goal


def view(machine: Machine) -> GoalView:
    found = project_goal(RUN, machine.entries)
    assert found is not None
    return found


def paid(machine: Machine, text: str, usd: float | None) -> None:
    """Decide for a call, at that price, and end it."""
    cost = Cost(usd=usd, price_known=usd is not None)
    decision, asked = use("edit", text=text), machine.request_id
    machine.feed(facts.DecisionMadeFact(run_id=RUN, request_id=asked, attempt=1, decision=decision, cost=cost))
    machine.finish()


def test_c2_a_cost_is_unknown_where_one_of_its_parts_is() -> None:
    """Row C2: every field of TaskState, true at any moment."""
    machine = goal_run("tests.failed == 0")
    paid(machine, "1", 0.25)
    assert (view(machine).total_cost_usd, view(machine).steps_history[0].cost_usd) == (0.25, 0.25)
    paid(machine, "2", None)
    paid(machine, "3", 0.5)
    assert view(machine).total_cost_usd is None
    assert [step.cost_usd for step in view(machine).steps_history[:3]] == [0.25, None, 0.5]
