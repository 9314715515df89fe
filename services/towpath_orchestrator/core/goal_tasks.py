"""What is wrong with a goal, before a run pursues it. Pure.

A criterion that can't be evaluated, or that nothing in the network could ever meet, is refused at the door; in the
run it would only be unmet, step after step.
"""

from collections.abc import Iterator

from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.goal import Criterion, GoalTask
from towpath_contracts.networks.spec import Snapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_engine.rules.expressions import fault_of, names_in

GOAL_BYTES = 128 * 1024
"""Bytes of JSON. A goal goes into every request to a model."""


def goal_problems(goal: GoalTask | None, snapshot: Snapshot) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with *goal* on this network, each at its place in the task."""
    if goal is None:
        return
    size = len(canonical_json(goal.model_dump(mode="json")).encode())
    if size > GOAL_BYTES:
        said = f"the goal has {size} bytes; the limit is {GOAL_BYTES}"
        yield ProblemDetail(pointer="/goal", code="request_too_large", detail=said)
    for number, criterion in enumerate(goal.acceptance_criteria):
        fault = _fault(criterion, snapshot)
        if fault:
            pointer = f"/goal/acceptance_criteria/{number}/when"
            yield ProblemDetail(pointer=pointer, code="criterion_invalid", detail=fault)
    named = goal.settings.specialists if goal.settings is not None else ()
    for place, key in enumerate(named):
        if key not in snapshot.agents:
            said = f"agents are: {', '.join(snapshot.agents)}"
            pointer = f"/goal/settings/specialists/{place}"
            yield ProblemDetail(pointer=pointer, code="agent_not_found", detail=said)


def _fault(criterion: Criterion, snapshot: Snapshot) -> str:
    if criterion.when is None:
        return ""
    fault = fault_of(criterion.when)
    if fault or names_in(criterion.when) != {"tests"}:
        return fault
    if any(spec.reports == "tests" for spec in snapshot.tools.values()):
        return ""
    return "no tool of the network reports tests: declare one with reports: tests"
