"""What a condition of a rule may see, and what its result may be.

Only the boolean true is a yes. Everything that is neither true nor false, above all an error, is `UNCLEAR`, and an
unclear condition never allows: it counts as met on a rule that restricts, and as not met on a rule that allows.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

VARIABLES = frozenset({"args", "run", "agent", "caller", "origin"})
"""The names that a condition may use. `origin` says where the values of arguments come from."""


class ConditionResult(Enum):
    """The answer of a condition."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


class ConditionContext(dict[str, Any]):
    """What all conditions of one decision see; it does not change meanwhile.

    The engine caches in `prepared` the converted values of the names in `ready`: converting takes most of the time.
    """

    __slots__ = ("prepared", "ready")

    def __init__(self, context: Mapping[str, Any]) -> None:
        """Take the names of *context*."""
        super().__init__(context)
        self.prepared: Any = None
        self.ready: set[str] = set()


class Condition(Protocol):
    """One compiled condition."""

    def __call__(self, context: Mapping[str, Any]) -> ConditionResult:
        """Evaluate on *context*, which has every name of `VARIABLES`; never raises."""
        ...


class ConditionCompiler(Protocol):
    """Compiles conditions; raises ValueError with what is wrong."""

    def __call__(self, text: str) -> Condition:
        """Compile *text*."""
        ...
