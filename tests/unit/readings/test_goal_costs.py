"""The costs of a goal run: those of its whole tree, and a sum with an unknown addend is unknown, and never less."""

from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import RUN, Machine, use
from tests.support.engine.team_machine import TeamLeadRun

from towpath_contracts import facts
from towpath_contracts.budgets import ChargedAttempt
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
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


GOAL = {"goal": "Do it.", "settings": {"validate_steps": False}}
KNOWN = Cost(usd=0.25, price_known=True)


def children_end(run: TeamLeadRun, *told: tuple[Usage, Cost, Usage | None, Cost | None]) -> None:
    for child, (usage, cost, usage_below, below) in zip(run.children, told, strict=False):
        about = {"usage": usage, "cost": cost, "usage_below": usage_below, "below": below}
        ended = {"child_id": child.child_id, "child_seq": 9, "status": "completed", "ended": True, "final": {"n": 1}}
        run.feed(facts.ChildReportedFact(run_id=RUN, **ended, **about))


def lead_of_two() -> TeamLeadRun:
    """A lead that has asked two members at once."""
    run = TeamLeadRun(kind="goal", goal=GOAL)
    tasks = [{"tool_name": f"delegate_to_{name}", "tool_params": {"task": "count"}} for name in ("ann", "bob")]
    run.decide({"action": "USE_TOOL", "action_reasoning": "ask", "action_details": {"calls": tasks}})
    run.permit()
    run.permit(1)
    return run


def test_c2_a_goal_counts_its_children_and_theirs_in_the_step_that_started_them() -> None:
    run = lead_of_two()
    assert [(one.agent_id, one.status, one.step) for one in view(run).child_runs] == [
        ("ann", "running", 1),
        ("bob", "running", 1),
    ]
    more = Cost(usd=0.5, price_known=True)
    children_end(run, (Usage(total_tokens=10), KNOWN, Usage(total_tokens=100), more))
    own, state = sum(view(run).token_usage), view(run)
    assert [(one.status, one.tokens, one.cost_usd) for one in state.child_runs] == [
        ("completed", 110, 0.75),
        ("running", 0, 0.0),
    ]
    assert (state.total_tokens, state.steps_history[0].tokens_used) == (own + 110, own + 110)
    assert run.state.usage_below.total_tokens == 110


def test_c2_a_child_whose_price_nobody_knows_makes_the_cost_of_its_goal_unknown() -> None:
    run = lead_of_two()
    children_end(run, (Usage(total_tokens=10), Cost(), None, None))
    state = view(run)
    assert (state.total_cost_usd, state.steps_history[0].cost_usd, state.child_runs[0].cost_usd) == (None, None, None)


def test_c2_what_an_answer_that_came_late_used_is_counted_too() -> None:
    machine = goal_run("tests.failed == 0")
    paid(machine, "1", 0.25)
    asked = machine.events(ev.DecisionRequested)[0].request_id
    late = ev.UsageCorrected(
        request_id=asked, usage=Usage(total_tokens=7), cost=KNOWN, answered=ChargedAttempt(attempt=1)
    )
    last = machine.entries[-1]
    machine.entries.append(last.model_copy(update={"seq": last.seq + 1, "event": late}))
    state = view(machine)
    assert (state.total_cost_usd, state.total_tokens) == (0.5, sum(state.token_usage) + 7)
