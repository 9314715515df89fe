"""What a condition of a rule may see, and what its result may be.

Only the boolean true is a yes. Everything that is neither true nor false, above all an error, is `UNCLEAR`, and an
unclear condition never allows: it counts as met on a rule that restricts, and as not met on a rule that allows.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from towpath_tas.core.policy.condition_work import MAX_WORK, ConditionWork, ContextSizes, sizes_of

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
    `too_costly`: a condition was not evaluated, since all of them together would have taken more than MAX_WORK.
    """

    __slots__ = ("_sizes", "_work", "prepared", "ready", "too_costly")

    def __init__(self, context: Mapping[str, Any]) -> None:
        """Take the names of *context*."""
        super().__init__(context)
        self.prepared: Any = None
        self.ready: set[str] = set()
        self.too_costly = False
        self._sizes: ContextSizes | None = None
        self._work = 0.0

    def spend(self, work: ConditionWork) -> bool:
        """Count the work of a condition; False if that is more than is left."""
        if self._sizes is None:
            self._sizes = sizes_of(self.values())
        self._work += work.estimate(self._sizes)
        self.too_costly = self.too_costly or self._work > MAX_WORK
        return not self.too_costly


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
