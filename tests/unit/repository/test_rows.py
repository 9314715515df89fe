"""The table of rows is whole: each has tests that bear its name, and a mutation that can still be made."""

import pytest
from tests import rows
from tests.rows import Row, RowMutation, faults, table


def test_every_row_of_the_table_has_tests_and_a_mutation_of_code_that_is_there() -> None:
    assert faults(table()) == []
    assert set(table()) == set(rows.ROWS)


@pytest.mark.parametrize(
    ("name", "row", "fault"),
    [
        (
            "A1",
            {"old": "no_such_code"},
            "A1: towpath_contracts:_check_defaults has 'no_such_code' nowhere, not once",
        ),
        ("A1", {"old": "defaults"}, "not once"),
        ("A1", {"new": "len(defaults) > 1"}, "changes nothing"),
        ("A1", {"symbol": "towpath_nowhere:f"}, "no package of the product"),
        ("A1", {"symbol": "tests:rows"}, "no package of the product"),
        ("A1", {"tests": ("test_nobody",)}, "no test of it is called 'test_nobody'"),
        ("A99", {}, "A99 is no row"),
    ],
)
def test_what_is_wrong_with_a_row_is_reported(name: str, row: dict[str, object], fault: str) -> None:
    good = {"symbol": "towpath_contracts:_check_defaults", "old": "len(defaults) > 1", "new": "len(defaults) > 2"}
    made = Row(what="a row", pure=True, mutation=RowMutation.model_validate({**good, **row}))
    assert any(fault in found for found in faults({name: made}))


def test_a_row_without_a_test_and_one_that_runs_no_process_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    row = table()["A1"]
    assert "A1 is no pure rule, and none of its tests runs a process" in faults(
        {"A1": row.model_copy(update={"pure": False})}
    )
    monkeypatch.setattr(rows, "tests", tuple)
    assert "A1 has no test named for it" in faults({"A1": row})
