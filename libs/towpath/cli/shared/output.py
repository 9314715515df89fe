"""Printing results: tables for people, JSON, JSON lines and YAML for programs.

A table is drawn for a person only, so without `-o` a pipe gets JSON; the fields of JSON are those of the HTTP API.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from towpath.cli.shared.progress import ProgressLine, progress, without_progress
from towpath.cli.shared.text import one_line, plain_json, plain_yaml, printable

if TYPE_CHECKING:
    from rich.console import Console

Format = Literal["table", "json", "jsonl", "yaml"]
Row = Mapping[str, Any]
WIDE = 10_000
"""Columns of a table that no terminal shows: it is never folded."""


NARROW = 120
"""Columns of a terminal below which a table shows ids by their ends: whole ones would leave no room for the rest."""

_ID_END = 12


class Column(NamedTuple):
    """A column of a table: its title and how to read its cell from a row.

    One of ids shows their ends on a narrow terminal; one that `is_whole` is folded between words there, and never cut.
    """

    title: str
    cell: str | Callable[[Row], object]
    is_id: bool = False
    is_whole: bool = False

    def of(self, row: Row) -> str:
        """Return the cell of *row*, safe to print."""
        value = self.cell(row) if callable(self.cell) else row.get(self.cell)
        return "" if value is None else one_line(value)


def print_notice(line: str) -> None:
    """Print one line for people to stderr, whatever the format: stdout is a program's."""
    with without_progress():
        print(printable(line), file=sys.stderr, flush=True)


def show_text(text: str) -> None:
    """Print a text; to a person's terminal without signs that would steer it, since a model or a tool wrote it."""
    shown = "\n".join(map(printable, text.split("\n"))) if sys.stdout.isatty() else text
    sys.stdout.write(shown)


class OutputPrinter:
    """Prints what a command found, in the format asked for."""

    def __init__(self, chosen: Format | None = None, *, aside: bool = False) -> None:
        self.format: Format = chosen or ("table" if sys.stdout.isatty() else "json")
        self._aside = aside  # lines for people go to stderr, because stdout belongs to a program

    @property
    def for_people(self) -> bool:
        """Whether a person reads this."""
        return self.format == "table"

    @cached_property
    def console(self) -> "Console":
        """The terminal; honours NO_COLOR, and never reads markup or emoji codes in what it prints."""
        from rich.console import Console

        stream = sys.stderr if self._aside else sys.stdout
        width = (
            None if stream.isatty() else WIDE
        )  # what reads a pipe cuts lines itself, and can't put folded ones together
        return Console(markup=False, emoji=False, highlight=False, stderr=self._aside, width=width)

    def write(self, line: str, style: str | None = None) -> None:
        """Print one line for a person; programs don't get it."""
        if self.for_people:
            with without_progress():
                self.console.print(printable(line), style=style, soft_wrap=True)

    def write_folded(self, line: str, style: str | None = None, *, start: str = "", further: str = "") -> None:
        """Print one line for a person behind *start*, folded between words where the terminal is narrow.

        What goes on is behind *further*, which is to be further in than any line begins.
        """
        if not self.for_people:
            return
        from towpath.cli.shared.table import fold_line

        room = self.console.width - max(len(start), len(further))
        for number, text in enumerate(fold_line(printable(line), room)):
            self.write(f"{further if number else start}{text}", style)

    def progress(self, text: str) -> AbstractContextManager[ProgressLine]:
        """Tell a person at a terminal *text* and how far it is, while the block takes longer than a moment."""
        return progress(text, shown=self.for_people)

    def data(self, value: Any) -> None:
        """Print *value* for a program; in a table's place, as YAML."""
        match self.format:
            case "json":
                print(plain_json(value, indent=2), flush=True)
            case "jsonl":
                print(plain_json(value), flush=True)
            case "table" | "yaml":
                print(plain_yaml(value), end="", flush=True)

    def line(self, value: Any) -> None:
        """Print *value* on a line of its own for a program, whatever the format."""
        with without_progress():
            print(plain_json(value), flush=True)

    def rows(self, name: str, rows: Sequence[Row], columns: Sequence[Column], *, empty: str) -> None:
        """Print a list: a table, or `{name: [...]}`, or one JSON line per row. *empty* says why a table has no row."""
        if self.format == "jsonl":
            for row in rows:
                self.line(row)
        elif not self.for_people:
            self.data({name: list(rows)})
        elif not rows:
            self.write(empty)
        else:
            self._table(rows, columns)

    def record(self, row: Row, columns: Sequence[Column]) -> None:
        """Print one thing: its fields below each other, or the whole of it for a program."""
        if not self.for_people:
            self.data(dict(row))
            return
        width = max(len(column.title) for column in columns)
        for column in columns:
            value = column.of(row)
            if not value:
                continue
            start = f"{column.title:<{width}}  "
            if max(map(len, value.split(" "))) + len(start) > self.console.width:  # such as a digest, to be copied
                self.write(column.title)
                start = "  "
            self.write_folded(value, start=start, further=" " * len(start))

    def _table(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        from rich.text import Text

        from towpath.cli.shared.table import TableColumn, table_lines

        width = self.console.width
        short = _short_id if width < NARROW else str
        drawn = [
            TableColumn(
                column.title,
                [short(column.of(row)) if column.is_id else column.of(row) for row in rows],
                column.is_id,
                column.is_whole,
            )
            for column in columns
        ]
        with without_progress():
            for number, line in enumerate(table_lines(drawn, width)):
                self.console.print(Text(line, style="" if number else "bold"), soft_wrap=True)


def _short_id(text: str) -> str:
    """Return the end of a UUID, as commands take it too; its beginning is a time, which many have in common."""
    return f"…{text[-_ID_END:]}" if len(text) == len("00000000-0000-0000-0000-000000000000") else text
