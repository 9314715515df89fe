"""What may be a tool: a function, a bound method, or a functools.partial of these; where it stands, and slips there.

A mistake is told by the file and the line of the function and in the words of `@tool`, so that whoever reads it knows
what to change. What a partial has bound is settled: it is not offered, so no model can set it.
"""

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from towpath.declared_places import check_keywords
from towpath.errors import DeclarationError
from towpath.module_sources import short_path
from towpath_contracts.problems.input_faults import entry_message, plain_bound
from towpath_contracts.problems.near_names import name_meant, suggest_or_list

_PUBLIC = {"timeout_ms": "timeout", "system_params": "system_parameters", "parameters": "the JSON Schema"}
"""Fields of ToolSpec, as they are called where a tool is declared."""

_NAMES = {
    "name": "begins with a letter or digit, and has letters, digits and _ . : / - only, at most 128",
    "toolset": "begins with a letter or digit, and has letters, digits, _ and - only, at most 64",
}
"""What a name has to look like, in place of the pattern."""

ASKING = frozenset({"ask", "needs_approval", "require_approval", "requires_approval", "interrupt"})
"""What others call an option that has a person decide; here a rule of the policy does."""

_ELSEWHERE = {
    "risk": 'what a call may do is effect_class=: "pure" for one that only reads, else "idempotent", "reconcilable" or '
    '"irreversible"; what it may destroy or spend is hazards=',
    "idempotent": 'write effect_class="idempotent"',
    "retries": "a call that was cut off is made again where its effect_class allows that; of a failure that may pass "
    "say ToolError(…, retryable=True), and the agent may call again",
    "pool": "the tools of one kind of worker are a toolset: write toolset=",
}
"""Options that others have, and what there is in their place."""

MAX_SHOWN_CHARS = 80
"""Of a value that can't be used; a longer one is not repeated."""


def underlying_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that is written somewhere, behind partials and a binding; it has name, text and types."""
    while isinstance(function, functools.partial):
        function = function.func
    written: Callable[..., Any] = function.__func__ if inspect.ismethod(function) else function
    return written


def bound_keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that partials have bound by name."""
    found: set[str] = set()
    while isinstance(function, functools.partial):
        found |= set(function.keywords)
        function = function.func
    return frozenset(found)


def place_of(function: Callable[..., Any]) -> str:
    """Return file, line and name of *function*; of what is not written in Python its module and name."""
    written = underlying_function(function)
    if isinstance(written, type):
        return _place_of_class(written)
    code = getattr(written, "__code__", None)
    name = getattr(written, "__qualname__", repr(function))
    if code is None:
        return f"{getattr(written, '__module__', None) or 'builtins'}.{name}"
    return f"{short_path(code.co_filename)}:{code.co_firstlineno}: {name}"


def _place_of_class(written: type) -> str:
    name = f"{written.__module__}.{written.__qualname__}"
    try:
        _, line = inspect.findsource(written)
        return f"{short_path(inspect.getsourcefile(written) or name)}:{line + 1}: {written.__qualname__}"
    except (OSError, TypeError):
        return name


def check_function(function: object) -> None:
    """Raise DeclarationError for what can't be a tool."""
    if isinstance(function, type):
        msg = (
            f"{place_of(function)}: a tool is a plain function, and this is a class; write @tool above a function, or "
            "make a method a tool, under a name of this file and with the options of the decorator: "
            f"{function.__name__.lower()} = tool(name=…, toolset=…, effect_class=…)({function.__name__}().method)"
        )
        raise DeclarationError(msg)
    if not callable(function) or not inspect.isfunction(underlying_function(function)):
        msg = f"a tool is a plain function, a bound method or a functools.partial of one, not {function!r}"
        raise DeclarationError(msg)
    written = underlying_function(function)
    if inspect.isasyncgenfunction(written) or inspect.isgeneratorfunction(written):
        msg = f"{place_of(function)}: a tool returns one result; a generator can't be a tool"
        raise DeclarationError(msg)


def check_options(given: Mapping[str, Any], known: Iterable[str], where: str, name: str, of: str = "@tool") -> None:
    """Raise DeclarationError as `check_keywords` does, for options of the tool *name*.

    Of an option that other frameworks have it says what is written here in its place, and of one that has a person
    asked the very rules.
    """
    instead = {
        option: _ELSEWHERE.get(option) or _rules_for(name, given[option])
        for option in given
        if option not in known and (option in _ELSEWHERE or option in ASKING)
    }
    check_keywords(given, known, where, of, instead)


def _rules_for(name: str, condition: Any) -> str:
    """Return the rules that have a person asked about the calls of the tool *name* for which *condition* holds."""
    asking = f"name: {name}-asks, tool: {name}, effect: require_approval"
    if not isinstance(condition, str):
        return f"a person is asked by a rule of the policy: {{{asking}}}"
    others = f"{{name: {name}, tool: {name}, effect: allow}}"
    asking = f"{asking}, when: {json.dumps(condition, ensure_ascii=False)}"
    return f"a person is asked by rules of the policy: {others} and {{{asking}}}"


def read_word(kind: type[StrEnum], word: str, option: str) -> Any:
    """Return the member of *kind* that *word* is; raises ValueError with the word that may have been meant."""
    try:
        return kind(word)
    except ValueError:
        msg = f"{option}: there is no {word!r}{suggest_or_list(str(word), [str(one) for one in kind])}"
        raise ValueError(msg) from None


def describe_options(error: ValueError, given: Mapping[str, Any]) -> str:
    """Return what is wrong with the options *given*, in the words of `@tool`."""
    if not isinstance(error, ValidationError):
        return str(error)
    entries = error.errors(include_url=False, include_context=False)
    return "; ".join(dict.fromkeys(_describe_option(entry, given) for entry in entries))


def _describe_option(entry: Any, given: Mapping[str, Any]) -> str:
    field = str(entry["loc"][0]) if entry["loc"] else "options"
    option = _PUBLIC.get(field, field)
    value = f" {given[option]!r}" if option in given and isinstance(given[option], str | int | float) else ""
    if len(value) > MAX_SHOWN_CHARS:
        value = ""
    if entry["type"] == "string_pattern_mismatch" and field in _NAMES:
        meant = name_meant(str(given[option]), "_.:/-" if field == "name" else "_-") if value else ""
        return f"{option}{value} can't be used: a {option} {_NAMES[field]}{meant}"
    if entry["type"] == "literal_error":
        return f"{option}{value}: {_literal(entry)}"
    if field == "timeout_ms":
        return f"timeout{value} is not between 1ms and 1h"
    return f"{option}{value}: {plain_bound(entry_message(entry))}"


def _literal(entry: Any) -> str:
    return str(entry["msg"]).replace("Input should be", "it is one of")
