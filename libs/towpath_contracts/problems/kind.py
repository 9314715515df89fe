"""The form of a row of the problem registry (`problems`)."""

from typing import NamedTuple


class ProblemKind(NamedTuple):
    """One row of the registry."""

    code: str
    status: int
    title: str
    remedy: str
    retryable: bool = False


class ProblemExample(NamedTuple):
    """How a problem comes about, and an example of it: the message as the platform prints it → what mends it."""

    cause: str
    example: str
