"""What `towpath demo crash` makes of the numbers that it finds."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from towpath.cli.administration.demo_crash import booked_refunds, was_called_once


@pytest.mark.parametrize(
    ("calls", "refunds", "once"),
    [
        ({"orders.find": 1, "orders.refund": 1}, 1, True),
        ({"orders.find": 1}, 0, True),
        ({"orders.find": 1, "orders.refund": 2}, 2, False),
        ({"orders.find": 2, "orders.refund": 1}, 1, False),
        ({"orders.find": 1, "orders.refund": 1}, 2, False),
        ({"orders.find": 1, "orders.refund": 1}, 0, False),
        ({}, 0, False),
    ],
)
def test_a_tool_was_called_once_where_audit_and_shop_say_so(calls: Any, refunds: int, once: bool) -> None:
    assert was_called_once({"calls": calls, "refunds": refunds}) is once


def test_the_refunds_of_the_order_are_those_that_the_shop_booked(tmp_path: Path) -> None:
    shop = tmp_path / "orders.sqlite3"
    assert booked_refunds(shop) == 0 and not shop.exists()
    with closing(sqlite3.connect(shop)) as database, database:
        database.execute("CREATE TABLE refunds (order_id TEXT)")
        database.executemany("INSERT INTO refunds VALUES (?)", [("8812",), ("8811",), ("8812",)])
    assert booked_refunds(shop) == 2
