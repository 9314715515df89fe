"""An attack on a running platform, who can try it, and how it ends.

An attack is a function that takes a `Target`, tries, and returns one line about what stopped it. It raises
`AttackWorkedError` where nothing did. Any other exception means that it could not be tried, which proves nothing and
counts as a failure of the suite.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

import httpx2
from tests.attacks.target import Target


class Position(StrEnum):
    """From where an attack is tried."""

    OUTSIDER = "outsider"
    """Reaches the port, has no key."""
    KEY_HOLDER = "key holder"
    """Has a key that does not allow what is tried."""
    WORKER = "worker"
    """Has the broker's credential of a tool worker."""
    TOOL_OUTPUT = "tool output"
    """Writes a text that an agent reads."""
    NEIGHBOUR_PROCESS = "neighbour process"
    """Runs on the same machine, or was started by a tool."""
    DATABASE_ADMIN = "database administrator"
    """Writes to the database past all rights."""


class AttackWorkedError(AssertionError):
    """The attack reached what it wanted; the text says what."""


def require(happened: object, otherwise: str) -> None:
    """Raise ValueError unless what the attack rests on has *happened*: else nothing was tried that could be stopped."""
    if not happened:
        raise ValueError(otherwise)


def refused_as(answer: httpx2.Response, *codes: str) -> str:
    """Return the code with which a request was refused; another refusal than these, an outage say, proves nothing."""
    if answer.is_success:
        raise AttackWorkedError(f"answered {answer.status_code}: {answer.text[:200]}")
    code = str(answer.json()["code"])
    require(code in codes, f"refused as {code}: {answer.text[:200]}")
    return code


Attempt = Callable[[Target], Awaitable[str]]


class Attack(NamedTuple):
    """One attempt; *keys* says whether the platform that is attacked asks for API keys.

    A *timed* one ends by how long others were held up. The test suite leaves it to the command, which tries all: what
    it measures depends on what else the machine does, and it takes the processors for seconds.
    A *lasting* one takes something from the platform for good that others rest on: it comes after them.
    """

    name: str
    position: Position
    keys: bool
    attempt: Attempt
    timed: bool = False
    lasting: bool = False

    @property
    def summary(self) -> str:
        """What is tried, in a line."""
        return (self.attempt.__doc__ or "").partition("\n")[0]


ATTACKS: dict[str, Attack] = {}
"""All attacks, by name; `catalogue` fills it."""


def attack(
    position: Position, *, keys: bool = True, timed: bool = False, lasting: bool = False
) -> Callable[[Attempt], Attempt]:
    """Register an attempt under the name of its function; its docstring says what is tried."""

    def register(attempt: Attempt) -> Attempt:
        name = attempt.__name__
        if name in ATTACKS:
            raise ValueError(f"two attacks are named {name}")
        ATTACKS[name] = Attack(name, position, keys, attempt, timed, lasting)
        return attempt

    return register
