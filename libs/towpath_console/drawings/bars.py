"""A small chart of values in a row, as rectangles of an SVG: what is missing leaves a gap, and nothing is a line."""

from collections.abc import Sequence
from typing import NamedTuple

WIDTH = 100.0
HEIGHT = 24.0
GAP = 0.2
"""Of the place of one bar."""

LEAST = 0.5
"""Height of a bar that is not nothing, so that it can be seen."""


FEWEST = 30
"""Places of a chart: a few values are thin bars at its right, where the newest stand, and no blocks."""


class ChartBar(NamedTuple):
    """One rectangle, from the upper left corner."""

    x: float
    y: float
    width: float
    height: float


def bar_chart(values: Sequence[float | None]) -> list[ChartBar]:
    """Return a bar for each of *values* that is known, the highest as high as the chart."""
    most = max((value for value in values if value is not None), default=0.0)
    places = max(FEWEST, len(values))
    place, before = WIDTH / places, places - len(values)
    bars = []
    for number, value in enumerate(values):
        if value is None or value <= 0:
            continue
        height = max(LEAST, HEIGHT * value / most)
        x = (before + number) * place + place * GAP / 2
        bars.append(ChartBar(round(x, 2), round(HEIGHT - height, 2), round(place * (1 - GAP), 2), round(height, 2)))
    return bars
