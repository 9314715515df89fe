"""The sizes on the page are those that the measured costs give, and the costs are those of the benchmarks' page."""

import importlib.util
from types import ModuleType

from tests.support.places import ROOT


def sizing_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizing_of_bench", ROOT / "bench" / "growth" / "sizing.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


SIZING = sizing_module()
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_table_of_the_page_is_what_the_program_prints() -> None:
    printed = SIZING.table(**vars(SIZING.parser().parse_args([])))
    assert printed in (ROOT / "docs" / "scaling-out.md").read_text("utf-8")


def test_costs_are_those_that_were_measured() -> None:
    lines = PAGE.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("| CPU ms a step |"))
    measured = dict(zip(cells(lines[head])[1:], cells(lines[head + 2])[1:], strict=True))
    assert {name: float(measured[name]) for name in SIZING.CPU_MS} == SIZING.CPU_MS
    rows = {cells(line)[0]: cells(line)[1:] for line in lines if line.startswith("|")}
    assert rows["bytes stored per step"][-1] == f"{SIZING.STORED_BYTES:,}"
    assert rows["bytes written to Postgres' log per step"][-1] == f"{SIZING.WAL_BYTES:,}"
    assert f"| {SIZING.SHARED_FACTOR:.2f} |" == f"| {10.82 / 4.61:.2f} |"
    assert "| CPU ms per step | 4.61 | 10.82 |" in PAGE


def test_processes_grow_with_steps_and_there_is_always_one() -> None:
    assert SIZING.processes(1.0, 0.001, 0.5) == 1
    assert SIZING.processes(1.0, 500.0, 0.5) == 1
    assert SIZING.processes(1.0, 501.0, 0.5) == 2
    assert SIZING.processes(0.5, 2_000.0, 0.25) == 4


def test_twice_as_long_kept_is_twice_the_disk_and_no_other_number() -> None:
    given = {"runs": 1_000_000, "steps": 10, "peak": 3.0, "busy": 0.5, "disk_tb": 4.0}
    short, long = (dict(SIZING.sizing(**given, days=days)) for days in (30, 60))
    assert (short["rows of 30 days"], long["rows of 60 days"]) == ("2.4 TB", "4.8 TB")
    assert (short["Postgres servers of 4 TB"], long["Postgres servers of 4 TB"]) == ("1", "2")
    same = short.keys() & long.keys() - {"Postgres servers of 4 TB"}
    assert all(short[name] == long[name] for name in same)
