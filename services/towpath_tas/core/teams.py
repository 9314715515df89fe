"""Reads from a published network which tools its agents have, including those of a team's lead.

A network that can't be read has no teams here. Nobody gets a right from what a network says.
"""

import json
from collections.abc import Sequence

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm_members import delegates_of, members_by_swarm
from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.core.policy.policy_checks import NetworkAgent


def agents_of(spec: str) -> Sequence[NetworkAgent]:
    """Return the agents of a network, given as JSON, with their tools."""
    written = json.loads(spec)
    delegates = _delegates(written)
    return [
        NetworkAgent(
            agent["key"],
            agent.get("agent_type", ""),
            (*agent.get("equipped_tools", ()), *(tool.name for tool in delegates.get(agent["key"], ()))),
        )
        for agent in written.get("agents", ())
    ]


def delegates_in(spec: str, agent_key: str) -> tuple[ToolSpec, ...]:
    """Return the tools by which *agent_key* asks the members of the teams that it leads."""
    return _delegates(json.loads(spec)).get(agent_key, ())


def _delegates(written: JsonObject) -> dict[str, tuple[ToolSpec, ...]]:
    if not written.get("swarm"):
        return {}
    try:
        return delegates_of(members_by_swarm(NetworkSpec.model_validate(written)))
    except ValidationError:  # an earlier release accepted it
        return {}
