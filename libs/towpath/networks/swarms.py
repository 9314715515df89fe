"""Swarms in Python: agents that work together in a fixed manner, the same as a network with `swarm:` in YAML.

What is wrong with it is told as of any network: by file and line, before anything is sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack, cast

from towpath.declared_places import declared_place
from towpath.errors import DeclarationError
from towpath.networks.flows import Flow, FlowMember, FlowStage, unique
from towpath.networks.network import Agent, Network
from towpath.networks.network_keywords import NetworkKeywords, SwarmKeywords, check_network_keywords
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm import SwarmMode

SETTINGS = ("max_handoffs", "max_parallel", "agent_steps", "description")
"""Fields of SwarmSettings that a swarm may be given beside its mode, members and flow."""


class Swarm(Network, FlowMember):
    """Agents, or swarms, that work together: `Swarm("pipeline", flow=(researcher | critic) >> writer)`.

    In a `workflow` the members act in the order of *flow* (or one after the other as listed), each with what the ones
    before it answered. In a `handoff` the first one acts, and answers with the name of one of its `routes` to hand
    over. In a `team` the first one leads, and delegates to the others with its tools `delegate_to_<name>`.

    *flow* is text, or made with operators; then *agents* may be left out. A swarm may be a member of a swarm. *more*
    are `max_handoffs`, `max_parallel`, `agent_steps` and `description`, and, of the outermost swarm, the further fields
    of NetworkSpec. A nested swarm's *model* is that of its agents which name none.
    """

    def __init__(
        self,
        name: str,
        agents: Iterable["Agent | Swarm"] = (),
        *,
        mode: SwarmMode = "workflow",
        flow: str | FlowMember | FlowStage | Flow | None = None,
        model: str | Sequence[str] | None = None,
        **more: Unpack[SwarmKeywords],
    ) -> None:
        check_network_keywords(more, str(declared_place()), "Swarm")
        self.name = name
        flow = _as_flow(flow)
        given = tuple(agents)
        self.members: tuple[FlowMember, ...] = given or (flow.nodes if isinstance(flow, Flow) else ())
        self.mode = mode
        self.flow = None if flow is None else str(flow)
        self.settings = {field: value for field, value in more.items() if field in SETTINGS}
        limits = {field: value for field, value in more.items() if field not in SETTINGS}
        self._model = model
        super().__init__(name, tuple(self._agents()), model=model or "scripted:task", **cast(NetworkKeywords, limits))

    @property
    def flow_name(self) -> str:
        """The name that stands in the flow of a swarm around this one."""
        return self.name

    def to_spec(self) -> NetworkSpec:
        """Return the NetworkSpec; raises RefusedError `network_invalid` with every problem, by file and line."""
        nested = self._nested()
        written = {**self._written(), "swarms": {one.name: one._written() for one in nested}} if nested else None
        agents = _once([({**agent.to_json(), **_model_of(agent, owner)}, agent) for owner, agent in self._owned()])
        head: JsonObject = {"swarm": written or self._written(), "agents": [one for one, _agent in agents]}
        if "description" in self.settings:
            head["description"] = self.settings["description"]
        return self._checked({**head, **self.limits}, [agent for _one, agent in agents])

    def _written(self) -> JsonObject:
        """Return the settings of this swarm alone, as SwarmSettings writes them."""
        flow = {} if self.flow is None else {"flow": self.flow}
        return {"mode": self.mode, "members": [node.flow_name for node in self.members], **flow, **self.settings}

    def _owned(self) -> Iterator[tuple["Swarm", Agent]]:
        """Return every agent that takes part, with the swarm that it is in, in the order of the members."""
        for member in self.members:
            if isinstance(member, Swarm):
                yield from member._owned()
            elif isinstance(member, Agent):
                yield self, member
            else:
                msg = f"swarm {self.name}: a member is an Agent or a Swarm, not {type(member).__name__}"
                raise DeclarationError(msg)

    def _agents(self) -> Iterator[Agent]:
        for node in unique(agent for _owner, agent in self._owned()):
            if isinstance(node, Agent):
                yield node

    def _nested(self) -> list["Swarm"]:
        """Return every swarm in this one, each once; raises DeclarationError where two have one name."""
        found: dict[str, Swarm] = {}
        for member in self.members:
            for one in (member, *member._nested()) if isinstance(member, Swarm) else ():
                if found.setdefault(one.name, one) is not one:
                    msg = f"swarm {self.name}: two swarms in it are called {one.name}"
                    raise DeclarationError(msg)
                if one.limits:
                    msg = f"swarm {one.name}: {', '.join(one.limits)} can only be set for the outermost swarm"
                    raise DeclarationError(msg)
        return list(found.values())


def _as_flow(flow: str | FlowMember | FlowStage | Flow | None) -> str | Flow | None:
    if flow is None or isinstance(flow, str | Flow):
        return flow
    return Flow((FlowStage((flow,)) if isinstance(flow, FlowMember) else flow,))


def _model_of(agent: Agent, owner: Swarm) -> JsonObject:
    return {"model": owner._model} if agent.model is None and owner._model is not None else {}


def _once(agents: list[tuple[JsonObject, Agent]]) -> list[tuple[JsonObject, Agent]]:
    """Return *agents* without exact repeats; two different agents with one key are refused."""
    written = [one for one, _agent in agents]
    return [agent for place, agent in enumerate(agents) if written[place] not in written[:place]]
