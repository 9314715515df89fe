"""The numbers that the run machine decides by belong to its version: with another one, stored facts give other events.

`ENGINE_VERSION` is raised whenever the same facts could give other events, so that a replay by another version is told
from one that differs. Whoever changes a number here raises it too, or has the number stored with the run.
"""

from datetime import timedelta
from importlib import import_module

import pytest
from tests.support.places import TESTS

from towpath_engine import ENGINE_VERSION

FILE = TESTS / "golden" / "engine_numbers.txt"
HEAD, *LINES = FILE.read_text("utf-8").splitlines()
NUMBERS = {place: told for place, _, told in (line.partition(" = ") for line in LINES)}


def now(place: str) -> str:
    module, _, name = place.rpartition(".")
    path = module if module.startswith("towpath_contracts.") else f"towpath_engine.{module}"
    value = getattr(import_module(path), name)
    return f"{value.total_seconds():.0f} s" if isinstance(value, timedelta) else str(value)


def test_the_numbers_are_those_of_this_version() -> None:
    assert HEAD.endswith(f" {ENGINE_VERSION}"), f"see whether {FILE.name} still holds, and name the version there"


@pytest.mark.parametrize("place", NUMBERS)
def test_a_number_is_the_one_that_this_version_decides_by(place: str) -> None:
    assert now(place) == NUMBERS[place], f"stored facts give other events: raise ENGINE_VERSION, and tell {FILE.name}"
