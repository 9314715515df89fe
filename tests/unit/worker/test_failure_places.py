"""A failure says on which line of its author's file a tool raised: a base name and a number, for people alone."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from towpath.errors import ToolError
from towpath_contracts.tools.calls import ToolFailure
from towpath_worker.core.results import failure_of

ORDERS = """\
import json
from concurrent.futures import ThreadPoolExecutor


def plain(order):
    return {}[order]


def through_a_library(order):
    return json.loads(order)


def in_another_thread(order):
    with ThreadPoolExecutor() as pool:
        return pool.submit(plain, order).result()


def with_a_cause(order):
    try:
        plain(order)
    except KeyError as error:
        raise ValueError("no such order") from error


def in_written_code(order):
    exec("1 / 0")
"""


@pytest.fixture
def orders(tmp_path: Path) -> ModuleType:
    """The tools of somebody who calls a file as a package of the platform is called."""
    return written(tmp_path / "shop" / "towpath_orders.py", ORDERS)


def written(path: Path, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    module = ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def failure(function: Callable[..., Any], *args: Any) -> ToolFailure:
    try:
        function(*args)  # the last line of this file that its errors come through
    except BaseException as error:  # noqa: BLE001 - as the worker does
        return failure_of(error)
    raise AssertionError


CALLS_AT = failure.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("name", "line"),
    [("plain", 6), ("through_a_library", 10), ("in_another_thread", 6), ("with_a_cause", 22), ("in_written_code", 26)],
)
def test_the_place_is_the_last_line_of_the_authors_own(orders: ModuleType, name: str, line: int) -> None:
    assert failure(getattr(orders, name), "x").place == f"towpath_orders.py:{line}"


def test_no_folder_is_told_and_the_message_is_what_was_raised(orders: ModuleType) -> None:
    found = failure(orders.plain, "x")
    assert (found.code, found.message) == ("tool_exception", "KeyError: 'x'")
    assert found.for_people() == "KeyError: 'x' (towpath_orders.py:6)"
    assert "shop" not in found.model_dump_json()


def test_an_installed_library_is_passed_over(orders: ModuleType, tmp_path: Path) -> None:
    library = written(tmp_path / "site-packages" / "library.py", "def call(function):\n    function()\n    1 / 0\n")
    assert failure(library.call, lambda: orders.plain("x")).place == "towpath_orders.py:6"
    below = failure(library.call, lambda: None)
    assert below.message == "ZeroDivisionError: division by zero"
    assert below.place == f"{Path(__file__).name}:{CALLS_AT}", "the line that called the library"


def test_what_was_raised_in_no_file_of_an_author_has_no_place() -> None:
    assert failure_of(ValueError("never raised")).place == ""
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    frames = caught.value.__traceback__
    assert frames is not None
    assert failure_of(caught.value.with_traceback(frames.tb_next)).place == ""


def test_an_error_that_an_author_words_has_no_place() -> None:
    def refuse() -> None:
        raise ToolError("order_unknown", "No order 7")

    found = failure(refuse)
    assert (found.place, found.for_people()) == ("", "No order 7")


def test_a_long_message_does_not_push_the_place_out() -> None:
    long = ToolFailure(code="tool_exception", message="x" * 500, place="orders.py:14")
    assert long.for_people(100) == "x" * 99 + "… (orders.py:14)"
