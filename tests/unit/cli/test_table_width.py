"""Every table of the command line on a terminal of 80 columns, with values that are long."""

import importlib
import pkgutil
import uuid
from collections.abc import Iterator
from typing import Any, Self

import pytest
from rich.console import Console

import towpath.cli
from towpath.cli.shared.output import Column, OutputPrinter

WIDTH = 80
LONG = "a-rather-long-name.of-something " * 3


EXACT: dict[str, Any] = {"success": True, "total_cost_usd": 123_456_789.0}
"""Members of which only some values can be: a mark is made of them, or a number."""


class LongValue(str):
    """Stands for any value of a row: whatever is asked of it, it is long."""

    __slots__ = ()

    def __new__(cls) -> Self:
        return super().__new__(cls, LONG)

    def __getitem__(self, key: Any) -> Any:
        return str(self)[key] if isinstance(key, slice) else LongValue()

    def get(self, key: Any, default: Any = None) -> Any:
        return LongValue()

    def items(self) -> list[tuple[str, Any]]:
        return [(LONG, LongValue())]

    def keys(self) -> list[str]:
        return [LONG]

    def __iter__(self) -> Iterator[Any]:
        return iter([LongValue()])

    def __format__(self, how: str) -> str:
        return LONG

    def __mul__(self, other: Any) -> Any:
        return LongValue()

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return LongValue()

    def __gt__(self, other: Any) -> bool:
        return True


class LongRow(dict[str, Any]):
    """A row that has every member; those that name a thing are ids."""

    def __missing__(self, name: str) -> Any:
        if name in EXACT:
            return EXACT[name]
        return str(uuid.UUID(int=2**127)) if name.endswith("_id") else LongValue()

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def tables() -> dict[str, tuple[Column, ...]]:
    found = {}
    for module in pkgutil.walk_packages(towpath.cli.__path__, "towpath.cli."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, tuple) and value and all(isinstance(one, Column) for one in value):
                found[f"{module.name}:{name}"] = value
    return found


TABLES = tables()


def test_there_are_tables() -> None:
    assert len(TABLES) > 40


@pytest.mark.parametrize("name", TABLES)
def test_no_line_of_a_table_is_wider_than_the_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns = TABLES[name]
    out = OutputPrinter("table")
    out.console = Console(markup=False, emoji=False, highlight=False, width=WIDTH)
    rows = [LongRow(), LongRow()]
    out.rows("rows", rows, columns, empty="")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    ids = [column.of(rows[0])[-12:] for column in columns if column.is_id]
    assert all(any(f"…{one}" in line for line in lines) for one in ids), "an id is short, and whole"
