"""Conditions in CEL, the Common Expression Language.

An expression is compiled once, may only use the names that a condition may see, and never raises when it is evaluated:
any error is `UNCLEAR`. A member of `origin` that was not read is an error where it is used; what could find it missing
(`has`, or `origin` itself) is `UNCLEAR` unless all of `origin` is there. Every CEL expression terminates, but some take
long and can't be interrupted: one that would exceed the budget of its decision is `UNCLEAR` and not evaluated
(`condition_work`). Conditions that come from callers (in the grant of a task) may not use macros. What a condition uses
is found in its tokens, and what was compiled is compared with that.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from towpath_contracts.problems.cel_faults import compile_cel, unknown_names
from towpath_contracts.problems.cel_library import cel_library
from towpath_tas.core.policy.condition_tokens import is_macro, macro_variables, tokens_of
from towpath_tas.core.policy.condition_work import VARIABLES, PlainWork, work_of
from towpath_tas.core.policy.conditions import Condition, ConditionContext, ConditionResult
from towpath_tas.core.provenance.provenance_messages import MEMBERS, WHOLE, origin_members, unknown_members

MAX_CHARS = 4_096
"""A longer condition is a program, and belongs in a tool."""

MAX_COMPILED = 4_096
"""Compiled conditions of callers that are cached; they come with every task."""

MAX_GRANT_CHARS = 1_024
"""As in `TaskGrantRule`."""

_MACRO_PARTS = {"@not_strictly_false": "", "_?_:_": "?", "_+_": "+"}
"""What macros are compiled to, and how such a part is written by somebody who uses none; the first never is."""

_OPERATOR = re.compile(r"^[^A-Za-z]|@")
_TYPES = frozenset({"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
_FUNCTIONS = frozenset(
    {
        *("has", "size", "contains", "startsWith", "endsWith", "matches", "type", "dyn", "min", "max"),
        *("int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfYear", "getDayOfMonth", "getDayOfWeek"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)


class CelCondition:
    """A rule's condition written in CEL, compiled once and evaluated for every call."""

    __slots__ = ("_names", "_needs_whole_origin", "_plain", "_program", "_work", "has_macros", "text")

    def __init__(self, text: str) -> None:
        """Compile *text*; raises ValueError with what is wrong."""
        if len(text) > MAX_CHARS:
            msg = f"the condition has {len(text)} characters, at most {MAX_CHARS} are allowed"
            raise ValueError(msg)
        tokens = tokens_of(text)
        self.text = text
        self._program: Any = compile_cel(text, cel_library().compile)
        self._work = work_of(text)
        self._plain = isinstance(self._work, PlainWork)
        self.has_macros = any(is_macro(tokens, place) for place in range(len(tokens)))
        if not self.has_macros and _hides_macro(self._program.functions(), {token.word for token in tokens}):
            msg = "a macro (all, exists, exists_one, map, filter) is written as list.all(name, …)"
            raise ValueError(msg)
        self._names = VARIABLES & set(self._program.variables())
        unknown = set(self._program.variables()) - VARIABLES - _TYPES - macro_variables(tokens)
        if unknown:
            raise ValueError(unknown_names(unknown, VARIABLES))
        named = origin_members(text)
        self._needs_whole_origin = "origin" in self._names and (WHOLE in named or not named)
        missing = unknown_members(text)
        if missing:
            msg = f"origin has no {', '.join(sorted(missing))}: it has {', '.join(sorted(MEMBERS))}"
            raise ValueError(msg)
        strange = {name for name in self._program.functions() if not _OPERATOR.search(name)} - _FUNCTIONS
        if strange:
            msg = f"unknown function {', '.join(sorted(strange))}"
            raise ValueError(msg)

    def __call__(self, context: Mapping[str, Any]) -> ConditionResult:
        """Evaluate on *context*; see `Condition`."""
        if self._needs_whole_origin and not context.get("origin", {}).keys() >= MEMBERS:
            return ConditionResult.UNCLEAR
        context = context if isinstance(context, ConditionContext) else ConditionContext(context)
        if self._plain:  # about as quick as looking for its answer
            return self._evaluate(context) if context.spend(self._work) else ConditionResult.UNCLEAR
        key = context.key(self.text, self._names)
        answer = context.budget.answers.get(key)
        if answer is None:
            if not context.spend(self._work):
                return ConditionResult.UNCLEAR
            answer = context.budget.answers[key] = self._evaluate(context)
        return answer

    def _evaluate(self, context: ConditionContext) -> ConditionResult:
        try:
            if self._names <= context.ready:
                answer = self._program.execute(context.prepared)
            else:
                answer = self._program.execute(self._prepared(context))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return ConditionResult.UNCLEAR
        if answer is True:
            return ConditionResult.YES
        return ConditionResult.NO if answer is False else ConditionResult.UNCLEAR

    def _prepared(self, context: ConditionContext) -> Any:
        """Convert the names that this condition uses to values of the engine, each once."""
        if context.prepared is None:
            context.prepared = cel_library().Context()
        for name in self._names - context.ready:
            if name in context:
                context.prepared.add_variable(name, context[name])
                context.ready.add(name)
        return context.prepared


def compile_condition(text: str) -> Condition:
    """Compile a condition of the matrix; raises ValueError."""
    return CelCondition(text)


@functools.lru_cache(maxsize=MAX_COMPILED)
def compile_grant(text: str) -> Condition:
    """Compile a condition that came with a task; raises ValueError also for macros, which can take long."""
    if len(text) > MAX_GRANT_CHARS:
        msg = f"a grant's condition has at most {MAX_GRANT_CHARS} characters, not {len(text)}"
        raise ValueError(msg)
    condition = CelCondition(text)
    if condition.has_macros:
        msg = "a grant's condition may not use all, exists, exists_one, map or filter"
        raise ValueError(msg)
    return condition


def _hides_macro(functions: Iterable[str], words: AbstractSet[str]) -> bool:
    """Return whether a program has parts that only macros have, where *words* say that it has none."""
    return any(part in functions and written not in words for part, written in _MACRO_PARTS.items())


@functools.lru_cache(maxsize=MAX_COMPILED)
def _pattern(text: str) -> Any:
    return cel_library().compile(f"text.matches({_literal(text)})")


def matches(pattern: str, text: str) -> bool:
    """Return whether the regular expression *pattern* is found in *text*, in linear time.

    Raises ValueError for a pattern that linear engines do not support (look-around, back-references).
    """
    try:
        return _pattern(pattern).execute({"text": text}) is True
    except (RuntimeError, TypeError) as error:
        msg = f"the pattern {pattern!r} can't be used: {error}"
        raise ValueError(msg) from error


def _literal(text: str) -> str:
    return '"' + "".join(char if char.isascii() and char.isalnum() else f"\\U{ord(char):08x}" for char in text) + '"'
