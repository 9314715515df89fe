"""Which tasks of a batch a project's quota has room for, and what is said to the others.

Tasks are taken in the order in which they came. A run that is a child of another is counted among those that have not
ended, and never refused: its parent was accepted, and would wait for it in vain.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from towpath_contracts.budgets import QUOTA_NAMES, TASK_QUOTAS, QuotaName, QuotaUse
from towpath_contracts.problems.registry import Problem, problem

RETRY_UNFINISHED_S = 5
"""When to ask again where runs have to end first: as with a queue that is full."""

RETRY_STORED_S = 3_600
"""When to ask again where runs have to be removed first: retention does that about once an hour."""

COUNTED: tuple[QuotaName, ...] = ("unfinished_runs", "runs_per_day")
"""Of what a task that is accepted takes one; what it will store nobody knows."""

RETRY_BUSY_S = 2
"""When to ask again where another replica holds the quota, and perhaps stands still."""


class IdempotencyKey(NamedTuple):
    """A key that a caller of a project has given a task."""

    project: str
    caller: str
    key: str


class QuotaTask(NamedTuple):
    """A task as quotas see it: whose it is, and under which key it was submitted."""

    project: str
    key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUse:
    """The limits of one project, by name, and how much of each is used; what has no limit is None."""

    limits: Mapping[QuotaName, int | None]
    used: Mapping[QuotaName, int]


def project_use(row: Mapping[str, Any]) -> ProjectUse:
    """Return the limits and what is used from a row of `uses`; what the row does not count is not used."""
    return ProjectUse(
        limits={name: row[name] for name in QUOTA_NAMES},
        used={name: row.get(f"{name}_used", 0) for name in QUOTA_NAMES},
    )


def next_day(now: datetime) -> datetime:
    """Return when the UTC day of *now* is over."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC)


def next_minute(now: datetime) -> datetime:
    """Return when the minute of *now* is over."""
    return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


FREES_AT: Mapping[QuotaName, Callable[[datetime], datetime]] = {
    "runs_per_day": next_day,
    "tool_calls_per_minute": next_minute,
}
"""When what is counted by the day or minute is free again."""


def quota_uses(use: ProjectUse, names: Iterable[QuotaName], now: datetime) -> Iterator[QuotaUse]:
    """Yield each limit of *names* that there is: what is used of it, and when it is free again where that is known."""
    for name in names:
        limit = use.limits[name]
        if limit is not None:
            frees_at = FREES_AT[name](now) if name in FREES_AT else None
            yield QuotaUse(name=name, limit=limit, used=use.used[name], frees_at=frees_at)


def refuse_above_quota(
    tasks: Iterable[QuotaTask], uses: Mapping[str, ProjectUse], known: Collection[IdempotencyKey], now: datetime
) -> list[Problem | None]:
    """Return for each task of a batch why it is refused; None where it fits.

    A task whose key is *known*, or is that of an earlier task of the batch, begins no run: it takes no place, and is
    answered with the run that has the key.
    """
    used = {project: dict(use.used) for project, use in uses.items()}
    fates: dict[IdempotencyKey, Problem | None] = dict.fromkeys(known)
    found: list[Problem | None] = []
    for project, key in tasks:
        use = uses.get(project)
        if use is None or (key is not None and key in fates):
            found.append(None if key is None else fates.get(key))
            continue
        full = _full(ProjectUse(limits=use.limits, used=used[project]), now)
        if full is None:
            for name in COUNTED:
                used[project][name] += 1
        found.append(None if full is None else refusal_of(project, full, now))
        if key is not None:
            fates[key] = found[-1]
    return found


def _full(use: ProjectUse, now: datetime) -> QuotaUse | None:
    """Return the limit that leaves no room, of several the one that is free again last."""
    full = [one for one in quota_uses(use, TASK_QUOTAS, now) if one.used >= one.limit]
    return full[-1] if full else None


def refusal_of(project: str, full: QuotaUse, now: datetime) -> Problem:
    """Return what is said to a task that the quota has no room for."""
    if full.name == "stored_bytes":
        frees = "it frees when runs are pruned or erased (towpath runs prune)"
        wait_s = RETRY_STORED_S
    elif full.frees_at is None:
        frees = "it frees with each run that ends"
        wait_s = RETRY_UNFINISHED_S
    else:
        frees = f"it frees at {full.frees_at:%Y-%m-%d %H:%M} UTC"
        wait_s = max(1, -int((now - full.frees_at) // timedelta(seconds=1)))
    words = full.name.replace("_", " ")
    detail = f"project {project} has used {full.used} of {full.limit} {words}; {frees}"
    return problem("quota_exceeded", detail, retry_after_s=wait_s)


def busy_quota(project: str) -> Problem:
    """Return what is said to a task whose quota another replica holds for long."""
    detail = f"another replica holds the quota of project {project}; nothing was accepted"
    return problem("unavailable", detail, retry_after_s=RETRY_BUSY_S)
