"""Draws the lines between the boxes of a graph: each end of a line has a place of its own at the side of its box.

Lines between columns are level where they leave and reach a box, and pass their lanes. Within a column a line goes
straight down where the boxes are next to each other, else around those between, on the side that fewer lines leave.
"""

import bisect
import itertools
import math
import operator
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

MOST_INNER = math.ceil((FARTHEST_BULGE - NEAREST_BULGE) / BULGE_STEP)
"""Lines that another one goes around and that are counted: with so many it is as far out as any."""

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
    columns = _columns(places)
    straight = {ends for ends in arcs if len(_passed(ends, columns, places)) == 0}
    sides = {ends: _side(ends, crowd, columns, places) for ends in arcs if ends not in straight}
    bulges = _bulges(sides, places)
    ports = _ports([ends for ends in edges if ends not in straight], between, sides, places)
    found: dict[Ends, DrawnLine] = {}
    for ends in edges:
        if ends in straight:
            found[ends] = _straight(ends, places)
        elif ends in sides:
            found[ends] = DrawnLine((ports[ends, 0], ports[ends, 1]), bulges[ends])
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


def _columns(places: Mapping[NodeKey, Point]) -> dict[float, list[tuple[float, NodeKey]]]:
    """Return the nodes of each column with their heights, from top to bottom, by where the column stands."""
    found: dict[float, list[tuple[float, NodeKey]]] = {}
    for node, (x, y) in places.items():
        found.setdefault(x, []).append((y, node))
    return {x: sorted(column) for x, column in found.items()}


def _passed(
    ends: Ends, columns: Mapping[float, Sequence[tuple[float, NodeKey]]], places: Mapping[NodeKey, Point]
) -> Sequence[tuple[float, NodeKey]]:
    """Return what stands between the two ends of a line within a column."""
    (x, one), (_, other) = (places[end] for end in ends)
    column = columns[x]
    begin = bisect.bisect_right(column, min(one, other), key=operator.itemgetter(0))
    return column[begin : bisect.bisect_left(column, max(one, other), key=operator.itemgetter(0))]


def _side(
    ends: Ends,
    crowd: Mapping[tuple[NodeKey, Side], int],
    columns: Mapping[float, Sequence[tuple[float, NodeKey]]],
    places: Mapping[NodeKey, Point],
) -> Side:
    """Return the side on which a line within a column passes fewer others; the first column has room at its right."""
    if places[ends[0]][0] == min(columns):
        return "right"
    inside = [node for _, node in _passed(ends, columns, places)]
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


def _bulges(sides: Mapping[Ends, Side], places: Mapping[NodeKey, Point]) -> dict[Ends, float]:
    """Return how far each line within a column goes out: farther than those that it goes around."""
    groups: dict[tuple[Side, float], list[tuple[float, float, float, Ends]]] = {}
    for ends, side in sides.items():
        top, bottom = sorted(places[end][1] for end in ends)
        groups.setdefault((side, places[ends[0]][0]), []).append((bottom - top, top, bottom, ends))
    found: dict[Ends, float] = {}
    for (side, _), lines in groups.items():
        lines.sort(key=operator.itemgetter(0))
        for length, top, bottom, ends in lines:
            shorter = itertools.takewhile(lambda one, length=length: one[0] < length, lines)  # type: ignore[misc]
            inner = (one for one in shorter if top <= one[1] and one[2] <= bottom)
            out = min(NEAREST_BULGE + BULGE_STEP * len(list(itertools.islice(inner, MOST_INNER))), FARTHEST_BULGE)
            found[ends] = out if side == "right" else -out
    return found


def _through(lane: NodeKey, ends: Ends, places: Mapping[NodeKey, Point]) -> tuple[Point, Point]:
    """Return where a line enters a lane, and where it leaves it."""
    x, y = places[lane][0], places[lane][1] + LANE / 2
    left, right = (x, y), (x + NODE_WIDTH, y)
    return (left, right) if places[ends[1]][0] > places[ends[0]][0] else (right, left)
