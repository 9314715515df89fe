"""Where a program declares what it hands to the SDK, and slips in such a call, told by that line.

Python's own TypeError says neither the line nor, before 3.13, what was meant.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError

from towpath.errors import DeclarationError
from towpath_contracts.problems.input_faults import details_of, in_plain_words, summary_of
from towpath_contracts.problems.near_names import nearest_name, suggest_name, suggest_or_list

_PASSED = ("towpath", "towpath_testing")
"""Packages through which a declaration may pass before it reaches the user's file."""

_STANDARD = (f"{Path(os.__file__).parent}{os.sep}", "<frozen ")
"""How the files of Python's own library begin."""

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""What the files of installed packages have in their paths."""

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class DeclaredPlace:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def declared_place() -> DeclaredPlace | None:
    """Return the line of the user's that called into the SDK; None where none did, as in a thread of the SDK.

    That of an installed package is one where no other is: whoever reads it can't change what is installed.
    """
    installed = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if any(part in file for part in _INSTALLED):
            if installed is None and not _is_passed(frame):
                installed = DeclaredPlace(file, frame.f_lineno)
        elif not file.startswith(_STANDARD) and not _is_passed(frame):
            return DeclaredPlace(file, frame.f_lineno)
        frame = frame.f_back
    return installed


_CALLED_AT: ContextVar[DeclaredPlace | None] = ContextVar("towpath_called_at", default=None)
"""The line that waits for what another thread does for it."""

COMMANDS = "towpath.cli."
"""Modules that call the SDK for who types a command, and has no line."""


def remember_caller() -> None:
    """Keep the caller's line for what is done for it in another thread, which is begun in this context."""
    _CALLED_AT.set(calling_place())


def calling_place() -> DeclaredPlace | None:
    """Return the line of a program that called the SDK; None where a command did."""
    return None if is_of_a_command() else declared_place() or _CALLED_AT.get()


def is_of_a_command() -> bool:
    """Return whether the SDK is called for who types a command."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(COMMANDS):
            return True
        frame = frame.f_back
    return False


def _is_passed(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _PASSED


def check_keywords(
    given: Iterable[str], known: Iterable[str], where: str, of: str, instead: Mapping[str, str] | None = None
) -> None:
    """Raise DeclarationError that tells every option that *of* does not take, and what may have been meant by it.

    *instead* says of options of other frameworks what is written here.
    """
    names, others = list(known), instead or {}
    unknown = [name for name in given if name not in names]
    if not unknown:
        return
    strange = [name for name in unknown if name not in others and nearest_name(name, names) is None]
    said = ""
    for name in sorted(unknown, key=lambda one: one in strange):  # the list of all options is told once, at the end
        if said:
            said += " And no " if said.endswith("?") else "; no "
        said += repr(name) + (f": {others[name]}" if name in others else suggest_name(name, names))
    if strange:
        said += f"; there are {', '.join(names) or 'none'}"
    msg = f"{where}: {of} takes no {said}"
    raise DeclarationError(msg)


def checks_keywords(declared: C) -> C:
    """Do what `checking_keywords` does of a class that is like none of another framework's."""
    return checking_keywords({})(declared)


def checking_keywords(foreign: Mapping[str, str]) -> Callable[[C], C]:
    """Have a class refuse keywords that it does not take; *foreign* says what is written for others' instead."""
    return functools.partial(_checked, foreign=foreign)


def _checked(declared: C, *, foreign: Mapping[str, str]) -> C:
    """Have *declared* refuse a keyword that it does not take with DeclarationError: where, and what was meant.

    Python's own TypeError says neither before 3.13. Who reads the signature sees that of the class.
    """
    plain: Any = vars(declared)["__init__"]
    known = [name for name in inspect.signature(plain).parameters if name not in {"self", "declared_at"}]

    @functools.wraps(plain)
    def init(self: object, *args: Any, **given: Any) -> None:
        unknown = given.keys() - {*known, "declared_at"}
        if unknown:
            check_keywords(sorted(unknown), known, str(declared_place()), declared.__name__, foreign)
        plain(self, *args, **given)

    setattr(declared, "__init__", init)  # noqa: B010 - mypy takes no assignment to it
    return declared


def checks_call(function: Callable[P, R]) -> Callable[P, R]:
    """Have *function* say a call that it can't take as DeclarationError: where, which keyword, and what was meant.

    That a value can't be used is said in one line too, without what pydantic says around it.
    """
    parameters = inspect.signature(function).parameters.values()
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    first = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    name = function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        if not takes_any and not given.keys() <= {*named}:
            if wrong := next((one for one in given if one in first), ""):
                msg = f"{declared_place()}: {name} takes no {wrong!r} by name: it stands first, {name}(…)"
                raise DeclarationError(msg)
            check_keywords(given, named, str(declared_place()), name)
        try:
            return function(*args, **given)
        except ValidationError as error:
            faults = summary_of(in_plain_words(details_of(error)))
            raise DeclarationError(f"{declared_place()}: {name}: {faults}") from None

    return call


def checks_fields(model: type[M], instead: Mapping[str, str], module: str) -> type[M]:
    """Return *model*, part of a message, as programs write it: what is wrong names their line. *instead* as in `Agent`.

    It is a class of its own, of *module*: nothing changes for messages, whoever makes them.
    """
    plain: Any = model.__init__

    @functools.wraps(plain)
    def init(self: M, /, **given: Any) -> None:
        known = list(type(self).model_fields)
        if unknown := [one for one in given if one not in known]:
            said = (f": {instead[one]}" if one in instead else suggest_or_list(one, known) for one in unknown)
            told = "; ".join(f"no {one!r}{more}" for one, more in zip(unknown, said, strict=True))
            msg = f"{declared_place()}: {type(self).__name__} takes {told}"
            raise DeclarationError(msg)
        try:
            plain(self, **given)
        except ValidationError as error:
            faults = (f"{one.pointer[1:]}: {one.detail}" for one in in_plain_words(details_of(error)))
            told = "; ".join(one.removeprefix(": ") for one in faults)
            raise DeclarationError(f"{declared_place()}: {type(self).__name__}: {told}") from None

    def equal(self: M, other: object) -> bool:
        return isinstance(other, model) and self.__dict__ == other.__dict__

    about = {"__init__": init, "__eq__": equal, "__hash__": model.__hash__}
    about |= {"__doc__": model.__doc__, "__module__": module}
    metaclass: Any = type(model)
    made: type[M] = metaclass(model.__name__, (model,), about)
    return made
