"""The name that was probably meant is found, in a time that the names can't make long."""

import random
import time

import pytest

from towpath_contracts.problems.near_names import nearest_name, pair_names, suggest_name, suggest_or_list

TOOLS = ("desk.send", "desk.mail", "orders.find", "orders.find_all")


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("desk.sned", "desk.send"),
        ("orders.fnd", "orders.find"),
        ("order.find_al", "orders.find_all"),
        ("desk.send", "desk.send"),
        ("xyzzy.send_many", None),
        ("x", None),
        ("", None),
    ],
)
def test_the_name_that_was_probably_meant_is_found(wanted: str, meant: str | None) -> None:
    assert nearest_name(wanted, TOOLS) == meant
    assert nearest_name(wanted, ()) is None


def test_an_unknown_name_is_answered_with_the_one_that_was_probably_meant_or_with_what_there_is() -> None:
    assert suggest_name("desk.sned", TOOLS) == "; did you mean 'desk.send'?"
    assert suggest_name("desk.sned", TOOLS, shown="<{}>".format) == "; did you mean <desk.send>?"
    assert suggest_name("xyzzy", TOOLS) == ""
    assert suggest_name("xyzzy", TOOLS, otherwise="; name another") == "; name another"
    assert suggest_or_list("desk.sned", TOOLS, shown=str) == "; did you mean desk.send?"
    assert suggest_or_list("xyzzy", ("a", "b")) == "; there are a, b"
    assert suggest_or_list("xyzzy", ()) == "; there are none"


def long_names(number: int) -> list[str]:
    """Return names of the same 118 letters, which take longest to be compared."""
    letters, chance = list("abcdefghijklmnop" * 7 + "qrstuv"), random.Random(7)
    return ["".join(chance.sample(letters, len(letters))) for _ in range(number)]


def test_names_that_take_long_to_be_compared_cost_little() -> None:
    names, wanted = long_names(2_000), long_names(2_020)[2_000:]
    began = time.thread_time()
    for name in wanted:
        nearest_name(name, names)
    assert time.thread_time() - began < 5  # letter by letter it would be half a minute


def test_names_are_paired_with_those_that_are_missing_each_once() -> None:
    wrong = ("xyzzy", "amuont", "amoumt", "acount", "curency", "")
    assert pair_names(wrong, ("account", "amount", "currency", "note")) == {
        "amuont": "amount",
        "acount": "account",
        "curency": "currency",
    }
    assert pair_names(wrong, ()) == pair_names((), ("amount",)) == {}


def test_pairing_costs_little_however_many_names_there_are_and_however_long_they_take() -> None:
    names = long_names(20_000)
    began = time.thread_time()
    pair_names(names, long_names(20_020)[20_000:])
    pair_names((f"amuont{number}" for number in range(20_000)), [f"amount{number}" for number in range(20)])
    assert time.thread_time() - began < 5  # letter by letter it would be a minute
