"""The form of a row of the problem registry (`problems`)."""

from typing import NamedTuple


class ProblemKind(NamedTuple):
    """One row of the registry."""

    code: str
    status: int
    title: str
    remedy: str
    retryable: bool = False
