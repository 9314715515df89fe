"""Finds out which of many mutants each of many tests notices, in a few runs with about half of the mutants each.

Every mutant takes part in half of the runs, and no two in the same ones. A test that notices one mutant fails in
exactly the runs of that one; one that notices two fails in more runs than a single mutant has, so it is never taken for
the test of another. The mutants that fit such a test are tried in ever smaller parts. A test that fails with none of
them, in such a run too, notices nothing.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, islice
from math import comb
from typing import TypeVar

Thing = TypeVar("Thing")
Failing = Callable[[Sequence[Thing], Collection[str]], set[str]]
"""Runs tests with some mutants and returns those that fail."""


def causes(mutants: Sequence[Thing], tests: Collection[str], failing: Failing[Thing]) -> Iterator[tuple[Thing, str]]:
    """Return which of *mutants* which of *tests*, that fail with all of them, notices."""
    wrong = failing([], tests)
    tests = [test for test in tests if test not in wrong]
    if not tests:
        return
    runs = next(count for count in range(2, 64) if comb(count, count // 2) >= len(mutants))
    parts = [frozenset(part) for part in islice(combinations(range(runs), runs // 2), len(mutants))]
    failed = [
        failing([mutant for mutant, part in zip(mutants, parts, strict=True) if run in part], tests)
        for run in range(runs)
    ]

    def _fails(numbers: Sequence[int], test: str) -> bool:
        return bool(numbers) and bool(failing([mutants[number] for number in numbers], [test]))

    found: set[int] = set()
    several: list[tuple[str, list[int]]] = []
    for test in tests:
        seen = {run for run in range(runs) if test in failed[run]}
        fits = [number for number, part in enumerate(parts) if part <= seen]
        if len(fits) == 1 and parts[fits[0]] == seen:
            found.add(fits[0])
            yield mutants[fits[0]], test
        else:
            several.append((test, fits))
    for test, fits in several:
        if failing([], [test]):
            continue  # fails by itself whatever the value, and not among the others
        for number in _alone([one for one in fits if one not in found], lambda some, of=test: _fails(some, of)):
            found.add(number)
            yield mutants[number], test


def _alone(numbers: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> Iterator[int]:
    """Return those of *numbers* with which alone a test fails, by halves."""
    if not fails(numbers):
        return
    if len(numbers) == 1:
        yield numbers[0]
        return
    middle = len(numbers) // 2
    yield from _alone(numbers[:middle], fails)
    yield from _alone(numbers[middle:], fails)
