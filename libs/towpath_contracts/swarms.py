"""Swarms: networks whose agents work together in a fixed manner (design §5; features B9-B11).

Law: a swarm is configuration over one run machine: transfers within a run, and child runs; a nested swarm is a child
run of its own with the same snapshot.
"""

from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientValue, Name, Value
from towpath_contracts.caps import MAX_PARALLEL

MAX_HANDOFFS = 10
AGENT_STEPS = 10
"""Steps of one agent of a swarm."""

SwarmMode = Literal["workflow", "handoff", "team"]


class SwarmSettings(ClientValue):
    """How the members of a swarm work together.

    `members` are agents of the network and names of `swarms`; without it, all agents in their order. `flow` orders
    them (`a >> b`, `(a | b) >> c`); its first member leads. In a team the lead delegates to all others; of a handoff
    the `allowed_routes` of an agent say to whom it may hand over.
    """

    mode: SwarmMode
    members: tuple[Name, ...] = Field(default=(), max_length=50)
    flow: str | None = Field(default=None, max_length=4_096)
    max_handoffs: int = Field(default=MAX_HANDOFFS, ge=0, le=100)
    max_parallel: int = Field(default=MAX_PARALLEL, ge=1, le=MAX_PARALLEL)
    swarms: dict[Name, "SwarmSettings"] = Field(default_factory=dict, max_length=16)
    description: str = Field(default="", max_length=2_048)


class CompiledSwarm(Value):
    """A swarm inside a snapshot: checked, members and stages worked out; stages in order, each sorted by name.

    `stages` are of a workflow; elsewhere there is one with the lead. `delegates` are the members that a team's lead
    may ask, `handoffs` what each agent of a handoff may answer with.
    """

    mode: SwarmMode
    members: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    delegates: tuple[str, ...] = ()
    handoffs: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    max_handoffs: int = MAX_HANDOFFS
    max_parallel: int = MAX_PARALLEL
    swarms: dict[str, "CompiledSwarm"] = Field(default_factory=dict)
    description: str = ""

    @property
    def lead(self) -> str:
        """The member that acts first."""
        return self.stages[0][0]


class SwarmTask(Value):
    """The swarm that a run is of; `name` is empty for the network's own, `path` says in which swarms it is nested."""

    name: str = ""
    path: tuple[str, ...] = ()
    swarm: CompiledSwarm
