"""Where a user's file declares an agent or a network, so that what is wrong with it is told by file and line."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from towpath_contracts.problems.registry import Problem, ProblemDetail, problem

_PASSED = ("towpath", "dataclasses")
"""Packages through which a declaration may pass before it reaches the user's file."""


@dataclass(frozen=True, slots=True)
class DeclaredPlace:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def declared_place() -> DeclaredPlace | None:
    """Return the line that called into the SDK; None where nothing but the SDK did."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return DeclaredPlace(frame.f_code.co_filename, frame.f_lineno)


def place_problems(found: tuple[ProblemDetail, ...], places: Mapping[str, DeclaredPlace | None]) -> Problem:
    """Return `network_invalid` with `file:line` before every detail; *places* are by JSON pointer, "" the network's."""
    placed = []
    for one in found:
        agent = "/".join(one.pointer.split("/")[:3])
        place = places.get(agent) or places.get("")
        detail = one.detail if place is None else f"{place}: {one.detail}"
        placed.append(one.model_copy(update={"detail": detail}))
    return problem(
        "network_invalid", "; ".join(f"{one.detail} ({one.pointer})" for one in placed), errors=tuple(placed)
    )
