"""Finds out which of many mutants each of many tests notices, in a few runs with half of the mutants each.

Mutants are numbered. For each binary digit of the numbers the tests run twice: with the mutants that have a one there,
and with those that have a zero. A test that fails in exactly one of the two each time notices the one mutant whose
number these digits make. Of one that notices several, digits stay open; the few that fit are tried alone.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")
Failing = Callable[[Sequence[Thing], Collection[str]], set[str]]
"""Runs tests with some mutants and returns those that fail."""

TRIED_ALONE = 8
"""Of a test whose digits are open, so many mutants that fit."""


def causes(mutants: Sequence[Thing], tests: Collection[str], failing: Failing[Thing]) -> Iterator[tuple[Thing, str]]:
    """Return which of *mutants* which of *tests*, that fail with all of them, notices."""
    digits = max(1, (len(mutants) - 1).bit_length())
    with_one = [failing(_having(mutants, digit, 1), tests) for digit in range(digits)]
    with_zero = [failing(_having(mutants, digit, 0), tests) for digit in range(digits)]
    found: set[int] = set()
    open_tests: list[tuple[str, list[int]]] = []
    for test in tests:
        told = [(test in one, test in zero) for one, zero in zip(with_one, with_zero, strict=True)]
        fits = [number for number in range(len(mutants)) if _fits(number, told)]
        if len(fits) == 1:
            found.add(fits[0])
            yield mutants[fits[0]], test
        else:
            open_tests.append((test, fits))
    for test, fits in open_tests:
        left = [number for number in fits if number not in found]
        for number in left if len(left) <= TRIED_ALONE else ():
            if failing([mutants[number]], [test]):
                found.add(number)
                yield mutants[number], test


def _having(mutants: Sequence[Thing], digit: int, value: int) -> list[Thing]:
    return [mutant for number, mutant in enumerate(mutants) if (number >> digit) & 1 == value]


def _fits(number: int, told: Sequence[tuple[bool, bool]]) -> bool:
    """Return whether a test that fails so may notice the mutant of *number*."""
    return all((one if (number >> digit) & 1 else zero) for digit, (one, zero) in enumerate(told))
