"""Lays a network out as a graph: agents in columns by how many transfers they are away from the first one.

Two agents that hand over to each other have one line with a tip at both ends. Where many agents answer, each box says
so and no lines are drawn for it. `graph_rows` finds places, `graph_lines` the lines; `graph_forms` writes a layout as
SVG, as Mermaid and as text.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from towpath_console.drawings.graph_lines import INSET, DrawnLine, drawn_lines
from towpath_console.drawings.graph_rows import Ends, NodeKey, Point, ordered_rows, placed
from towpath_contracts.networks.flow import SwarmFlowError, parse_flow

ANSWER = "answer"
"""The place that an agent reaches by answering; no agent's key, since it is a node of another kind."""

MOST_ANSWERS = 3
"""Agents from which lines to the answer are drawn: more of them would cross all others, so their boxes say it."""

EdgeKind = Literal["hands over", "delegates", "then", "answers"]


@dataclass(frozen=True, slots=True)
class GraphVisits:
    """What a run did: steps of each agent, how often each edge was taken, and the agent whose turn it is.

    `answered` counts answers by agent.
    """

    steps: Mapping[str, int] = field(default_factory=dict)
    edges: Mapping[tuple[str, str], int] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    current: str = ""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An agent, or the answer, and where its box is."""

    key: str
    is_answer: bool
    x: float
    y: float
    tools: tuple[str, ...]
    description: str
    first: bool
    steps: int
    current: bool
    answers: bool
    """Whether it answers, and its box is to say so since no line does."""
    answered: int


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge with the points that its line passes, where it is level; none where no line is drawn."""

    source: str
    target: str
    kind: EdgeKind
    count: int
    points: tuple[Point, ...]
    bulge: float = 0.0
    """How far a line between two agents of one column goes out beside it; to the left if negative."""
    is_second: bool = False
    """Whether its line is that of the edge in the other direction, which is drawn already."""

    @property
    def leftward(self) -> bool:
        """Whether the line reaches its target going left."""
        return self.bulge > 0 if self.bulge else self.points[-1][0] < self.points[0][0]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """A drawing: its size in units, boxes and lines. `visited` says whether it shows what a run did."""

    name: str
    width: float
    height: float
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    visited: bool


def network_graph(spec: Mapping[str, Any], visited: GraphVisits | None = None) -> GraphLayout:
    """Return the drawing of a network: its spec as people write it, or its snapshot as it was compiled."""
    agents = _agents(spec)
    first = _first(spec, agents)
    seen = visited or GraphVisits()
    kinds = _edges(spec, agents, seen)
    answers = [ends for ends, kind in kinds.items() if kind == "answers"]
    said = {source[1] for source, _ in answers} if len(answers) > MOST_ANSWERS else set()
    drawn = {ends: kind for ends, kind in kinds.items() if not said or kind != "answers"}
    order = {ends: number for number, ends in enumerate(drawn)}
    once = [ends for ends, kind in drawn.items() if not _is_second(ends, kind, drawn, order)]
    columns = _columns(list(agents), drawn, first)
    rows, passes = ordered_rows(tuple(columns.items()), tuple(once))
    ways = [(ends[0], *passes.get(ends, ()), ends[1]) for ends in once if columns[ends[0]] != columns[ends[1]]]
    places, width, height = placed(rows, [pair for way in ways for pair in itertools.pairwise(way)])
    lines = drawn_lines(once, passes, places)
    reach = max((x + line.bulge for line in lines.values() for x, _ in line.points), default=0.0)
    nodes = [
        _node(agents.get(key, {}), (kind, key), places[kind, key], seen, first=first, says=key in said)
        for column in rows
        for kind, key in column
        if kind != "lane"
    ]
    edges = [
        _edge(ends, kind, lines, seen, is_second=_is_second(ends, kind, drawn, order)) for ends, kind in kinds.items()
    ]
    name = str(spec.get("name") or spec.get("network") or "")
    return GraphLayout(name, max(width, reach + INSET), height, tuple(nodes), tuple(edges), visited is not None)


def _is_second(ends: Ends, kind: EdgeKind, drawn: Mapping[Ends, EdgeKind], order: Mapping[Ends, int]) -> bool:
    """Return whether an edge is drawn by the line of the one in the other direction, which comes first."""
    back = (ends[1], ends[0])
    return ends in order and drawn.get(back) == kind and order[back] <= order[ends]  # nobody hands over to itself


def _node(
    agent: Mapping[str, Any], node: NodeKey, place: Point, seen: GraphVisits, *, first: str, says: bool
) -> GraphNode:
    kind, key = node
    if kind == "answer":
        return GraphNode(key, True, *place, (), "", False, 0, False, False, 0)  # in the order above
    return GraphNode(
        key=key,
        is_answer=False,
        x=place[0],
        y=place[1],
        tools=tuple(map(str, agent.get("equipped_tools") or ())),
        description=str(agent.get("description") or ""),
        first=key == first,
        steps=seen.steps.get(key, 0),
        current=key == seen.current,
        answers=says,
        answered=seen.answered.get(key, 0),
    )


def _edge(
    ends: Ends, kind: EdgeKind, lines: Mapping[Ends, DrawnLine], seen: GraphVisits, *, is_second: bool
) -> GraphEdge:
    (_, source), (_, target) = ends
    count = seen.answered.get(source, 0) if kind == "answers" else seen.edges.get((source, target), 0)
    back = lines.get((ends[1], ends[0]))
    line = lines.get(ends) or (back.reversed() if is_second and back else DrawnLine(()))
    return GraphEdge(source, target, kind, count, line.points, line.bulge, is_second)


def _agents(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the agents by key, in their order: a spec lists them, a snapshot names them."""
    listed = spec.get("agents") or ()
    found = listed.values() if isinstance(listed, Mapping) else listed
    return {str(agent["key"]): agent for agent in found}


def _first(spec: Mapping[str, Any], agents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the agent that acts first."""
    stages = _stages(spec.get("swarm") or {}, list(agents))
    named = spec.get("default_agent_key") or next((key for key, one in agents.items() if one.get("is_default")), "")
    lead = stages[0][0] if stages and stages[0] else ""
    return str(named or (lead if lead in agents else next(iter(agents), "")))


def _stages(swarm: Mapping[str, Any], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the stages of a swarm; without a flow each member is one."""
    if not swarm:
        return []
    if swarm.get("stages"):
        return [tuple(stage) for stage in swarm["stages"]]
    if swarm.get("flow"):
        try:
            return list(parse_flow(str(swarm["flow"])))
        except SwarmFlowError:  # publishing refuses it and says where; a drawing shows what can be known
            return []
    return [(str(member),) for member in swarm.get("members") or keys]


def _edges(
    spec: Mapping[str, Any], agents: Mapping[str, Mapping[str, Any]], seen: GraphVisits
) -> dict[tuple[NodeKey, NodeKey], EdgeKind]:
    """Return every edge between nodes that are there, those that a run took though no route says so included."""
    answer: NodeKey = ("answer", ANSWER)
    wanted: list[tuple[str, str, EdgeKind]] = [
        (key, str(target), "hands over")
        for key, agent in agents.items()
        for target in agent.get("allowed_routes") or ()
    ]
    swarm = spec.get("swarm") or {}
    stages = _stages(swarm, list(agents))
    members = [member for stage in stages for member in stage]
    if swarm.get("mode") == "team" and members:
        asked = swarm.get("delegates") or [str(member) for member in swarm.get("members") or members][1:]
        wanted += [(members[0], str(target), "delegates") for target in asked]
    elif swarm.get("mode") == "workflow":
        pairs = itertools.pairwise(stages)
        wanted += [(one, other, "then") for before, after in pairs for one in before for other in after]
    wanted += [(source, target, "hands over") for source, target in seen.edges]
    found: dict[tuple[NodeKey, NodeKey], EdgeKind] = {}
    for source, target, kind in wanted:
        if source in agents and target in agents:
            found.setdefault((("agent", source), ("agent", target)), kind)
    last = set(stages[-1]) if swarm.get("mode") == "workflow" and stages else set(members[:1])
    for key, agent in agents.items():
        if agent.get("allow_respond") or key in seen.answered or key in last:
            found[("agent", key), answer] = "answers"
    return found


def _columns(keys: Sequence[str], kinds: Iterable[tuple[NodeKey, NodeKey]], first: str) -> dict[NodeKey, int]:
    """Return the column of each node: transfers from the first agent; who is never reached stands in the first."""
    nexts: dict[NodeKey, list[NodeKey]] = {}
    for source, target in kinds:
        if target[0] == "agent":
            nexts.setdefault(source, []).append(target)
    found: dict[NodeKey, int] = {("agent", first): 0} if first else {}
    waiting = deque(found)
    while waiting:
        node = waiting.popleft()
        for target in nexts.get(node, ()):
            if target not in found:
                found[target] = found[node] + 1
                waiting.append(target)
    for key in keys:
        found.setdefault(("agent", key), 0)
    if any(target[0] == "answer" for _, target in kinds):
        found["answer", ANSWER] = max(found.values(), default=0) + 1
    return found
