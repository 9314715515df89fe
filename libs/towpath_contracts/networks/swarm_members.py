"""Who is in a swarm and in which order, as far as its settings say.

A roster is made of any settings, wrong ones too: what is wrong is reported by `swarm_checks`. The leading agent and the
agents that may respond follow from the swarm, so an author need not write them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from towpath_contracts.networks.child_tools import delegate_spec
from towpath_contracts.networks.flow import Stages, SwarmFlowError, SwarmFlowFault, parse_flow
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm import SwarmSettings
from towpath_contracts.tools.calls import ToolSpec


@dataclass(frozen=True, kw_only=True)
class ParsedSwarm:
    """One swarm of a network as its settings are read: where they stand, its stages, faults and members."""

    name: str
    pointer: str
    settings: SwarmSettings
    stages: Stages
    faults: tuple[SwarmFlowFault, ...]
    members: tuple[str, ...]

    @property
    def lead(self) -> str:
        """The member that acts first; empty where there is none."""
        first = self.stages[0] if self.stages else self.members
        return first[0] if first else ""

    @property
    def listed_at(self) -> str:
        """Where the members are written."""
        written = "members" if self.settings.members else "flow" if self.settings.flow is not None else ""
        return f"{self.pointer}/{written}".rstrip("/")


@dataclass(frozen=True)
class NetworkSwarms:
    """Every swarm of a network, the network's own first."""

    spec: NetworkSpec
    all: tuple[ParsedSwarm, ...]

    @cached_property
    def by_name(self) -> Mapping[str, ParsedSwarm]:
        """The nested ones; of two with one name the first."""
        found: dict[str, ParsedSwarm] = {}
        for roster in self.all:
            if roster.name:
                found.setdefault(roster.name, roster)
        return found

    @cached_property
    def agents(self) -> frozenset[str]:
        """Keys of the network's agents."""
        return frozenset(agent.key for agent in self.spec.agents)

    def of(self, agent_key: str) -> list[ParsedSwarm]:
        """Return the swarms that an agent is a member of."""
        return [roster for roster in self.all if agent_key in roster.members]

    def targets(self, agent_key: str) -> frozenset[str]:
        """Return what an agent may hand over to beside the agents of its network: swarms that it stands beside."""
        handoffs = [roster for roster in self.of(agent_key) if roster.settings.mode == "handoff"]
        return frozenset(name for roster in handoffs for name in roster.members if name in self.by_name)


def members_by_swarm(spec: NetworkSpec) -> NetworkSwarms:
    """Return the swarms of *spec*; none for a network that is no swarm."""
    if spec.swarm is None:
        return NetworkSwarms(spec, ())
    return NetworkSwarms(spec, tuple(_members_of(spec, spec.swarm, "", "/swarm")))


def _members_of(spec: NetworkSpec, settings: SwarmSettings, name: str, pointer: str) -> Iterator[ParsedSwarm]:
    stages: Stages = ()
    faults: tuple[SwarmFlowFault, ...] = ()
    if settings.flow is not None:
        try:
            stages = parse_flow(settings.flow)
        except SwarmFlowError as error:
            faults = error.faults
    members = settings.members or tuple(member for stage in stages for member in stage)
    if not members and not name and settings.flow is None:
        members = _everybody(spec, settings)
    if not stages and settings.mode == "workflow":
        stages = tuple((member,) for member in members)
    yield ParsedSwarm(name=name, pointer=pointer, settings=settings, stages=stages, faults=faults, members=members)
    for inner, nested in settings.swarms.items():
        yield from _members_of(spec, nested, inner, f"{pointer}/swarms/{inner}")


def _everybody(spec: NetworkSpec, settings: SwarmSettings) -> tuple[str, ...]:
    """Return the agents that are in no nested swarm, in their order, and then the nested swarms."""
    nested = [roster for name, one in settings.swarms.items() for roster in _members_of(spec, one, name, "")]
    taken = {member for roster in nested for member in roster.members}
    own = [agent.key for agent in spec.agents if agent.key not in taken]
    return (*own, *settings.swarms)


def delegates_of(rosters: NetworkSwarms) -> dict[str, tuple[ToolSpec, ...]]:
    """Return the tools by which the leads of teams ask the other members, by lead."""
    descriptions = {agent.key: agent.description for agent in rosters.spec.agents}
    descriptions |= {name: roster.settings.description for name, roster in rosters.by_name.items()}
    found: dict[str, dict[str, ToolSpec]] = {}
    for team in (roster for roster in rosters.all if roster.settings.mode == "team"):
        asked = found.setdefault(team.lead, {})
        asked |= {name: delegate_spec(name, descriptions.get(name, "")) for name in team.members if name != team.lead}
    return {lead: tuple(asked.values()) for lead, asked in found.items()}


def with_swarm_defaults(rosters: NetworkSwarms) -> NetworkSpec:
    """Return the network with what follows from its swarm filled in: the default agent, and who may respond."""
    spec = rosters.spec
    if not rosters.all:
        return spec
    lead = _first_agent(rosters)
    taking_part = {lead, *(member for roster in rosters.all for member in roster.members)}
    begins = next((place for place, agent in enumerate(spec.agents) if agent.key == lead), None)
    agents = tuple(
        agent.model_copy(
            update={
                "is_default": agent.is_default or place == begins,
                "allow_respond": agent.allow_respond or agent.key in taking_part,
            }
        )
        for place, agent in enumerate(spec.agents)
    )
    return spec.model_copy(update={"agents": agents})


def _first_agent(rosters: NetworkSwarms) -> str:
    """Return the agent that acts first; where a mistake hides it, whoever is marked or stands first."""
    lead, seen = rosters.all[0].lead, set[str]()
    while lead in rosters.by_name and lead not in seen:
        seen.add(lead)
        lead = rosters.by_name[lead].lead
    if lead in rosters.agents:
        return lead
    spec = rosters.spec
    return next((agent.key for agent in spec.agents if agent.is_default), spec.agents[0].key if spec.agents else "")
