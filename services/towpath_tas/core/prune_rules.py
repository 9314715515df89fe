"""Which runs retention takes: whole families of runs that ended long ago, and of which nothing is open.

A family is a run that nobody started and that continues none, the runs of its thread, and all below these: they were
told what it said. So it goes whole or stays whole: one young run, one open gate or one call that nobody settled keeps
all of it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tools.retention import WhyKept

MAX_RUNS = 5_000
"""Of one pruning: all of them stand in its entry of the audit, which a bundle has to hold."""


class StoredRun(NamedTuple):
    """A run as retention sees it. `top`: no run started it; `held`: a gate of it is open, or a call is not settled.

    `settled_at`: when the last of its calls was settled; None where it has none.
    """

    family: UUID
    run_id: UUID
    project: str
    network: str
    top: bool
    status: str
    ended_at: datetime | None
    erased: bool
    held: bool
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKeepDays:
    """For how many days runs are kept after their end; 0: for ever. Some statuses and networks have their own.

    A network is named as `project/name`, or by its name alone for all projects that have one of that name.
    """

    days: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)
    by_network: Mapping[str, int] = field(default_factory=dict)

    @property
    def shortest(self) -> int:
        """The shortest period of any runs; 0 where all are kept for ever."""
        return min(
            (days for days in (self.days, *self.by_status.values(), *self.by_network.values()) if days), default=0
        )

    def of_project(self, project: str, projects: Collection[str]) -> "RunKeepDays":
        """Return the periods of one of *projects*, where networks have their names alone: one named with it goes first.

        A network's own name may have a slash, too: what is before it is a project only where there is such a one.
        """
        start = f"{project}/"
        of_all = {name: days for name, days in self.by_network.items() if not _is_of(name, projects)}
        own = {name.removeprefix(start): days for name, days in self.by_network.items() if name.startswith(start)}
        return replace(self, by_network=of_all | own)

    def of_no_project(self, projects: Collection[str]) -> list[str]:
        """Return the networks that are named with a project which is none of *projects*."""
        return [name for name in self.by_network if "/" in name and not _is_of(name, projects)]

    def of(self, family: Iterable[StoredRun]) -> int:
        """Return the longest period of a family's runs that somebody submitted: those below go with them."""
        periods = {days for run in family if run.top for days in self._of(run)}
        return 0 if 0 in periods else max(periods, default=self.days)

    def _of(self, run: StoredRun) -> list[int]:
        own = [self.by_status.get(run.status), self.by_network.get(run.network)]
        return [days for days in own if days is not None] or [self.days]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRules:
    """Take what ended before *before*; of one network or some statuses only where these are named.

    With *keep* a family has to be older than its own period, at the time of *now*.
    """

    project: str
    before: datetime
    network: str | None = None
    statuses: frozenset[str] = frozenset()
    keep: RunKeepDays | None = None
    now: datetime | None = None

    def before_of(self, family: Sequence[StoredRun]) -> datetime | None:
        """Return before when the runs of *family* have to have ended; None where it is kept for ever."""
        if self.keep is None or self.now is None:
            return self.before
        days = self.keep.of(family)
        return min(self.before, self.now - timedelta(days=days)) if days else None


@dataclass(frozen=True, slots=True)
class PruneChoice:
    """The runs that go, of how many families, why others stay, and the last family that was looked at."""

    run_ids: tuple[UUID, ...]
    families: int
    kept: dict[WhyKept, int]
    last: UUID | None


def choose(runs: Iterable[StoredRun], rules: PruneRules, room: int = MAX_RUNS) -> PruneChoice:
    """Return what goes of *runs*, which come family by family; a family for which no room is left ends the look."""
    chosen: list[UUID] = []
    kept: Counter[WhyKept] = Counter()
    families, last = 0, None
    for family, members in groupby(runs, lambda run: run.family):
        found = list(members)
        why = why_kept(found, rules)
        going = [run.run_id for run in found if not run.erased]
        if why is None and len(chosen) + len(going) > room:
            break
        last = family
        if why is not None:
            kept[why] += 1
        else:
            chosen += going
            families += 1
    return PruneChoice(tuple(chosen), families, dict(kept), last)


def why_kept(family: Sequence[StoredRun], rules: PruneRules) -> WhyKept | None:
    """Return why the runs of a family stay; None where they go."""
    left = [run for run in family if not run.erased]
    if any(run.project != rules.project for run in family):
        return "held"
    if any(run.status not in FINAL_STATUSES or run.ended_at is None for run in left):
        return "not_ended"
    before = rules.before_of(left)
    if before is None:
        return "not_asked_for"
    if any(run.ended_at is None or run.ended_at >= before for run in left):
        return "too_young"
    if any(run.held or (run.settled_at is not None and run.settled_at >= before) for run in left):
        return "held"
    for run in left:
        asked_for = rules.network in (None, run.network) and (not rules.statuses or run.status in rules.statuses)
        if run.top and not asked_for:
            return "not_asked_for"
    return "too_large" if len(left) > MAX_RUNS else None


def _is_of(network: str, projects: Collection[str]) -> bool:
    project, slash, _ = network.partition("/")
    return bool(slash) and project in projects
