"""What a condition of a rule may see, and what its result may be.

Only the boolean true is a yes. Everything that is neither true nor false, above all an error, is `UNCLEAR`, and an
unclear condition never allows: it counts as met on a rule that restricts, and as not met on a rule that allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from towpath_tas.core.policy.condition_work import MAX_WORK, ConditionWork, PlainWork
from towpath_tas.core.policy.context_sizes import ContextMeasure


class ConditionResult(Enum):
    """The answer of a condition."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


MAX_ASIDE_WORK = MAX_WORK / 2
"""Work beside the decision itself: to tell a refused agent what else it may do, or to ask the shadow policy. Each has a
share of its own, so that it never takes what the next decision about the same call needs."""

CONVERTED = 0.8
"""Converting one value for the engine. It is counted in contexts of advice, of which there is one for each agent; the
few others of a decision convert what was checked against the tool's schema before, which takes longer."""

READ = 2.5
"""Compiling one character of a condition that comes with a task: others come in between, and it is compiled again."""

Key = tuple[str, ...]


@dataclass(slots=True)
class ConditionBudget:
    """What the conditions of one call may still take, however often it is decided, and their answers so far.

    A call is decided again when the origin of its values, its limits or its network are known. What is evaluated again
    on the same values is answered from `answers`, and costs nothing.
    """

    limit: float = MAX_WORK
    work: float = 0.0
    answers: dict[Key, ConditionResult] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    shares: dict[str, "ConditionBudget"] | None = None

    @property
    def spent(self) -> bool:
        """Something was not evaluated, since it would have taken more than is left."""
        return self.work > self.limit

    def spend(self, work: float) -> bool:
        """Count *work*; False if that is more than is left."""
        self.work += work
        return self.work <= self.limit

    def share(self, name: str, limit: float) -> "ConditionBudget":
        """Return the budget of a purpose beside the decision itself: with a limit of its own, and the same answers."""
        if self.shares is None:
            self.shares = {}
        if name not in self.shares:
            self.shares[name] = ConditionBudget(limit, answers=self.answers, texts=self.texts)
        return self.shares[name]


class ConditionContext(dict[str, Any]):
    """What all conditions of one decision see; it does not change meanwhile.

    The engine caches in `prepared` the converted values of the names in `ready`: converting takes most of the time.
    `too_costly`: a condition was not evaluated, since the budget was spent. Values are told apart by how they
    are written, where 1 is not true; *args_text* is the JSON of the arguments, where it is known.
    """

    __slots__ = ("_keys", "_measure", "_unconverted", "_works", "budget", "prepared", "ready")

    def __init__(
        self,
        context: Mapping[str, Any],
        budget: ConditionBudget | None = None,
        args_text: str | None = None,
    ) -> None:
        """Take the names of *context*."""
        super().__init__(context)
        self.prepared: Any = None
        self.ready: set[str] = set()
        self.budget = ConditionBudget() if budget is None else budget
        self._keys = {} if args_text is None else {"args": args_text}
        self._unconverted = False
        self._works: dict[PlainWork | ConditionWork, float] = {}
        self._measure = ContextMeasure(context)  # not of self: a circle would stay in memory for long

    @property
    def too_costly(self) -> bool:
        return self.budget.spent

    def with_values(self, values: Mapping[str, Any]) -> "ConditionContext":
        """Return the context of advice: with other *values* of some names, on its own share of the budget."""
        args_text = None if "args" in values else self._keys.get("args")
        found = ConditionContext({**self, **values}, self.budget.share("advice", MAX_ASIDE_WORK), args_text)
        found._unconverted = True
        return found

    def spend(self, work: PlainWork | ConditionWork) -> bool:
        """Count the work of a condition; False if that is more than is left."""
        total = self._works.get(work)
        if total is None:
            total = self._works[work] = work.estimate(self._measure)
        if self._unconverted:
            self._unconverted = False
            total += self._measure.at(()).values * CONVERTED
        budget = self.budget
        budget.work += total
        return budget.work <= budget.limit

    def spend_on_text(self, text: str) -> bool:
        """Count once that a condition of a grant is compiled; False if that is more than is left."""
        if text in self.budget.texts:
            return not self.budget.spent
        self.budget.texts.add(text)
        return self.budget.spend(len(text) * READ)

    def key(self, text: str, names: frozenset[str]) -> Key:
        """Return what the answer of the condition *text*, which uses *names*, depends on."""
        for name in names - self._keys.keys():
            self._keys[name] = repr(self.get(name))
        return (text, *(self._keys[name] for name in sorted(names)))


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
