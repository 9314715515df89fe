"""The command that mutates defaults and caps finds them all, changes what it says, and tells killed from survivor."""

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from tests.mutation.values.coded_groups import causes
from tests.mutation.values.explanations import read_explanations, reasons, wrong_names
from tests.mutation.values.inventory import Value, inventory, mutated_source
from tests.support.places import ROOT

LIMITS = """
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

MAX_TRIES: Final = 3
SHARE = 0.8
WAITS_S = (1.0, 2.0)
PAUSES = {"short": 1, "long": 16 * 60}
MAX_BYTES = 2 * MAX_TRIES
WIRE_SIZE = "1MB"
NAME = "shop"
Colour = Literal["red", "blue"]
Word = Annotated[str, Field(max_length=400)]


class State(StrEnum):
    NEW = "new"
    OLD = "old"


class Order(BaseModel):
    count: int = Field(default=60, ge=1, le=100)
    tries: int = MAX_TRIES
    open: bool = False
    colour: Colour = "red"
    state: State = State.NEW
    note: str = ""


def order(count: int = 2, *, wait_s: float = 0.0, name: str = "x") -> None:
    local = 7
"""
FOUND = {
    "shop:MAX_TRIES": ("6", "4", "2"),
    "shop:SHARE": ("0.4",),
    "shop:WAITS_S": ("tuple(2 * one for one in (1.0, 2.0))",),
    "shop:PAUSES[short]": ("2",),
    "shop:PAUSES[long]": ("1920",),
    "shop:MAX_BYTES": ("2 * (2 * MAX_TRIES)",),
    "shop:WIRE_SIZE": ("'2MB'",),
    "shop:Word[max_length]": ("800",),
    "shop:Order.count": ("30",),
    "shop:Order.count[ge]": ("2", "0"),
    "shop:Order.count[le]": ("200", "101", "99"),
    "shop:Order.tries": ("2 * (MAX_TRIES)",),
    "shop:Order.open": ("True",),
    "shop:Order.colour": ("'blue'",),
    "shop:Order.state": ("State.OLD",),
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def test_every_kind_of_value_is_found_and_nothing_else(tmp_path: Path) -> None:
    found = inventory(tree(tmp_path, {"libs/shop/__init__.py": "", "libs/shop/limits.py": LIMITS}))
    assert {value.name: value.mutants for value in found} == FOUND


def test_of_arguments_those_of_the_sdk_and_of_http_operations_are_values(tmp_path: Path) -> None:
    operation = "def listed(limit: Annotated[int, Query(ge=1, le=9)] = 5, deep: bool = True): ...\n"
    files = {"libs/towpath/limits.py": LIMITS, "services/towpath_gateway/routes.py": operation}
    names = [value.name for value in inventory(tree(tmp_path, files)) if value.kind == "argument"]
    assert names == ["towpath:order(count)", "towpath:order(wait_s)", "towpath_gateway:listed(limit)"]


def test_one_name_in_two_modules_is_told_apart_by_them(tmp_path: Path) -> None:
    found = inventory(tree(tmp_path, {"libs/shop/a.py": "WAIT_S = 1\n", "libs/shop/b.py": "WAIT_S = 2\nAGE_S = 3\n"}))
    assert [value.name for value in found] == ["shop.a:WAIT_S", "shop.b:WAIT_S", "shop:AGE_S"]


def test_a_mutated_module_differs_in_the_value_alone_and_keeps_its_lines(tmp_path: Path) -> None:
    text = "# héllo\nA_S = (\n    1\n    + 2\n)\nB_S = 5\n"
    found = inventory(tree(tmp_path, {"libs/shop/a.py": text}))
    made = mutated_source(tmp_path / "libs/shop/a.py", [(value, value.mutants[0]) for value in found]).decode()
    held: dict[str, int] = {}
    exec(made, held)  # the mutated module
    assert (held["A_S"], held["B_S"]) == (6, 10)
    assert made.splitlines()[-1].startswith("B_S") and made.count("\n") == text.count("\n")


@pytest.fixture(scope="module")
def values() -> list[Value]:
    return inventory()


def test_every_value_that_is_explained_is_there_and_has_one_reason(values: list[Value]) -> None:
    assert wrong_names(read_explanations(), (value.name for value in values)) == []


def test_names_of_values_differ(values: list[Value]) -> None:
    assert len({value.name for value in values}) == len(values)


SHOP = '''
from dataclasses import dataclass

MAX_ITEMS = 3
"""Of an order."""
PAUSE_S = 0.5
WAIT_S = 2


@dataclass
class Order:
    gift: bool = False


def fits(items):
    return len(items) <= MAX_ITEMS
'''
TESTS = """
from shop.orders import MAX_ITEMS, Order, fits

def test_three_items_fit_and_four_do_not():
    assert fits([1] * 3) and not fits([1] * 4)

def test_an_order_is_no_gift():
    assert Order().gift is False
"""
FAR = """
import time
from shop import bills

def test_a_bill_waits_for_two_seconds():
    assert bills.wait() == 2
"""
EXPLAINED = "- because: it paces a loop\n  values: ['shop:PAUSE_S']\n"


STAMPS = """
import gc
from shop import stamps

BEFORE = []

def test_garbage_is_looked_for():
    assert gc.isenabled()

def test_one_that_runs_first_leaves_something_behind():
    BEFORE.append(stamps)

def test_fails_only_behind_another():
    assert not BEFORE

def test_fails_by_itself():
    assert not stamps

def test_two_are_enough():
    assert stamps.ENOUGH == 2
"""
"""A value beside tests that fail whatever it is."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = ["libs"]\n',
        "libs/shop/__init__.py": "",
        "libs/shop/orders.py": SHOP,
        "libs/shop/bills.py": "from shop import orders\n\n\ndef wait():\n    return orders.WAIT_S\n",
        "tests/unit/test_orders.py": TESTS,
        "tests/unit/test_bills.py": FAR,
        "tests/mutation/values/explained.yaml": EXPLAINED,
    }
    return tree(tmp_path, files)


def run(root: Path, *words: str) -> tuple[int, list[str], str]:
    command = [sys.executable, "-m", "tests.mutation.values", f"--root={root}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_killed_survivors_and_explained_ones_are_told_apart(shop: Path) -> None:
    code, lines, said = run(shop)
    assert lines == [
        "killed     shop:MAX_ITEMS  3 -> 6  [tests/unit/test_orders.py::test_three_items_fit_and_four_do_not]",
        "killed     shop:MAX_ITEMS  3 -> 4  [tests/unit/test_orders.py::test_three_items_fit_and_four_do_not]",
        "killed     shop:MAX_ITEMS  3 -> 2  [tests/unit/test_orders.py::test_three_items_fit_and_four_do_not]",
        "explained  shop:PAUSE_S  0.5 -> 1.0  [it paces a loop]",
        "killed     shop:WAIT_S  2 -> 4  [tests/unit/test_bills.py::test_a_bill_waits_for_two_seconds]",
        "killed     shop:Order.gift  False -> True  [tests/unit/test_orders.py::test_an_order_is_no_gift]",
        "4 values, 6 mutants, 5 killed, 1 explained, 0 left (of 0 values)",
    ], said
    assert code == 0
    assert run(shop, "--kept")[:2] == (code, lines)

    (shop / "tests/unit/test_orders.py").write_text(
        "from shop.orders import fits\n\ndef test_none_fit():\n    assert fits([])\n"
    )
    (shop / "tests/mutation/values/explained.yaml").write_text(EXPLAINED.replace("PAUSE_S", "WAIT_S"))
    code, lines, said = run(shop)
    assert [line for line in lines if "SURVIVED" in line] == [
        "left       shop:MAX_ITEMS  3 -> 6  [SURVIVED]",
        "left       shop:PAUSE_S  0.5 -> 1.0  [SURVIVED]",
        "left       shop:Order.gift  False -> True  [SURVIVED]",
    ], said
    assert lines[-2:] == [
        "explained, but tests notice it: shop:WAIT_S",
        "4 values, 4 mutants, 1 killed, 0 explained, 3 left (of 3 values)",
    ]
    assert code == 1


def test_what_fails_without_a_mutation_has_noticed_none_and_hides_no_test_that_did(shop: Path) -> None:
    (shop / "libs/shop/stamps.py").write_text("ENOUGH = 2\n")
    (shop / "tests/unit/test_stamps.py").write_text(STAMPS)
    (shop / "tests/unit/test_cellar.py").write_text("def test_fails_far_away():\n    assert False\n")
    code, lines, said = run(shop)
    killers = [line.rpartition("::")[2].rstrip("]") for line in lines if line.startswith("killed")]
    assert killers == [
        *["test_three_items_fit_and_four_do_not"] * 3,
        "test_a_bill_waits_for_two_seconds",
        "test_an_order_is_no_gift",
        "test_two_are_enough",
    ], said
    assert lines[-1] == "5 values, 7 mutants, 6 killed, 1 explained, 0 left (of 0 values)" and code == 0
    held = json.loads((shop / "build/mutation/values.json").read_text())
    assert [test.rpartition("::")[2] for test in held["failing"]] == [
        "test_fails_far_away",
        "test_fails_by_itself",
        "test_fails_only_behind_another",
    ]


def test_what_a_test_noticed_that_is_gone_is_tried_again(shop: Path) -> None:
    assert run(shop)[0] == 0
    kept = (shop / "tests/unit/test_bills.py").read_text()
    (shop / "tests/unit/test_bills.py").write_text(kept.replace("for_two_seconds", "a_little").replace("== 2", "> 0"))
    code, lines, said = run(shop, "--survivors")
    assert [line for line in lines if "SURVIVED" in line] == ["left       shop:WAIT_S  2 -> 4  [SURVIVED]"], said
    assert code == 1


def test_what_was_never_tried_is_told_as_such(shop: Path) -> None:
    code, lines, _ = run(shop, "--kept")
    assert [line for line in lines if "NOT TRIED" in line] == [
        "left       shop:MAX_ITEMS  3 -> 6  [NOT TRIED]",
        "left       shop:WAIT_S  2 -> 4  [NOT TRIED]",
        "left       shop:Order.gift  False -> True  [NOT TRIED]",
    ]
    assert code == 1


def test_a_reason_for_no_value_is_refused(shop: Path) -> None:
    (shop / "tests/mutation/values/explained.yaml").write_text(EXPLAINED.replace("PAUSE_S", "PAUSES"))
    code, lines, said = run(shop)
    assert (code, lines) == (1, []) and "shop:PAUSES" in said


def test_reasons_are_by_name(tmp_path: Path) -> None:
    (tmp_path / "why.yaml").write_text(
        "- because: it paces\n  values: [a:A, a:B]\n- because: no promise\n  values: [a:B]\n"
    )
    read = read_explanations(tmp_path / "why.yaml")
    assert reasons(read)["a:A"] == "it paces"
    assert wrong_names(read, ["a:A", "a:B"]) == ["a:B"]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 300])
def test_which_of_many_mutants_each_test_notices_is_found_in_few_runs(count: int) -> None:
    mutants = list(range(count))
    notices = {f"test_{number}": {number} for number in mutants if number % 3 == 0} | {"test_both": {0, count - 1}}
    runs: list[int] = []

    def failing(some: Sequence[int], tests: Collection[str]) -> set[str]:
        runs.append(len(some))
        return {test for test in tests if notices[test] & set(some)}

    found = list(causes(mutants, list(notices), failing))
    assert all(mutant in notices[test] for mutant, test in found)
    assert {mutant for mutant, _ in found} == set().union(*notices.values())
    assert len(runs) <= 2 + 4 * count.bit_length()
