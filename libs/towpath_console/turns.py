"""Whoever serves the console decides how much of it is worked on at once, and how that is shared."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Turns(Protocol):
    """Places for work, of which each owner has a share."""

    def held(self, owner: str) -> AbstractAsyncContextManager[None]:
        """Wait for a place and hold it meanwhile; raises ProblemError where there is none in time."""
