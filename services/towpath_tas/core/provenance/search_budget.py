"""How much is kept of a run, and looked through to find where the values of one call come from.

It is counted in characters and not timed, so that the same call is decided in the same way everywhere.
"""

MAX_SEARCHED = 200_000_000
"""Characters that are looked through for one call: a fifth of a second of ordinary text, at worst most of one."""

MAX_LEAVES = 500
"""Values of one call that are examined; more count as untrusted."""

MAX_RUN_CHARS = 4_000_000
"""Characters of output that are kept of one run, or letters that they become; what comes after makes it incomplete."""

FAR = 3
"""A call is denied if looking for the rest of its values would cost this many times the most that is spent on one."""

MAX_AT_ONCE = 2_000_000
"""Characters that may be looked through between two other tasks of the process; more is for a thread."""

MAX_READER_SETS = 2_000
"""Different sets of readers in one run; what has others may be known to nobody."""

PER_HIT = 500
"""What a look at the surroundings of one hit costs, in characters of a plain search."""

PER_READ = 100
"""What reading one character into an index costs, in characters of a plain search."""

PER_REVEALED = 200
"""What one character of a call costs, in characters of a plain search: it is rewritten several times to be compared."""

PER_LEAF = 48
"""What reading one value of an output costs, in characters of it: none is free, not even an empty one."""

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
