"""Goals of agents of a plan: one with acceptance criteria works in a goal run, until what happened meets them.

A criterion that can't be evaluated is a fault of the plan: it would only be unmet, step after step.
"""

from collections.abc import Iterator

from towpath_contracts.base import with_defaults
from towpath_contracts.networks.goal import Criterion, GoalSettings, GoalTask
from towpath_contracts.networks.plan import Plan, PlanAgentCall
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_engine.expressions.criterion import fault_of, names_in

GOAL_CHARS = 16_384
"""Of what an agent is asked, so much is its goal; all of it is its message."""


def goal_of(snapshot: NetworkSnapshot, call: PlanAgentCall, asked: str) -> GoalTask | None:
    """Return the goal of an agent of a plan, with its network's settings; None for one without criteria."""
    if not call.acceptance_criteria:
        return None
    settings = with_defaults(GoalSettings, snapshot.goal)
    settings = settings.model_copy(update={"allow_words": bool(settings.allow_words)})
    return GoalTask(goal=asked[:GOAL_CHARS], acceptance_criteria=call.acceptance_criteria, settings=settings)


def goal_faults(plan: Plan, snapshot: NetworkSnapshot) -> Iterator[ProblemDetail]:
    """Name what is wrong with the criteria of a plan, each at its place in it."""
    swarms = snapshot.swarm.swarms if snapshot.swarm is not None else {}
    for number, step in enumerate(plan.steps):
        for place, call in enumerate(step.calls):
            at = f"/steps/{number}/" + ("agent" if step.type == "agent" else f"parallel/steps/{place}")
            swarm = swarms.get(call.agent_key) if call.agent_key not in snapshot.agents else None
            if call.acceptance_criteria and swarm is not None and swarm.mode != "team":
                detail = f"{call.agent_key} is a swarm ({swarm.mode}): only a team pursues a goal"
                yield _fault(f"{at}/acceptance_criteria", detail)
            for index, criterion in enumerate(call.acceptance_criteria):
                if fault := criterion_fault(criterion, snapshot):
                    yield _fault(f"{at}/acceptance_criteria/{index}/when", fault)


def criterion_fault(criterion: Criterion, snapshot: NetworkSnapshot) -> str:
    """Return why a criterion can't be met on this network; empty where it can."""
    if criterion.when is None:
        return ""
    fault = fault_of(criterion.when)
    if fault or names_in(criterion.when) != {"tests"}:
        return fault
    if any(spec.reports == "tests" for spec in snapshot.tools.values()):
        return ""
    return "no tool of the network reports tests: declare one with reports: tests"


def _fault(pointer: str, detail: str) -> ProblemDetail:
    return ProblemDetail(pointer=pointer, code="criterion_invalid", detail=f"{pointer[1:]}: {detail}")
