"""Puts the boxes of a graph in order from top to bottom, and says where each stands, so that few lines cross.

An edge over several columns passes a lane of its own in each column between. The order is sought by putting every node
at the middle of its neighbours, there and back, and then by moving single nodes while that leaves fewer crossings; the
best order that was seen is kept. Heights follow the neighbours too, so that long lines are straight.
"""

import bisect
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

NODE_WIDTH, NODE_HEIGHT = 190.0, 50.0
COLUMN_GAP, ROW_GAP, LANE_GAP = 96.0, 24.0, 6.0
LANE = 10.0
"""The height of a row in which only an edge passes."""

MARGIN = 30.0
SWEEPS = 8
"""How often the rows of all columns are put in order: more changes little in fifty agents."""

MOST_MOVES = 800
"""Places of single nodes that are tried: all that help in twenty agents."""

MOST_WORK = 150_000
"""Boxes and lines that are looked at for these: some tenths of a second, however many lines a network has."""

SETTLING = 6
"""How often heights follow those of the columns beside them."""

STRAIGHT = 4.0
"""How much more than a box a lane insists on the height of its neighbours."""

NodeKey = tuple[Literal["agent", "answer", "lane"], str]
Ends = tuple[NodeKey, NodeKey]
Point = tuple[float, float]
Rows = tuple[tuple[NodeKey, ...], ...]


@functools.lru_cache(maxsize=64)
def ordered_rows(
    columns: tuple[tuple[NodeKey, int], ...], edges: tuple[Ends, ...]
) -> tuple[Rows, Mapping[Ends, tuple[NodeKey, ...]]]:
    """Return the columns with their nodes from top to bottom, and the lanes that each long edge passes."""
    column_of = dict(columns)
    rows: list[list[NodeKey]] = [[] for _ in range(max(column_of.values(), default=0) + 1)]
    for node, column in columns:
        rows[column].append(node)
    passes: dict[Ends, tuple[NodeKey, ...]] = {}
    gaps: list[list[Ends]] = [[] for _ in rows]
    arcs: list[list[Ends]] = [[] for _ in rows]
    for number, (source, target) in enumerate(edges):
        begin, end = column_of[source], column_of[target]
        if begin == end:
            arcs[begin].append((source, target))
            continue
        step = 1 if end > begin else -1
        lanes: tuple[NodeKey, ...] = tuple(("lane", f"{number}.{column}") for column in range(begin + step, end, step))
        for column, lane in zip(range(begin + step, end, step), lanes, strict=True):
            rows[column].append(lane)
        passes[source, target] = lanes
        way = (source, *lanes, target)[::step]
        for place, pair in enumerate(itertools.pairwise(way)):
            gaps[min(begin, end) + place].append(pair)
    best = _RowSearch(rows, gaps, arcs).best()
    return tuple(map(tuple, best)), passes


class _RowSearch:
    """Looks for an order of every column in which few lines cross."""

    def __init__(
        self, rows: list[list[NodeKey]], gaps: Sequence[Sequence[Ends]], arcs: Sequence[Sequence[Ends]]
    ) -> None:
        self._rows = rows
        self._gaps = gaps
        self._arcs = arcs
        self._left: dict[NodeKey, list[NodeKey]] = {}
        self._right: dict[NodeKey, list[NodeKey]] = {}
        for left, right in (pair for gap in gaps for pair in gap):
            self._right.setdefault(left, []).append(right)
            self._left.setdefault(right, []).append(left)
        self._moves, self._work = MOST_MOVES, MOST_WORK

    def best(self) -> list[list[NodeKey]]:
        """Return the best order that was found."""
        found, least = [list(row) for row in self._rows], self._crossings()
        for sweep in range(SWEEPS):
            self._sweep(forward=sweep % 2 == 0)
            if (crossings := self._crossings()) < least:
                found, least = [list(row) for row in self._rows], crossings
        self._rows = found
        while sum(map(self._improve, range(len(found)))) and self._may_try():
            pass
        return self._rows

    def _sweep(self, *, forward: bool) -> None:
        order = range(1, len(self._rows)) if forward else range(len(self._rows) - 2, -1, -1)
        beside = self._left if forward else self._right
        for column in order:
            before = self._rows[column - 1 if forward else column + 1]
            share = {node: (place + 0.5) / len(before) for place, node in enumerate(before)}
            row = self._rows[column]
            own = {node: (place + 0.5) / len(row) for place, node in enumerate(row)}

            def middle(node: NodeKey, share: Mapping[NodeKey, float], own: Mapping[NodeKey, float]) -> float:
                near = [share[other] for other in beside.get(node, ())]
                return sum(near) / len(near) if near else own[node]

            row.sort(key=lambda node: (middle(node, share, own), own[node]))  # used at once

    def _improve(self, column: int) -> bool:
        """Move each node of a column to where fewest lines cross; returns whether any was moved."""
        moved = False
        cost = len(self._rows[column]) + sum(
            map(len, (self._arcs[column], *self._gaps[max(column - 1, 0) : column + 1]))
        )
        for node in tuple(self._rows[column]):
            if not self._may_try():
                break
            row = self._rows[column]
            at, least = row.index(node), self._around(column)
            found = at
            rest = [other for other in row if other != node]
            for place in range(len(row)):
                if place == at or not self._may_try():
                    continue
                self._moves, self._work = self._moves - 1, self._work - cost
                self._rows[column] = [*rest[:place], node, *rest[place:]]
                if (crossings := self._around(column)) < least:
                    found, least = place, crossings
            self._rows[column] = [*rest[:found], node, *rest[found:]]
            moved = moved or found != at
        return moved

    def _may_try(self) -> bool:
        return self._moves > 0 and self._work > 0

    def _crossings(self) -> float:
        return sum(map(self._gap_crossings, range(len(self._rows) - 1))) + sum(
            map(self._arc_crossings, range(len(self._rows)))
        )

    def _around(self, column: int) -> float:
        beside = [gap for gap in (column - 1, column) if 0 <= gap < len(self._rows) - 1]
        return sum(map(self._gap_crossings, beside)) + self._arc_crossings(column)

    def _gap_crossings(self, gap: int) -> int:
        left = {node: place for place, node in enumerate(self._rows[gap])}
        right = {node: place for place, node in enumerate(self._rows[gap + 1])}
        seen: list[int] = []
        found = 0
        for _, end in sorted((left[one], right[other]) for one, other in self._gaps[gap]):
            found += len(seen) - bisect.bisect_right(seen, end)
            bisect.insort(seen, end)
        return found

    def _arc_crossings(self, column: int) -> float:
        """Return what lines within a column cost: those to the next box nothing, the others what they pass."""
        if not self._arcs[column]:
            return 0.0
        row = self._rows[column]
        place = {node: number for number, node in enumerate(row)}
        spans = sorted((min(ends), max(ends)) for ends in ((place[a], place[b]) for a, b in self._arcs[column]))
        lines = [
            [0, *itertools.accumulate(len(side.get(node, ())) for node in row)] for side in (self._left, self._right)
        ]
        found, length = 0, 0
        for begin, end in spans:
            if end - begin > 1:
                found += min(passed[end] - passed[begin + 1] for passed in lines)
                length += end - begin
        seen: list[int] = []
        for begin, group in itertools.groupby(spans, key=lambda span: span[0]):
            ends = [end for _, end in group]
            found += sum(bisect.bisect_left(seen, end) - bisect.bisect_right(seen, begin) for end in ends)
            for end in ends:
                bisect.insort(seen, end)
        return found + 0.05 * length


def placed(rows: Rows, edges: Sequence[Ends]) -> tuple[dict[NodeKey, Point], float, float]:
    """Return the upper left corner of each node, and the size of it all; *edges* are between columns side by side."""
    middles: dict[NodeKey, float] = {}
    for row in rows:
        offsets = _offsets(row)
        middles |= {node: at - offsets[-1] / 2 for node, at in zip(row, offsets, strict=True)}
    beside: dict[NodeKey, list[NodeKey]] = {}
    for one, other in edges:
        beside.setdefault(one, []).append(other)
        beside.setdefault(other, []).append(one)
    for turn in range(SETTLING):
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = [_wanted(node, beside.get(node, ()), middles) for node in row]
            middles |= dict(zip(row, _apart(row, wanted), strict=True))
    top = min((middle - _height(node) / 2 for node, middle in middles.items()), default=0.0)
    found = {
        node: (MARGIN + column * (NODE_WIDTH + COLUMN_GAP), round(MARGIN + middles[node] - _height(node) / 2 - top, 1))
        for column, row in enumerate(rows)
        for node in row
    }
    width = MARGIN * 2 + len(rows) * NODE_WIDTH + max(len(rows) - 1, 0) * COLUMN_GAP
    bottom = max((found[node][1] + _height(node) for node in found), default=MARGIN)
    return found, width, bottom + MARGIN


def _height(node: NodeKey) -> float:
    return LANE if node[0] == "lane" else NODE_HEIGHT


def _offsets(row: Sequence[NodeKey]) -> list[float]:
    """Return how far the middle of each node is below that of the first, where they stand as close as they may."""
    found = [0.0] if row else []
    for one, other in itertools.pairwise(row):
        gap = LANE_GAP if "lane" in (one[0], other[0]) else ROW_GAP
        found.append(found[-1] + _height(one) / 2 + gap + _height(other) / 2)
    return found


def _wanted(node: NodeKey, beside: Sequence[NodeKey], middles: Mapping[NodeKey, float]) -> float:
    """Return the height at which a node's lines are most nearly level; that of a lane beside it counts more."""
    weights = [STRAIGHT if other[0] == "lane" else 1.0 for other in beside]
    total = sum(weights)
    if not total:
        return middles[node]
    return sum(weight * middles[other] for weight, other in zip(weights, beside, strict=True)) / total


def _apart(row: Sequence[NodeKey], wanted: Sequence[float]) -> list[float]:
    """Return heights as near to those *wanted* as their order and distances allow (least squares, pooled)."""
    offsets = _offsets(row)
    pools: list[tuple[float, float, int]] = []
    for node, offset, height in zip(row, offsets, wanted, strict=True):
        weight = STRAIGHT if node[0] == "lane" else 1.0
        value, number = height - offset, 1
        while pools and pools[-1][0] >= value:
            other, heavy, many = pools.pop()
            value = (value * weight + other * heavy) / (weight + heavy)
            weight, number = weight + heavy, number + many
        pools.append((value, weight, number))
    level = [value for value, _, number in pools for _ in range(number)]
    return [value + offset for value, offset in zip(level, offsets, strict=True)]
