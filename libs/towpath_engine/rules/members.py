"""Which names the steps of a plan or workflow may ask: agents of the network, and nested swarms."""

from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_engine.state.run import RunState


def nested_swarms(state: RunState) -> dict[str, CompiledSwarm]:
    """Return the swarms that may be members here: those inside the run's own swarm, or inside its network's."""
    swarm = state.created.swarm.swarm if state.created.swarm is not None else state.snapshot.swarm
    return swarm.swarms if swarm is not None else {}


def members_of(state: RunState) -> set[str]:
    """Return the names that a step may ask: agents of the network, and nested swarms."""
    return {*state.snapshot.agents, *nested_swarms(state)}
