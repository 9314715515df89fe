"""Draws the lines between the boxes of a graph: each end of a line has a place of its own at the side of its box.

Lines between columns are level where they leave and reach a box, and pass their lanes. Within a column a line goes
straight down where the boxes are next to each other, else around those between, on the side that fewer lines leave.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from towpath_console.drawings.graph_rows import (
    COLUMN_GAP,
    LANE,
    NODE_HEIGHT,
    NODE_WIDTH,
    Ends,
    NodeKey,
    Point,
)

NEAREST_BULGE, BULGE_STEP, FARTHEST_BULGE = 16.0, 9.0, COLUMN_GAP * 0.45
"""How far lines within a column go out beside it: each as far as those that it goes around, and a step more."""

INSET = 7.0
"""Of a box's side, above and below: no line reaches its rounded corners."""

Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """A line: the points that it passes, where it is level, and how far it goes out beside its column if at all."""

    points: tuple[Point, ...]
    bulge: float = 0.0

    def reversed(self) -> "DrawnLine":
        """Return the same line in the other direction."""
        return DrawnLine(self.points[::-1], self.bulge)


def drawn_lines(
    edges: Sequence[Ends], passes: Mapping[Ends, tuple[NodeKey, ...]], places: Mapping[NodeKey, Point]
) -> dict[Ends, DrawnLine]:
    """Return the line of each edge."""
    between = {ends: (ends[0], *passes.get(ends, ()), ends[1]) for ends in edges}
    arcs = [ends for ends in edges if places[ends[0]][0] == places[ends[1]][0]]
    crowd = _crowd(between, places)
    straight = {ends for ends in arcs if _is_next(ends, places)}
    sides = {ends: _side(ends, crowd, places) for ends in arcs if ends not in straight}
    ports = _ports([ends for ends in edges if ends not in straight], between, sides, places)
    found: dict[Ends, DrawnLine] = {}
    for ends in edges:
        if ends in straight:
            found[ends] = _straight(ends, places)
        elif ends in sides:
            found[ends] = DrawnLine((ports[ends, 0], ports[ends, 1]), _bulge(ends, sides, places))
        else:
            middle = [point for lane in between[ends][1:-1] for point in _through(lane, ends, places)]
            found[ends] = DrawnLine((ports[ends, 0], *middle, ports[ends, 1]))
    return found


def _crowd(
    between: Mapping[Ends, Sequence[NodeKey]], places: Mapping[NodeKey, Point]
) -> dict[tuple[NodeKey, Side], int]:
    """Return how many lines between columns leave each side of each node."""
    found: dict[tuple[NodeKey, Side], int] = {}
    for way in between.values():
        for one, other in itertools.pairwise(way):
            if places[one][0] != places[other][0]:
                left, right = sorted((one, other), key=lambda node: places[node][0])
                found[left, "right"] = found.get((left, "right"), 0) + 1
                found[right, "left"] = found.get((right, "left"), 0) + 1
    return found


def _is_next(ends: Ends, places: Mapping[NodeKey, Point]) -> bool:
    (x, one), (_, other) = (places[end] for end in ends)
    top, bottom = sorted((one, other))
    return not any(at[0] == x and top < at[1] < bottom for at in places.values())


def _side(ends: Ends, crowd: Mapping[tuple[NodeKey, Side], int], places: Mapping[NodeKey, Point]) -> Side:
    """Return the side on which a line within a column passes fewer others; the first column has room at its right."""
    (x, one), (_, other) = (places[end] for end in ends)
    if x == min(at[0] for at in places.values()):
        return "right"
    inside = [node for node, at in places.items() if at[0] == x and min(one, other) < at[1] < max(one, other)]
    left, right = (sum(crowd.get((node, side), 0) for node in inside) for side in ("left", "right"))
    return "left" if left < right else "right"


def _ports(
    edges: Sequence[Ends],
    between: Mapping[Ends, Sequence[NodeKey]],
    sides: Mapping[Ends, Side],
    places: Mapping[NodeKey, Point],
) -> dict[tuple[Ends, int], Point]:
    """Return where each line begins and ends: in the order of where they lead, so that none crosses at its box."""
    at_side: dict[tuple[NodeKey, Side], list[tuple[tuple[int, float], int, int]]] = {}
    for number, ends in enumerate(edges):
        way = between[ends]
        for end, (node, near) in enumerate(((way[0], way[1]), (way[-1], way[-2]))):
            (x, y), (near_x, near_y) = places[node], places[near]
            if ends in sides:
                side, far = sides[ends], abs(near_y - y)
                order = (0, far) if near_y < y else (2, -far)
            else:
                side, order = "right" if near_x > x else "left", (1, near_y + _half(near))
            at_side.setdefault((node, side), []).append((order, number, end))
    found: dict[tuple[Ends, int], Point] = {}
    for (node, side), lines in at_side.items():
        x, y = places[node]
        inset = NODE_HEIGHT / 2 if node[0] == "answer" else INSET
        for place, (_, number, end) in enumerate(sorted(lines)):
            share = (place + 0.5) / len(lines)
            at = y + inset + (NODE_HEIGHT - 2 * inset) * share
            found[edges[number], end] = (x + (NODE_WIDTH if side == "right" else 0), round(at, 1))
    return found


def _half(node: NodeKey) -> float:
    return (LANE if node[0] == "lane" else NODE_HEIGHT) / 2


def _straight(ends: Ends, places: Mapping[NodeKey, Point]) -> DrawnLine:
    (x, begin), (_, end) = (places[one] for one in ends)
    middle = x + NODE_WIDTH / 2
    down = end > begin
    return DrawnLine(((middle, begin + (NODE_HEIGHT if down else 0)), (middle, end + (0 if down else NODE_HEIGHT))))


def _bulge(ends: Ends, sides: Mapping[Ends, Side], places: Mapping[NodeKey, Point]) -> float:
    """Return how far a line within a column goes out: farther than those that it goes around."""

    def span(one: Ends) -> tuple[float, float, float]:
        heights = sorted(places[end][1] for end in one)
        return places[one[0]][0], heights[0], heights[1]

    x, top, bottom = span(ends)
    inner = sum(
        1
        for other, side in sides.items()
        if other != ends and side == sides[ends] and span(other)[0] == x
        and top <= span(other)[1] and span(other)[2] <= bottom and span(other) != (x, top, bottom)
    )  # fmt: skip
    out = min(NEAREST_BULGE + BULGE_STEP * inner, FARTHEST_BULGE)
    return out if sides[ends] == "right" else -out


def _through(lane: NodeKey, ends: Ends, places: Mapping[NodeKey, Point]) -> tuple[Point, Point]:
    """Return where a line enters a lane, and where it leaves it."""
    x, y = places[lane][0], places[lane][1] + LANE / 2
    left, right = (x, y), (x + NODE_WIDTH, y)
    return (left, right) if places[ends[1]][0] > places[ends[0]][0] else (right, left)
