"""To whom the acting agent may hand over: its routes, or the handoffs of its swarm."""

from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_engine.state.run import RunState

HANDOFF = "handoff"


def handoff_of(state: RunState) -> CompiledSwarm | None:
    """Return the handoff swarm that the run is of; None for any other run."""
    task = state.created.swarm
    return task.swarm if task is not None and task.swarm.mode == HANDOFF else None


def routes_of(state: RunState) -> tuple[str, ...]:
    """Return to whom the acting agent may hand over; in a handoff swarm that may be a nested swarm too."""
    swarm = handoff_of(state)
    if swarm is None:
        return state.snapshot.agents[state.agent_key].allowed_routes
    return swarm.handoffs.get(state.agent_key, ())


def description_of(state: RunState, name: str) -> str:
    """Return the description of an agent or swarm that control may be handed to."""
    agent = state.snapshot.agents.get(name)
    if agent is not None:
        return agent.description
    swarm = handoff_of(state)
    nested = swarm.swarms.get(name) if swarm is not None else None
    return "" if nested is None else nested.description
