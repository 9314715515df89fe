"""The catalogue of scenarios: what a scenario is, and which modules hold them.

A scenario starts what it breaks below its own folder and leaves nothing running. It ends with figures, or with the
reason why it can't run here. A module joins the catalogue by a line in `MODULES` and has `SCENARIOS: tuple[Scenario,
...]`.
"""

import importlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Figure = int | float | str | bool | None

MODULES: tuple[str, ...] = (
    "crash_points",
    "broker",
    "broker_cluster",
    "database",
    "postgres_failover",
    "restore",
    "disk",
    "messages",
    "processes",
    "versions",
    "clocks",
    "io_errors",
    "power_loss",
)
"""Modules below `tests.chaos.scenarios` that hold scenarios, in the order in which they run."""

Outcome = Literal["passed", "failed", "cannot run here"]


@dataclass(frozen=True, kw_only=True)
class ScenarioReport:
    """What a scenario found. `problems` are sentences, empty where it passed; `reason` is why it could not run.

    `figures` hold what the catalogue asks for (their units in their names), of the negative control too:
    a control that did not fail is a problem.
    """

    outcome: Outcome
    figures: Mapping[str, Figure] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, figures: Mapping[str, Figure], problems: Sequence[str]) -> "ScenarioReport":
        """Return the report of a scenario that ran."""
        return cls(outcome="failed" if problems else "passed", figures=dict(figures), problems=tuple(problems))

    @classmethod
    def impossible(cls, reason: str) -> "ScenarioReport":
        """Return the report of a scenario that this machine does not allow."""
        return cls(outcome="cannot run here", reason=reason)


@dataclass(frozen=True, kw_only=True)
class ScenarioContext:
    """What a scenario gets: an empty folder that is removed afterwards, a seed, and a function that prints progress.

    *long* asks for the form whose figures the catalogue names; without it the short form shows the same in less time.
    """

    folder: Path
    seed: int
    notice: Callable[[str], None]
    long: bool = False

    @property
    def privileged(self) -> bool:
        """Whether this process is root, which mounts and changes of the network need."""
        return os.geteuid() == 0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One fault of the catalogue. *number* is its row, *name* what `--scenario` takes."""

    number: int
    name: str
    summary: str
    run: Callable[[ScenarioContext], Awaitable[ScenarioReport]]
    needs_privileges: bool = False


def catalogue() -> tuple[Scenario, ...]:
    """Return every scenario, by number."""
    found: list[Scenario] = []
    for name in MODULES:
        module = importlib.import_module(f"tests.chaos.scenarios.{name}")
        found += module.SCENARIOS
    return tuple(sorted(found, key=lambda scenario: (scenario.number, scenario.name)))
