"""What is wrong with a plan, before a run carries it out. Pure.

A plan is refused whole, with every fault at its place in the task. One that a model is to write is checked when it
is written.
"""

from collections.abc import Iterator

from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.plan_checks import PLAN_BYTES, PLAN_INVALID, check_plan
from towpath_contracts.networks.spec import Snapshot
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask

NAMED_CHARS = 2_000


def plan_problems(task: SubmitTask, snapshot: Snapshot) -> Iterator[ProblemDetail]:
    """Name everything that is wrong with a plan on this network, each fault at its place in the task."""
    asked = task.plan
    if asked is None:
        return
    size = len(canonical_json(asked.bindings).encode("utf-8", "surrogatepass"))
    if size > PLAN_BYTES:
        said = f"the bindings have {size} bytes; the limit is {PLAN_BYTES}"
        yield ProblemDetail(pointer="/plan/bindings", code="request_too_large", detail=said)
    for name in ("response_schema", "single_instruction"):
        if getattr(task, name):
            said = f"a plan says what became of each of its steps: leave {name} out"
            yield ProblemDetail(pointer=f"/{name}", code=PLAN_INVALID, detail=said)
    if asked.plan is None:
        return
    members = {*snapshot.agents, *(snapshot.swarm.swarms if snapshot.swarm is not None else ())}
    silent = not task.user_message and not plan_said(task)
    _plan, faults = check_plan(asked.plan, agents=members, bindings=asked.bindings, told_all=silent)
    for fault in faults:
        yield fault.model_copy(update={"pointer": f"/plan/plan{fault.pointer}"})


def plan_said(task: SubmitTask) -> str:
    """Return what stands for the user's message in a task with a plan: what is to be planned, or what the plan is."""
    if task.plan is None:
        return ""
    given = task.plan.plan or {}
    named = [value for name in ("name", "description") if isinstance(value := given.get(name), str) and value]
    return task.plan.prompt or "\n".join(named)[:NAMED_CHARS]
