"""What a message or an HTTP operation takes, and what it makes of what is left out, stays as it is checked in."""

import pytest
from pydantic import BaseModel
from tests.support.wire_limits import EVERYWHERE, FILE, Limits, breaks, limits, lines, written
from tests.support.wire_summary import COMMAND

from towpath_contracts.base import ClientMessage, Message

OLD = """\
Order.count: default 5, minimum 0, maximum 10
Order.note: maxLength 400
Order.parts[]: minLength 1, maxLength 64
Order.gift: default false
"""


CHECKED_IN = written(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def now() -> Limits:
    return limits()


def test_what_a_client_of_an_older_version_sends_is_taken_as_it_was(now: Limits) -> None:
    broken = breaks(CHECKED_IN, now)
    assert broken == [], f"keep what is there, or, before a release and with a note: {COMMAND} --breaking"


def test_a_field_has_the_bounds_and_the_default_that_are_checked_in(now: Limits) -> None:
    changed = {place: (now.get(place), limit) for place, limit in CHECKED_IN.items() if now.get(place) != limit}
    assert changed == {}, f"if this is meant: {COMMAND}"


def test_no_field_with_bounds_or_a_default_is_missing(now: Limits) -> None:
    assert list(CHECKED_IN) == list(now), f"run: {COMMAND}"


@pytest.mark.parametrize("message", [Message, ClientMessage])
def test_messages_are_of_the_version_that_all_processes_read(message: type[BaseModel]) -> None:
    assert message.model_fields[EVERYWHERE].default == 1


def test_what_is_written_is_read_as_it_was(now: Limits) -> None:
    assert written(lines(now)) == now


def test_bounds_and_defaults_of_fields_items_and_parameters_are_among_them(now: Limits) -> None:
    assert now["SubmitTask.priority"] == {"default": "5", "minimum": "0", "maximum": "10"}
    assert now["SubmitTask.user_message"]["maxLength"] == "100000"
    assert now["SubmitTask.debug"] == {"default": "false"}
    assert now["GET /v1/audit limit"] == {"default": "100", "minimum": "1", "maximum": "1000"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("default 5", "default 6"), "Order.count: its default was 5, is 6"),
        (("default 5, ", ""), "Order.count: its default was 5, is none"),
        (("default false", "default true"), "Order.gift: its default was false, is true"),
        (("maximum 10", "maximum 9"), "Order.count: maximum was 10, is 9"),
        (("minimum 0", "minimum 1"), "Order.count: minimum was 0, is 1"),
        (("maxLength 64", "maxLength 64, maxItems 8"), "Order.parts[]: maxItems was none, is 8"),
    ],
)
def test_what_becomes_narrower_or_means_something_else_is_reported(change: tuple[str, str], sentence: str) -> None:
    assert breaks(written(OLD), written(OLD.replace(*change))) == [sentence]


@pytest.mark.parametrize(
    "change",
    [
        ("maximum 10", "maximum 11"),
        ("minimum 0, ", ""),
        ("Order.note: maxLength", "Order.note: default x, maxLength"),
        ("Order.gift", "Order.paid: default true\nOrder.gift"),
    ],
)
def test_what_becomes_wider_or_is_new_breaks_nothing(change: tuple[str, str]) -> None:
    assert OLD.replace(*change) != OLD
    assert breaks(written(OLD), written(OLD.replace(*change))) == []
