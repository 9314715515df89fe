"""Which tasks a quota has room for: the order of a batch, several projects, several limits, and what is said."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from towpath_contracts.budgets import (
    MAX_RUNS_PER_DAY,
    MAX_STORED_BYTES,
    MAX_TOOL_CALLS_PER_MINUTE,
    MAX_UNFINISHED_RUNS,
    QUOTA_NAMES,
    ProjectQuota,
    QuotaName,
)
from towpath_contracts.problems.registry import Problem
from towpath_orchestrator.app.project_quotas import LOCK_WAIT_MS
from towpath_orchestrator.core.quota_limits import (
    RETRY_BUSY_S,
    RETRY_UNFINISHED_S,
    IdempotencyKey,
    ProjectUse,
    QuotaTask,
    busy_quota,
    next_day,
    next_minute,
    quota_uses,
    refuse_above_quota,
)

NOW = datetime(2026, 11, 27, 23, 59, 30, tzinfo=UTC)


UNLIMITED: dict[QuotaName, int | None] = dict.fromkeys(QUOTA_NAMES)
NOTHING: dict[QuotaName, int] = dict.fromkeys(QUOTA_NAMES, 0)


def use(unfinished: int | None, per_day: int | None, *, unfinished_used: int = 0, today: int = 0) -> ProjectUse:
    return ProjectUse(
        limits={**UNLIMITED, "unfinished_runs": unfinished, "runs_per_day": per_day, "tool_calls_per_minute": 7},
        used={**NOTHING, "unfinished_runs": unfinished_used, "runs_per_day": today, "tool_calls_per_minute": 9},
    )


def refused(projects: list[str], uses: dict[str, ProjectUse], now: datetime = NOW) -> list[Problem | None]:
    return refuse_above_quota(map(QuotaTask, projects), uses, (), now)


def task(name: str, caller: str = "ann") -> QuotaTask:
    return QuotaTask("shop", IdempotencyKey("shop", caller, name))


def test_repeats_of_a_key_take_nobodys_place() -> None:
    """One place is left: neither what was accepted before nor the second of two that are alike may have it."""
    batch = [
        task("known"),
        task("known"),
        task("new"),
        task("new"),
        task("more"),
        QuotaTask("shop"),
        task("known", "bob"),
    ]
    found = refuse_above_quota(batch, {"shop": use(None, 3, today=2)}, {IdempotencyKey("shop", "ann", "known")}, NOW)
    assert [refusal is None for refusal in found] == [True, True, True, True, False, False, False]


def test_of_two_tasks_under_one_key_both_are_refused_where_the_first_has_no_room() -> None:
    found = refuse_above_quota([task("new"), task("new")], {"shop": use(None, 3, today=3)}, (), NOW)
    assert [refusal is None for refusal in found] == [False, False]


def test_tasks_of_a_batch_fill_the_quota_in_their_order_and_other_projects_are_not_held_up() -> None:
    uses = {"small": use(5, None, unfinished_used=3), "daily": use(None, 1)}
    found = refused(["small", "free", "small", "daily", "small", "daily", "free"], uses)
    assert [refusal is None for refusal in found] == [True, True, True, True, False, False, True]


def test_what_is_refused_says_what_is_used_the_limit_when_it_frees_and_the_remedy() -> None:
    [full] = refused(["shop"], {"shop": use(5, None, unfinished_used=7)})
    assert full is not None
    assert (full.code, full.status, full.retryable, full.retry_after_s) == ("quota_exceeded", 429, True, 5)
    assert full.detail == "project shop has used 7 of 5 unfinished runs; it frees with each run that ends"
    assert "towpath projects quota set" in full.remedy
    [daily] = refused(["shop"], {"shop": use(None, 40, today=40)})
    assert daily is not None
    assert daily.detail == "project shop has used 40 of 40 runs per day; it frees at 2026-11-28 00:00 UTC"
    assert daily.retry_after_s == 30
    assert RETRY_UNFINISHED_S == 5


def test_where_both_limits_are_used_up_the_later_time_is_told() -> None:
    [full] = refused(["shop"], {"shop": use(1, 1, unfinished_used=1, today=1)})
    assert full is not None
    assert "runs per day" in full.detail


def test_where_another_replica_holds_the_quota_it_is_asked_again_soon() -> None:
    busy = busy_quota("shop")
    assert (busy.code, busy.retryable, busy.retry_after_s) == ("unavailable", True, 2)
    assert busy.detail == "another replica holds the quota of project shop; nothing was accepted"
    assert (RETRY_BUSY_S, LOCK_WAIT_MS) == (2, 1_000)


def test_tool_calls_that_are_used_up_refuse_no_task() -> None:
    """They wait for the next minute where they are let through: the runs that want them were accepted."""
    full = use(None, None)
    assert full.used["tool_calls_per_minute"] > (full.limits["tool_calls_per_minute"] or 0)
    assert refused(["shop"], {"shop": full}) == [None]


def test_stored_bytes_refuse_tasks_once_the_limit_is_reached_and_until_runs_are_removed() -> None:
    limits: dict[QuotaName, int | None] = {**UNLIMITED, "stored_bytes": 1_000}
    near, full = (ProjectUse(limits=limits, used={**NOTHING, "stored_bytes": used}) for used in (999, 1_000))
    assert refused(["shop"] * 3, {"shop": near}) == [None] * 3, "what a task will store nobody knows"
    [why] = refused(["shop"], {"shop": full})
    assert why is not None
    frees = "it frees when runs are pruned or erased (towpath runs prune)"
    assert why.detail == f"project shop has used 1000 of 1000 stored bytes; {frees}"
    assert (why.code, why.retry_after_s) == ("quota_exceeded", 3_600)


def test_a_limit_of_nothing_lets_nothing_in() -> None:
    [full] = refused(["shop"], {"shop": use(0, None)})
    assert full is not None


def test_a_task_is_told_to_wait_for_at_least_a_second() -> None:
    late = datetime(2026, 11, 27, 23, 59, 59, 900_000, tzinfo=UTC)
    [full] = refused(["shop"], {"shop": use(None, 0)}, late)
    assert full is not None
    assert full.retry_after_s == 1


def test_a_day_ends_at_midnight_utc_whatever_the_zone_of_the_time() -> None:
    there = NOW.astimezone(datetime.fromisoformat("2026-11-27T00:00:00+05:00").tzinfo)
    assert next_day(there) == datetime(2026, 11, 28, tzinfo=UTC)
    uses = [one.frees_at for one in quota_uses(use(3, 4), QUOTA_NAMES, there)]
    assert uses == [None, datetime(2026, 11, 28, tzinfo=UTC), datetime(2026, 11, 28, tzinfo=UTC)]
    assert next_day(NOW + timedelta(minutes=1)) == datetime(2026, 11, 29, tzinfo=UTC)
    assert next_minute(NOW) == datetime(2026, 11, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({}, False),
        ({"unfinished_runs": -1}, False),
        ({"unfinished_runs": 0}, True),
        ({"unfinished_runs": 100_000}, True),
        ({"unfinished_runs": 100_001}, False),
        ({"runs_per_day": -1}, False),
        ({"tool_calls_per_minute": 0}, False),
        ({"stored_bytes": 0}, False),
        ({"stored_bytes": 10**15}, True),
        ({"stored_bytes": 10**15 + 1}, False),
        ({"tool_calls_per_minute": 1_000_000}, True),
        ({"tool_calls_per_minute": 1_000_001}, False),
        ({"runs_per_day": 1_000_000_000}, True),
        ({"runs_per_day": 1_000_000_001}, False),
    ],
)
def test_a_quota_limits_something_within_bounds(given: dict[str, int], *, fits: bool) -> None:
    assert (MAX_UNFINISHED_RUNS, MAX_RUNS_PER_DAY, MAX_TOOL_CALLS_PER_MINUTE) == (100_000, 10**9, 10**6)
    assert MAX_STORED_BYTES == 10**15
    if fits:
        assert ProjectQuota.model_validate(given).model_dump(exclude_none=True) == given
    else:
        with pytest.raises(ValidationError):
            ProjectQuota.model_validate(given)
