"""Probes: what a `reconcilable` tool is asked after a crash, before anything is done again.

A probe only looks and never changes anything. Whatever it does not say clearly counts as unclear, and an unclear
call is never run again on a guess: a person is asked.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from towpath.declared_places import checks_keywords
from towpath.errors import DeclarationError
from towpath.tools.arguments import context_parameter
from towpath.tools.context import ToolContext


@checks_keywords
@dataclass(frozen=True, slots=True)
class Happened:
    """The call happened; *result* is what the tool would have returned."""

    result: Any = None


@checks_keywords
@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The call certainly did not happen and is not in progress: it may run."""


@checks_keywords
@dataclass(frozen=True, slots=True)
class Unclear:
    """The probe can't tell; *reason* is shown to the person who decides."""

    reason: str = ""


Probed = Happened | DidNotHappen | Unclear
"""What a probe returns."""


class Probe:
    """A function that finds out whether a call happened. It takes what it needs of the tool's own arguments."""

    def __init__(self, function: Callable[..., Any], names: frozenset[str], context: str | None) -> None:
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self._names = names
        self._context = context

    def bind(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the probe's keyword arguments, out of the tool's own and the context of the call."""
        bound = {name: value for name, value in arguments.items() if name in self._names}
        if self._context is not None:
            bound[self._context] = context
        return bound


def read_probe(function: Callable[..., Any], tool: Callable[..., Any], where: str) -> Probe:
    """Read the signature of a probe of *tool*; raises DeclarationError where it can't be called with its arguments."""
    if not inspect.isroutine(function) or inspect.isbuiltin(function) or inspect.isgeneratorfunction(function):
        msg = f"{where}: a probe is a plain function that returns Happened, DidNotHappen or Unclear, not {function!r}"
        raise DeclarationError(msg)
    offered = inspect.signature(tool).parameters
    context = context_parameter(function, where)
    names = frozenset(inspect.signature(function).parameters) - {context}
    strange = sorted(names - set(offered))
    if strange:
        msg = (
            f"{where}: the probe takes {', '.join(strange)}, which the tool does not; a probe gets the tool's arguments"
        )
        raise DeclarationError(msg)
    return Probe(function, frozenset(names), context)
