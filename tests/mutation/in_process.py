"""Mutates functions of this process: the mutated code takes the place of the code of the function that exists.

Every name that stands for the function, in whatever module, then means the mutated one, so it does not matter who has
imported it before; and what is not mutated, module state above all, stays as it is.
"""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutation.mutations import Mutation, mutated_file
from tests.mutation.symbols import ROOT, MutationError


@contextlib.contextmanager
def applied(*mutations: Mutation) -> Iterator[None]:
    """Mutate this process until the block ends; raises MutationError as `apply` does."""
    with contextlib.ExitStack() as stack:
        for function, code in _all_mutated(mutations):
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield


def apply(*mutations: Mutation) -> None:
    """Mutate this process for good; raises MutationError, with nothing changed, where one of them can't be made."""
    for function, code in _all_mutated(mutations):
        function.__code__ = code


def _all_mutated(mutations: Iterable[Mutation]) -> list[tuple[FunctionType, CodeType]]:
    """Each mutation is made of the source as it is, so of two in one function the second would undo the first."""
    found = [_mutated(mutation) for mutation in mutations]
    if len({function for function, _ in found}) < len(found):
        raise MutationError("two mutations are of one function: make one of them")
    return found


@functools.cache
def _mutated(mutation: Mutation) -> tuple[FunctionType, CodeType]:
    """Return the function to mutate, and its mutated code."""
    _package, _, name = mutation.symbol.partition(":")
    made = mutated_file(mutation)
    if isinstance(made.content, str):
        raise MutationError(f"{mutation.symbol} is no Python")
    module = compile(made.content, made.path, "exec", dont_inherit=True)
    function = _function(_module_name(made.path), name)
    for code in _nested(module):
        if (code.co_qualname, code.co_firstlineno) == (name, function.__code__.co_firstlineno):
            return function, code
    raise MutationError(f"{mutation.symbol} of this process is not what {made.path} holds")


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]  # without `libs` or `services`
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _function(module: str, name: str) -> FunctionType:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    function = inspect.unwrap(getattr(found, "__func__", found))
    if not isinstance(function, FunctionType):
        raise MutationError(f"{module}:{name} is no function: only functions are mutated in a process that runs")
    return function


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
