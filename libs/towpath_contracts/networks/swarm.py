"""Swarms: networks whose agents work together in a fixed manner.

A swarm is configuration over one run machine: transfers within a run, and child runs; a nested swarm is a child
run of its own with the same snapshot.
"""

from typing import Literal

from pydantic import Field

from towpath_contracts.base import ClientMessagePart, JsonObject, MessagePart, Name, is_unset
from towpath_contracts.run_limits import MAX_PARALLEL, MAX_STEPS_CAP

MAX_HANDOFFS = 10
AGENT_STEPS = 10
"""Steps of one agent of a swarm, each time that it is in control."""

SwarmMode = Literal["workflow", "handoff", "team"]


class SwarmSettings(ClientMessagePart):
    """How the members of a swarm work together.

    `members` are agents of the network and names of swarms; `flow` orders them (`a >> b`, `(a | b) >> c`), and names
    them where `members` does not. A network without either has all agents in their order, then its `swarms`. The first
    member leads. In a team the lead delegates to all others; of a handoff the `allowed_routes` of an agent say to whom
    it may hand over. `agent_steps` are those of one agent, each time that it is in control.
    """

    mode: SwarmMode
    members: tuple[Name, ...] = Field(default=(), max_length=50)
    flow: str | None = Field(default=None, max_length=4_096)
    max_handoffs: int = Field(default=MAX_HANDOFFS, ge=0, le=100)
    max_parallel: int = Field(default=MAX_PARALLEL, ge=1, le=MAX_PARALLEL)
    agent_steps: int = Field(default=AGENT_STEPS, ge=1, le=MAX_STEPS_CAP)
    swarms: dict[Name, "SwarmSettings"] = Field(default_factory=dict, max_length=16)
    description: str = Field(default="", max_length=2_048)


class CompiledSwarm(MessagePart):
    """A swarm inside a snapshot: checked, members and stages worked out; stages in order, each sorted by name.

    `stages` are of a workflow; elsewhere there is one with the lead. `delegates` are the members that a team's lead
    may ask, `handoffs` what each agent of a handoff may answer with. `steps` are those of one run in all, where these
    are more than each agent's once: for all handoffs, here or in a nested swarm. Snapshots that were published before
    it was written have none, so that their runs replay as they were.
    """

    mode: SwarmMode
    members: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    delegates: tuple[str, ...] = ()
    handoffs: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    max_handoffs: int = MAX_HANDOFFS
    max_parallel: int = MAX_PARALLEL
    agent_steps: int = AGENT_STEPS
    swarms: dict[str, "CompiledSwarm"] = Field(default_factory=dict)
    description: str = ""
    steps: int | None = Field(default=None, exclude_if=is_unset)

    @property
    def lead(self) -> str:
        """The member that acts first."""
        return self.stages[0][0]

    @property
    def first_agent(self) -> str:
        """The agent that acts first: the lead, or that of the nested swarm that leads."""
        nested = self.swarms.get(self.lead)
        return self.lead if nested is None else nested.first_agent

    @property
    def agent_count(self) -> int:
        """How many agents take part, those of nested swarms too."""
        return sum(self.swarms[name].agent_count if name in self.swarms else 1 for name in self.members)

    @property
    def answers_alone(self) -> bool:
        """Whether the answer of the swarm is that of one agent, so that it may have a schema: no stage that ends it."""
        ends = self.stages[-1] if self.mode == "workflow" else self.members if self.mode == "handoff" else ()
        parallel = self.mode == "workflow" and len(ends) > 1
        return not parallel and all(self.swarms[name].answers_alone for name in ends if name in self.swarms)

    @property
    def max_steps(self) -> int:
        """Steps that a run of the swarm may take in all, unless its task or network says so."""
        return min(MAX_STEPS_CAP, self.agent_steps * self.agent_count) if self.steps is None else self.steps

    @property
    def needed_steps(self) -> int:
        """Steps with which each agent may act as often as handoffs allow, in a nested swarm too.

        A run has at most the steps of the one above it, so a swarm needs as many as each swarm in it.
        """
        turns = self.max_handoffs + 1 if self.mode == "handoff" else 0
        own = min(MAX_STEPS_CAP, self.agent_steps * max(turns, self.agent_count))
        return max((own, *(nested.max_steps for nested in self.swarms.values())))


class SelectedSwarm(MessagePart):
    """The swarm that makes a run one of kind `swarm`; `name` is empty for the network's own.

    The swarm that a run is of; `name` is empty for the network's own, `path` are the names from there to it.
    """

    name: str = ""
    path: tuple[str, ...] = ()
    swarm: CompiledSwarm


def handoff_name_in(payload: JsonObject, names: tuple[str, ...]) -> str | None:
    """Return which of *names* an answer is, white space around it left out; None for any other answer.

    An answer that hands over is the name alone; it is no answer of the run, so no schema of one binds it.
    """
    message = payload.get("message")
    if not isinstance(message, str) or len(payload) != 1:
        return None
    return next((name for name in names if name == message.strip()), None)
