"""Compiles a swarm that has no mistake, and says whether it is too large for that."""

from collections.abc import Iterator

from towpath_contracts.networks.spec import AgentSpec
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.networks.swarm_members import NetworkSwarms, ParsedSwarm
from towpath_contracts.problems.registry import ProblemDetail
from towpath_engine.state.limits import json_bytes

MAX_SWARM_BYTES = 64 * 1024
"""Of a compiled swarm as JSON: the first event of its every run holds it, and a message has at most 1 MiB."""


def size_problems(rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    """Yield why a swarm is too large for messages; only one without other mistakes can be compiled, and so measured."""
    swarm = compile_swarm(rosters)
    size = 0 if swarm is None else json_bytes(swarm.model_dump(mode="json"))
    if size > MAX_SWARM_BYTES:
        message = f"members and handoffs have {size} bytes together; the limit is {MAX_SWARM_BYTES}"
        yield ProblemDetail(pointer="/swarm", code="swarm_too_large", detail=message)


def compile_swarm(rosters: NetworkSwarms) -> CompiledSwarm | None:
    """Compile the swarm of a checked network; None for one that is none."""
    return _compiled(rosters, rosters.all[0]) if rosters.all else None


def _compiled(rosters: NetworkSwarms, roster: ParsedSwarm) -> CompiledSwarm:
    settings, by_name = roster.settings, rosters.by_name
    agents = {agent.key: agent for agent in rosters.spec.agents}
    nested = [name for name in roster.members if name in by_name]
    workflow, team, handoff = (settings.mode == mode for mode in ("workflow", "team", "handoff"))
    swarm = CompiledSwarm(
        mode=settings.mode,
        members=roster.members,
        stages=roster.stages if workflow else ((roster.lead,),),
        delegates=tuple(name for name in roster.members if name != roster.lead) if team else (),
        handoffs={name: _handoffs(agents[name], roster) for name in roster.members if handoff and name in agents},
        max_handoffs=settings.max_handoffs,
        max_parallel=settings.max_parallel,
        agent_steps=settings.agent_steps,
        swarms={name: _compiled(rosters, by_name[name]) for name in nested},
        description=settings.description,
    )
    needed = swarm.needed_steps
    return swarm if needed == swarm.max_steps else swarm.model_copy(update={"steps": needed})


def _handoffs(agent: AgentSpec, roster: ParsedSwarm) -> tuple[str, ...]:
    return tuple(name for name in agent.allowed_routes if name in roster.members)
