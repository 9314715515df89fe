"""A table for a terminal as wide as it is: no word and no id is broken, and nothing is left out.

A table that is too wide first loses what a reader misses least: columns without a cell, the year and the seconds of
times, the ends of long texts. What still has no room stands below its row, with its title: names together on a line,
each text on one of its own, so that what a stranger wrote is not taken for a name.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from towpath_fabric.clock import wall

GAP = 2
"""Columns of the terminal between two columns of a table."""

TEXT_LEAST = 24
"""Of a text whose end is cut: with less room it stands below its row, where it is whole. A shorter one is a name."""

_INDENT = "    "

_TIME = re.compile(r"(\d{4})-(\d\d-\d\d[ T]\d\d:\d\d)(?::\d\d\S*)?")


class TableColumn(NamedTuple):
    """One column as it is drawn; `is_whole` for what has to be read to its end: it is folded, never cut."""

    title: str
    cells: list[str]
    is_id: bool = False
    is_whole: bool = False

    @property
    def natural(self) -> int:
        """How wide it is with nothing cut."""
        return max(map(cell_len, (self.title, *self.cells)))

    @property
    def is_text(self) -> bool:
        """Whether it has long cells of several words, which can be cut or folded."""
        return not self.is_id and any(" " in cell and cell_len(cell) > TEXT_LEAST for cell in self.cells)

    @property
    def least(self) -> int:
        """How much room it needs to stand in the table."""
        longest = max((cell_len(word) for cell in self.cells for word in cell.split()), default=0)
        needed = max(TEXT_LEAST, longest if self.is_whole else 0, cell_len(self.title))
        return min(self.natural, needed) if self.is_text else self.natural


def table_lines(columns: Sequence[TableColumn], width: int) -> list[str]:
    """Return the lines of a table on a terminal of *width* columns; the first line is the header."""
    shown = list(columns)
    if _room(column.natural for column in shown) > width:
        shown = [_short_times(column) for column in shown if any(column.cells)]
    places = {id(column): place for place, column in enumerate(shown)}
    below: list[TableColumn] = []
    while len(shown) > 1 and _room(column.least for column in shown) > width:
        texts = [place for place, column in enumerate(shown) if place and column.is_text]
        below.append(shown.pop(texts[-1] if texts else -1))
    below.sort(key=lambda column: places[id(column)])
    widths = _widths(shown, width)
    lines = _joined([[column.title] for column in shown], widths)
    for row in range(len(columns[0].cells)):
        lines += _joined([_folded(column, row, room) for column, room in zip(shown, widths, strict=True)], widths)
        lines += _lines_below(below, row, width)
    return lines


def _room(widths: Iterable[int]) -> int:
    found = list(widths)
    return sum(found) + GAP * (len(found) - 1)


def _short_times(column: TableColumn) -> TableColumn:
    """Return a column of times without seconds, and without the year where it is this one's in all of them."""
    found = [_TIME.fullmatch(cell) for cell in column.cells]
    is_this_year = {time[1] for time in found if time} == {str(wall().year)}
    cut = r"\2" if is_this_year else r"\1-\2"
    cells = [time.expand(cut) if time else cell for time, cell in zip(found, column.cells, strict=True)]
    return column._replace(cells=cells)


def _widths(columns: Sequence[TableColumn], width: int) -> list[int]:
    """Return how wide each column is: what is left goes to the narrowest of those that are cut."""
    widths = [min(column.least, width) for column in columns]
    for _ in range(width - _room(widths)):
        cut = [place for place, column in enumerate(columns) if widths[place] < column.natural]
        if not cut:
            break
        widths[min(cut, key=widths.__getitem__)] += 1
    return widths


def _folded(column: TableColumn, row: int, room: int) -> list[str]:
    cell = column.cells[row]
    if cell_len(cell) <= room:
        return [cell]
    if column.is_whole or not column.is_text:  # a name is wider than its room only where the whole terminal is
        return fold_words(cell, room)
    return [set_cell_size(cell, room - 1).rstrip() + "…"]


def _joined(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return the lines of one row of the table, whose cells have one or more lines each."""
    gap = " " * GAP
    lines = []
    for number in range(max(map(len, cells))):
        parts = (lines_of[number] if number < len(lines_of) else "" for lines_of in cells)
        lines.append(gap.join(map(set_cell_size, parts, widths)).rstrip())
    return lines


def _lines_below(columns: Sequence[TableColumn], row: int, width: int) -> list[str]:
    told = [(column.is_text, f"{column.title} {column.cells[row]}".strip()) for column in columns if column.cells[row]]
    names = " · ".join(text for is_text, text in told if not is_text)
    texts = (text for is_text, text in told if is_text)
    return [_INDENT + line for text in (names, *texts) if text for line in fold_words(text, width - len(_INDENT))]


def fold_words(text: str, width: int) -> list[str]:
    """Return *text* in lines of at most *width* columns, folded between words; only a word that is wider is broken."""
    lines = [""]
    for word in text.split():
        for piece in chop_cells(word, width) if cell_len(word) > width else [word]:
            joined = f"{lines[-1]} {piece}".lstrip()
            if cell_len(joined) <= width:
                lines[-1] = joined
            else:
                lines.append(piece)
    return lines


def fold_line(text: str, width: int) -> list[str]:
    """Return *text* as it is where it has room, or has a word that has none and is to be copied; else folded."""
    if cell_len(text) <= width or max(map(cell_len, text.split()), default=0) > width:
        return [text]
    return fold_words(text, width)
