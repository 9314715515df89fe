"""Numbers that a page tells its readers, to be compared with those that the code goes by.

A sentence has `{}` where its numbers stand; they are written as the pages write them: `10,000`, `0.5`, `64 KiB`.
"""

import functools
import re
from datetime import timedelta
from typing import NamedTuple

from tests.support.places import ROOT

Number = int | float | timedelta
KIB = 1024
MIB = 1024 * 1024


class Promise(NamedTuple):
    """What a page says, and the values of the code that its numbers are."""

    page: str
    sentence: str
    values: tuple[Number, ...]

    @property
    def told(self) -> str:
        """Return the sentence as it has to stand in the page."""
        return self.sentence.format(*(_written(value) for value in self.values))

    @property
    def holds(self) -> bool:
        """Return whether it stands there, and no number in it is the end or the beginning of another one."""
        return re.search(rf"(?<![0-9][,.])(?<![0-9]){re.escape(self.told)}(?![,.]?[0-9])", _text(self.page)) is not None


def promise(page: str, sentence: str, *values: Number) -> Promise:
    """Return a promise; times are told in seconds."""
    return Promise(page, sentence, values)


@functools.cache
def _text(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text("utf-8").split())


def _written(value: Number) -> str:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return f"{number:,}"
