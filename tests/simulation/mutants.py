"""Guards that can be taken away, one at a time, to see that the simulation bites."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutants:
    """Which guards are off."""

    claims_ignored: bool = False

    def weaken(self, world: Any) -> None:
        """Take guards out of the tables."""

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Take guards out of the code until the block ends."""
        yield
