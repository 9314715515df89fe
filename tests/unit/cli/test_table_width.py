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
from towpath.cli.shared.table import TEXT_LEAST, TableColumn, table_lines
from towpath_fabric.clock import wall

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


YEAR = wall().year
"""Of times whose year is not shown."""

AUDIT = [
    TableColumn("entry", ["14", "13"], is_id=True),
    TableColumn("at", [f"{YEAR}-11-27 07:49:47", f"{YEAR}-11-27 07:49:46"]),
    TableColumn("phase", ["decision", "outcome"]),
    TableColumn("verdict", ["require_approval", "succeeded"]),
    TableColumn("tool", ["orders.refund v1", "orders.find v1"]),
    TableColumn("agent", ["billing", "billing"]),
    TableColumn("handed to", ["", ""]),
    TableColumn("rule", ["refunds-over-100", ""]),
    TableColumn("run", ["…90b234abf41f", "…90b234abf41f"], is_id=True),
]


def test_what_has_no_room_stands_below_its_row() -> None:
    assert table_lines(AUDIT, WIDTH) == [
        "entry  at           phase     verdict           tool              agent",
        "14     11-27 07:49  decision  require_approval  orders.refund v1  billing",
        "    rule refunds-over-100 · run …90b234abf41f",
        "13     11-27 07:49  outcome   succeeded         orders.find v1    billing",
        "    run …90b234abf41f",
    ]


def test_a_table_that_fits_is_shown_with_all_its_columns_and_whole_times() -> None:
    header, first, _ = table_lines(AUDIT, 140)
    assert header.split() == ["entry", "at", "phase", "verdict", "tool", "agent", "handed", "to", "rule", "run"]
    assert f"{YEAR}-11-27 07:49:47" in first


@pytest.mark.parametrize("width", range(12, 130))
def test_no_word_of_a_table_is_broken_at_any_width_and_no_column_is_lost(width: int) -> None:
    lines = table_lines(AUDIT, width)
    assert max(map(len, lines)) <= width
    if width > len("verdict require_approval"):
        shown = "\n".join(lines)
        assert all(cell in shown for column in AUDIT[2:] for cell in column.cells if " " not in cell)
        assert all(column.title in shown for column in AUDIT if any(column.cells))


def test_times_of_another_year_keep_it() -> None:
    times = ["2019-12-31 23:59:59", "never", "2020-01-01T00:00:01.123456+00:00", ""]
    lines = table_lines([TableColumn("at", times), TableColumn("what", ["x" * 70] * 4)], 88)
    assert [line[:16].rstrip() for line in lines[1:]] == ["2019-12-31 23:59", "never", "2020-01-01T00:00", ""]


TEXT = "Somebody looks at large refunds before they are made, on working days alone."
"""Longer than it has room, wherever it is used."""


def test_a_text_is_cut_where_it_has_room_enough_to_be_told_apart() -> None:
    header, line = table_lines([TableColumn("rule", ["refunds"]), TableColumn("why", [TEXT])], 9 + TEXT_LEAST)
    assert header == "rule     why"
    assert line == "refunds  Somebody looks at large…", "cut at the end, and it shows"
    assert len(line) == 9 + TEXT_LEAST


def test_a_text_without_such_room_stands_whole_below_on_lines_of_its_own() -> None:
    columns = [TableColumn("rule", ["refunds"]), TableColumn("why", [TEXT]), TableColumn("by", ["local"])]
    assert table_lines(columns, 8 + TEXT_LEAST) == [
        "rule     by",
        "refunds  local",
        "    why Somebody looks at large",
        "    refunds before they are",
        "    made, on working days alone.",
    ]


def test_a_text_cannot_pass_itself_off_as_a_name() -> None:
    said = "Harmless, and well known · by somebody-you-trust"
    columns = [TableColumn("rule", ["refunds"]), TableColumn("why", [said]), TableColumn("by", ["x" * 72])]
    assert table_lines(columns, WIDTH)[1:] == ["refunds", f"    by {'x' * 72}", f"    why {said}"]


def test_what_must_be_read_to_its_end_is_folded_between_words_and_never_cut() -> None:
    columns = [TableColumn("check", ["tools"]), TableColumn("remedy", [TEXT], is_whole=True)]
    assert table_lines(columns, 50) == [
        "check  remedy",
        "tools  Somebody looks at large refunds before they",
        "       are made, on working days alone.",
    ]


def test_wide_signs_are_counted_as_the_terminal_draws_them() -> None:
    columns = [TableColumn("a", ["日本語"]), TableColumn("b", ["c"])]
    assert table_lines(columns, WIDTH) == ["a       b", "日本語  c"]
