"""Lays a network out as a graph: agents in columns by how many transfers they are away from the first one.

Transfers forward leave an agent at its right and reach the next at its left; those back run the other way, lower, so
that both directions of a pair are seen. `graph_forms` writes a layout as SVG, as Mermaid and as text.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from towpath_contracts.networks.flow import SwarmFlowError, parse_flow

ANSWER = "answer"
"""The place that an agent reaches by answering; no agent's key, since it is a node of another kind."""

NODE_WIDTH, NODE_HEIGHT = 190.0, 50.0
COLUMN_GAP, ROW_GAP = 84.0, 22.0
LANE = 14.0
"""The height of a row in which only an edge passes."""

MARGIN = 30.0
SWEEPS = 4
"""How often the rows of all columns are put in order: more changes little in fifty agents."""

EdgeKind = Literal["hands over", "delegates", "then", "answers"]
NodeKey = tuple[Literal["agent", "answer", "lane"], str]
Point = tuple[float, float]


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


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge with the points that its line passes; at each of them the line is level."""

    source: str
    target: str
    kind: EdgeKind
    count: int
    points: tuple[Point, ...]
    bulge: float = 0.0
    """How far a line between two agents of one column goes out beside it; to the left if negative."""

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
    columns = _columns(list(agents), kinds, first)
    rows, passes = _rows(columns, kinds)
    places, width, height = _places(rows)
    nodes = [
        GraphNode(
            key=key,
            is_answer=kind == "answer",
            x=places[kind, key][0],
            y=places[kind, key][1],
            tools=tuple(map(str, agents.get(key, {}).get("equipped_tools") or ())) if kind == "agent" else (),
            description=str(agents.get(key, {}).get("description") or "") if kind == "agent" else "",
            first=kind == "agent" and key == first,
            steps=seen.steps.get(key, 0) if kind == "agent" else 0,
            current=kind == "agent" and key == seen.current,
        )
        for column in rows
        for kind, key in column
        if kind != "lane"
    ]
    edges = [_line(ends, edge_kind, passes.get(ends, ()), places, seen) for ends, edge_kind in kinds.items()]
    name = str(spec.get("name") or spec.get("network") or "")
    return GraphLayout(name, width, height, tuple(nodes), tuple(edges), visited is not None)


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


def _rows(
    columns: Mapping[NodeKey, int], kinds: Iterable[tuple[NodeKey, NodeKey]]
) -> tuple[list[list[NodeKey]], dict[tuple[NodeKey, NodeKey], tuple[NodeKey, ...]]]:
    """Return the columns with their nodes from top to bottom, and the lanes that each long edge passes.

    Every node goes to the middle of its neighbours, column by column, there and back.
    """
    rows: list[list[NodeKey]] = [[] for _ in range(max(columns.values(), default=0) + 1)]
    for node, column in columns.items():
        rows[column].append(node)
    beside: dict[NodeKey, list[NodeKey]] = {}
    passes: dict[tuple[NodeKey, NodeKey], tuple[NodeKey, ...]] = {}
    for number, (source, target) in enumerate(kinds):
        step = 1 if columns[target] > columns[source] else -1
        lanes: list[NodeKey] = []
        for column in range(columns[source] + step, columns[target], step):
            if columns[source] != columns[target]:
                lanes.append(("lane", f"{number}.{column}"))
                rows[column].append(lanes[-1])
        passes[source, target] = tuple(lanes)
        for one, other in zip((source, *lanes), (*lanes, target), strict=True):
            beside.setdefault(one, []).append(other)
            beside.setdefault(other, []).append(one)
    for sweep in range(SWEEPS):
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for column in order:
            before = rows[column - 1 if sweep % 2 == 0 else column + 1]
            share = {node: (place + 0.5) / len(before) for place, node in enumerate(before)}
            _put_in_order(rows[column], share, beside)
    return rows, passes


def _put_in_order(
    row: list[NodeKey], share: Mapping[NodeKey, float], beside: Mapping[NodeKey, Sequence[NodeKey]]
) -> None:
    own = {node: (place + 0.5) / len(row) for place, node in enumerate(row)}

    def middle(node: NodeKey) -> float:
        near = [share[other] for other in beside.get(node, ()) if other in share]
        return sum(near) / len(near) if near else own[node]

    row.sort(key=lambda node: (middle(node), own[node]))


def _places(rows: Sequence[Sequence[NodeKey]]) -> tuple[dict[NodeKey, Point], float, float]:
    """Return the upper left corner of each node, and the size of it all: every column is centred."""

    def height(node: NodeKey) -> float:
        return LANE if node[0] == "lane" else NODE_HEIGHT

    heights = [sum(map(height, row)) + ROW_GAP * max(len(row) - 1, 0) for row in rows]
    tallest = max(heights, default=0.0)
    found: dict[NodeKey, Point] = {}
    for column, row in enumerate(rows):
        y = MARGIN + (tallest - heights[column]) / 2
        for node in row:
            found[node] = (MARGIN + column * (NODE_WIDTH + COLUMN_GAP), y)
            y += height(node) + ROW_GAP
    width = MARGIN * 2 + len(rows) * NODE_WIDTH + max(len(rows) - 1, 0) * COLUMN_GAP
    return found, width, MARGIN * 2 + tallest


def _line(
    ends: tuple[NodeKey, NodeKey],
    kind: EdgeKind,
    lanes: Sequence[NodeKey],
    places: Mapping[NodeKey, Point],
    seen: GraphVisits,
) -> GraphEdge:
    (_, source), (target_kind, target) = ends
    answers = target_kind == "answer"
    count = seen.answered.get(source, 0) if answers else seen.edges.get((source, target), 0)
    (from_x, from_y), (to_x, to_y) = places[ends[0]], places[ends[1]]
    if from_x == to_x:  # down on the right, up on the left
        bulge = math.copysign(min(COLUMN_GAP * 0.45, 16 + abs(to_y - from_y) * 0.12), to_y - from_y)
        x = from_x + (NODE_WIDTH if bulge > 0 else 0)
        share = 0.7 if to_y > from_y else 0.3
        points = ((x, from_y + NODE_HEIGHT * share), (x, to_y + NODE_HEIGHT * (1 - share)))
        return GraphEdge(source, target, kind, count, points, bulge)
    right = to_x > from_x
    share = 0.38 if right else 0.76
    middle = [point for lane in lanes for point in _through(places[lane], right=right)]
    start = (from_x + (NODE_WIDTH if right else 0), from_y + NODE_HEIGHT * share)
    end = (to_x + (0 if right else NODE_WIDTH), to_y + NODE_HEIGHT * (0.5 if answers else share))
    return GraphEdge(source, target, kind, count, (start, *middle, end))


def _through(place: Point, *, right: bool) -> tuple[Point, Point]:
    """Return where a line enters a lane, and where it leaves it."""
    left = (place[0], place[1] + LANE / 2)
    end = (place[0] + NODE_WIDTH, place[1] + LANE / 2)
    return (left, end) if right else (end, left)
