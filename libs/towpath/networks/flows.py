"""Flows in Python: `a >> b` is one after the other, `(a | b) >> c` two at the same time and then a third.

Operators only write down; a flow is checked by the platform that publishes it. Python reads `a | b >> c` as
`a | (b >> c)`, so what can't be meant is refused here, at its line.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from towpath.declared_places import declared_place
from towpath.errors import DeclarationError
from towpath_contracts.networks.flow import write_flow

_GROUPS = "put what runs in parallel in parentheses: (a | b) >> c"
_ROW_IN_GROUP = (
    "Python reads a | b >> c as a | (b >> c), and a row of stages can't be a member of a group. If a and b are to run "
    "in parallel, put them in parentheses: (a | b) >> c. If the row is to run beside a, make it a swarm: "
    'a | Swarm("row", flow=b >> c)'
)


class FlowMember(ABC):
    """What a flow is made of: an agent or a swarm; `>>` and `|` join it to others."""

    __slots__ = ()

    @property
    @abstractmethod
    def flow_name(self) -> str:
        """The name that stands in the flow."""

    def __rshift__(self, after: "FlowMember | FlowStage | Flow") -> "Flow":
        """Let *after* act once this one has."""
        return Flow((FlowStage((self,)),)) >> after

    def __or__(self, beside: "FlowMember | FlowStage") -> "FlowStage":
        """Let *beside* act at the same time."""
        return FlowStage((self,)) | beside


@dataclass(frozen=True, slots=True)
class FlowStage:
    """Nodes that act at the same time: a stage of a flow."""

    nodes: tuple[FlowMember, ...]

    def __or__(self, beside: "FlowMember | FlowStage") -> "FlowStage":
        """Let *beside* act at the same time too."""
        return FlowStage((*self.nodes, *_nodes(beside)))

    def __rshift__(self, after: "FlowMember | FlowStage | Flow") -> "Flow":
        """Let *after* act once all of these have."""
        return Flow((self,)) >> after


@dataclass(frozen=True, slots=True)
class Flow:
    """Stages that act one after the other; `str(flow)` is how it is written in YAML."""

    stages: tuple[FlowStage, ...]

    def __rshift__(self, after: "FlowMember | FlowStage | Flow") -> "Flow":
        """Let *after* act at the end."""
        return Flow((*self.stages, *_stages(after)))

    def __or__(self, beside: object) -> NoReturn:
        """Refuse: a row of stages is no member of a group."""
        raise _refusal(beside)

    def __str__(self) -> str:
        """Return the flow as it is written in YAML."""
        return write_flow(tuple(tuple(node.flow_name for node in stage.nodes) for stage in self.stages))

    @property
    def nodes(self) -> tuple[FlowMember, ...]:
        """What stands in the flow, each once, in the order of its first place."""
        return unique(node for stage in self.stages for node in stage.nodes)


def unique(nodes: Iterable[FlowMember]) -> tuple[FlowMember, ...]:
    """Return *nodes* without those that came before: the same object, or an equal one."""
    found: list[FlowMember] = []
    for node in nodes:
        if node not in found:
            found.append(node)
    return tuple(found)


def _nodes(given: object) -> tuple[FlowMember, ...]:
    if isinstance(given, FlowMember):
        return (given,)
    if isinstance(given, FlowStage):
        return given.nodes
    raise _refusal(given)


def _stages(given: object) -> tuple[FlowStage, ...]:
    return given.stages if isinstance(given, Flow) else (FlowStage(_nodes(given)),)


def _refusal(given: object) -> DeclarationError:
    where = declared_place()
    if isinstance(given, FlowMember | FlowStage | Flow):
        return DeclarationError(f"{where}: {_ROW_IN_GROUP}")
    return DeclarationError(f"{where}: a flow is made of agents and swarms, not of {type(given).__name__}; {_GROUPS}")
