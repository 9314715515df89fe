"""The form of a code that a record shows (`outcome_codes`)."""

from typing import NamedTuple


class OutcomeKind(NamedTuple):
    """One code: what bears it, what it means, and what to do about it."""

    code: str
    of: str
    meaning: str
    remedy: str
