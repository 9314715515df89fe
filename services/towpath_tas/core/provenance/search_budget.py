"""How much text is looked through to find where the values of one call come from.

It is counted in characters and not timed, so that the same call is decided in the same way everywhere.
"""

MAX_SEARCHED = 200_000_000
"""Characters that are looked through for one call: a fifth of a second of ordinary text, at worst most of one."""

PER_HIT = 500
"""What a look at the surroundings of one hit costs, in characters of a plain search."""

PER_READ = 100
"""What reading one character into an index costs, in characters of a plain search."""

PER_FIELD = 100
"""What looking at one field of an output costs, in characters of a plain search."""


class SearchBudgetSpentError(Exception):
    """Nothing more is searched for this call."""


class SearchBudget:
    """What is left to be looked through for one call. A search that has begun is not cut off."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_SEARCHED

    def take(self, chars: int) -> None:
        """Count a search through *chars* characters; raises SearchBudgetSpentError if nothing was left for it."""
        if self.left <= 0:
            raise SearchBudgetSpentError
        self.left -= chars
