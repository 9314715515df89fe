"""What a task may ask of a network that is a swarm. Pure.

A swarm takes a message. What belongs to one agent alone, or to another kind of run, is refused with its place.
"""

from collections.abc import Iterator

from towpath_contracts.networks.spec import Snapshot
from towpath_contracts.networks.swarm import CompiledSwarm, SwarmTask
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tasks import SubmitTask

NETWORK = "network"
SWARM = "swarm"


def kind_of(task: SubmitTask, snapshot: Snapshot) -> str:
    """Return the kind of run that *task* makes of a network; a single instruction is that of one agent."""
    if snapshot.swarm is None or task.kind != NETWORK or task.single_instruction:
        return task.kind
    return SWARM


def swarm_of(task: SubmitTask, snapshot: Snapshot) -> SwarmTask | None:
    """Return the swarm that the run of *task* is of; None for any other run."""
    if snapshot.swarm is None or kind_of(task, snapshot) != SWARM:
        return None
    return SwarmTask(swarm=snapshot.swarm)


def swarm_problems(task: SubmitTask, snapshot: Snapshot) -> Iterator[ProblemDetail]:
    """Name everything that a swarm can't take of *task*."""
    swarm = snapshot.swarm
    if swarm is None:
        return
    for name in ("goal", "background"):
        if getattr(task, name) is not None:
            said = f"{snapshot.network} is a swarm ({swarm.mode}): it takes a message, not a {name}"
            yield ProblemDetail(pointer=f"/{name}", code="swarm_takes_messages", detail=said)
    if kind_of(task, snapshot) != SWARM:
        return
    if task.agent_key in snapshot.agents and not _may_begin(task.agent_key, swarm):
        said = f"{swarm.first_agent} begins this {swarm.mode}; leave agent_key out"
        yield ProblemDetail(pointer="/agent_key", code="agent_not_found", detail=said)
    if task.response_schema is not None and not swarm.answers_alone:
        said = "several agents answer together at the end of this swarm: let one agent come after them"
        yield ProblemDetail(pointer="/response_schema", code="response_schema_invalid", detail=said)


def _may_begin(agent_key: str | None, swarm: CompiledSwarm) -> bool:
    """Say whether a task may begin with that agent: any of a handoff, else the one who begins anyway."""
    return agent_key == swarm.first_agent or (swarm.mode == "handoff" and agent_key in swarm.handoffs)
