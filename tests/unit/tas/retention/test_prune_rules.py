"""Retention takes families of runs that ended long ago, whole, and nothing of which something is open."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest
from pydantic import ValidationError

from towpath_contracts.runs.statuses import FINAL_STATUSES, LIVE_STATUSES
from towpath_contracts.tools.retention import MAX_KEEP_DAYS, EndedStatus, PruneRuns
from towpath_tas.app.audit.run_retention import (
    AGAIN_S,
    FAMILIES_AT_ONCE,
    PASS_EVERY_S,
    PRUNE_EVERY_S,
    STANDS_STILL_S,
    TELL_S,
)
from towpath_tas.core.prune_rules import MAX_RUNS, PruneRules, RunKeepDays, StoredRun, choose, why_kept
from towpath_tas.settings import TasSettings
from towpath_tas.wiring.audit_wiring import keep_days_of

BEFORE = datetime(2026, 8, 1, tzinfo=UTC)
OLD = BEFORE - timedelta(microseconds=1)
RULES = PruneRules(project="p", before=BEFORE)


def run(number: int, family: int | None = None, **changes: Any) -> StoredRun:
    first = number if family is None else family
    fields: dict[str, Any] = {"project": "p", "network": "n", "top": family is None, "status": "completed"}
    fields |= {"ended_at": OLD, "erased": False, "held": False} | changes
    return StoredRun(family=UUID(int=first), run_id=UUID(int=number), **fields)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        *(({"status": status}, None) for status in sorted(FINAL_STATUSES)),
        *(({"status": status}, "not_ended") for status in sorted(LIVE_STATUSES)),
        ({"ended_at": None}, "not_ended"),
        ({"ended_at": BEFORE}, "too_young"),
        ({"held": True}, "held"),
        ({"settled_at": BEFORE}, "held"),
        ({"settled_at": OLD}, None),
        ({"project": "q"}, "held"),
        ({"erased": True, "status": "running", "ended_at": None}, None),
    ],
)
def test_any_run_of_a_family_keeps_all_of_it(changes: dict[str, Any], why: str | None) -> None:
    for family in ([run(1, **changes), run(2, 1)], [run(1), run(2, 1, **changes)]):
        assert why_kept(family, RULES) == why


def test_the_runs_that_somebody_submitted_are_asked_for_and_those_below_follow() -> None:
    family = [run(1, network="a"), run(2, 1, network="b", status="failed")]
    for rules, why in (
        (PruneRules(project="p", before=BEFORE, network="a"), None),
        (PruneRules(project="p", before=BEFORE, network="b"), "not_asked_for"),
        (PruneRules(project="p", before=BEFORE, statuses=frozenset({"completed"})), None),
        (PruneRules(project="p", before=BEFORE, statuses=frozenset({"failed"})), "not_asked_for"),
    ):
        assert why_kept(family, rules) == why
    both = [run(1, network="a"), run(2, 1, top=True, network="b")]
    assert why_kept(both, PruneRules(project="p", before=BEFORE, network="a")) == "not_asked_for"


@pytest.mark.parametrize(
    ("family", "days"),
    [
        ([run(1)], 30),
        ([run(1, status="failed")], 90),
        ([run(1, status="cancelled")], 7),
        ([run(1, network="audits")], 0),
        ([run(1, network="chats", status="failed")], 90),
        ([run(1, network="chats")], 14),
        ([run(1), run(2, 1, status="failed", network="audits")], 30),
        ([run(1, status="cancelled"), run(2, 1, top=True)], 30),
        ([run(1, status="failed"), run(2, 1, top=True, network="audits")], 0),
        ([run(2, 1)], 30),
    ],
)
def test_the_longest_period_of_the_runs_that_somebody_submitted_holds_for_a_family(
    family: list[StoredRun], days: int
) -> None:
    keep = RunKeepDays(days=30, by_status={"failed": 90, "cancelled": 7}, by_network={"audits": 0, "chats": 14})
    assert (keep.of(family), keep.shortest) == (days, 7)
    now = OLD + timedelta(days=days)
    rules = PruneRules(project="p", before=now - timedelta(days=7), keep=keep, now=now)
    assert why_kept(family, rules) == ("too_young" if days else "not_asked_for")
    later = PruneRules(project="p", before=now, keep=keep, now=now + timedelta(microseconds=1))
    assert why_kept(family, later) == (None if days else "not_asked_for")


def test_a_call_that_was_settled_within_the_family_s_own_period_keeps_it() -> None:
    now = BEFORE + timedelta(days=7)
    keep = RunKeepDays(days=365, by_status={"cancelled": 7})
    rules = PruneRules(project="p", before=BEFORE, keep=keep, now=now)
    settled, ended = now - timedelta(days=20), now - timedelta(days=366)
    assert why_kept([run(1, ended_at=ended, settled_at=settled)], rules) == "held"
    assert why_kept([run(1, ended_at=ended, settled_at=ended)], rules) is None
    assert why_kept([run(1, ended_at=ended, settled_at=settled, status="cancelled")], rules) is None


def test_nothing_goes_by_its_age_where_no_period_is_set() -> None:
    assert RunKeepDays().shortest == 0 and RunKeepDays(by_network={"n": 0}).shortest == 0
    assert RunKeepDays(by_status={"failed": 9}).shortest == 9
    assert RunKeepDays(by_status={"failed": 9}).of([run(1)]) == 0


def test_families_go_whole_until_there_is_no_room() -> None:
    families = [run(1), run(2, 1), run(3, held=True), run(4), run(5, 4, erased=True), run(6), run(7, 6)]
    choice = choose(families, RULES, room=4)
    assert [one.int for one in choice.run_ids] == [1, 2, 4] and choice.families == 2
    assert choice.kept == {"held": 1} and choice.last == UUID(int=4)
    assert choose(families, RULES).last == UUID(int=6) and choose([], RULES).last is None


def test_a_family_that_one_entry_can_not_name_stays() -> None:
    assert MAX_RUNS == 5_000
    family = [run(1), *(run(number, 1) for number in range(2, MAX_RUNS + 1))]
    assert len(choose(family, RULES).run_ids) == MAX_RUNS
    assert choose([*family, run(MAX_RUNS + 1, 1)], RULES).kept == {"too_large": 1}


def test_nothing_younger_than_a_week_can_be_asked_for() -> None:
    assert set(get_args(EndedStatus)) == FINAL_STATUSES and MAX_KEEP_DAYS == 36_500
    asked = PruneRuns(project="p", actor="a", older_than_days=7)
    assert asked.dry_run and PruneRuns(project="p", actor="a", older_than_days=36_500)
    for days in (6, 36_501):
        with pytest.raises(ValidationError):
            PruneRuns(project="p", actor="a", older_than_days=days)
    PruneRuns(project="p", actor="a", older_than_days=7, reason="x" * 2_000)
    with pytest.raises(ValidationError):
        PruneRuns(project="p", actor="a", older_than_days=7, reason="x" * 2_001)


def test_runs_are_kept_for_ever_unless_somebody_says_otherwise() -> None:
    assert TasSettings.load().run_keep_days == 0 and TasSettings.load(run_keep_days=7).run_keep_days == 7
    for days in (-1, 1, 6, 36_501):
        with pytest.raises(Exception, match=r"(?i)run_keep_days"):
            TasSettings.load(run_keep_days=days)
        for name, key in (("status", "failed"), ("network", "support")):
            with pytest.raises(Exception, match=rf"(?i)run_keep_days_by_{name}"):
                TasSettings.load(**{f"run_keep_days_by_{name}": {key: days}})


def test_periods_of_statuses_and_networks_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_RUN_KEEP_DAYS", "30")
    monkeypatch.setenv("TOWPATH_RUN_KEEP_DAYS_BY_STATUS", '{"failed": 90, "completed": 0}')
    monkeypatch.setenv("TOWPATH_RUN_KEEP_DAYS_BY_NETWORK", '{"support": 7}')
    keep = keep_days_of(TasSettings.load())
    assert keep == RunKeepDays(days=30, by_status={"failed": 90, "completed": 0}, by_network={"support": 7})
    monkeypatch.setenv("TOWPATH_RUN_KEEP_DAYS_BY_STATUS", '{"running": 90}')
    with pytest.raises(Exception, match=r"(?i)run_keep_days_by_status"):
        TasSettings.load()


def test_a_network_that_is_named_with_its_project_has_its_period_there_alone() -> None:
    keep = RunKeepDays(by_network={"n": 30, "p/n": 90, "p/team/bot": 7, "q/n": 0, "q/m": 14})
    projects = ("p", "q", "other")
    assert keep.of_project("p", projects) == RunKeepDays(by_network={"n": 90, "team/bot": 7})
    assert keep.of_project("q", projects) == RunKeepDays(by_network={"n": 0, "m": 14})
    assert keep.of_project("other", projects) == RunKeepDays(by_network={"n": 30})
    assert keep.shortest == 7 and keep.of_project("q", projects).shortest == 14


def test_what_is_before_a_slash_is_a_project_only_where_there_is_one() -> None:
    keep = RunKeepDays(days=30, by_network={"team/bot": 0, "bank/support": 90})
    assert keep.of_project("bank", ["bank"]) == RunKeepDays(days=30, by_network={"team/bot": 0, "support": 90})
    assert (keep.of_no_project(["bank"]), keep.of_no_project(["bank", "team"])) == (["team/bot"], [])


def test_a_look_is_about_once_an_hour_and_a_pass_once_a_day() -> None:
    assert (FAMILIES_AT_ONCE, PRUNE_EVERY_S, AGAIN_S, PASS_EVERY_S) == (500, 3_600, 60, 86_400)
    assert (STANDS_STILL_S, TELL_S) == (7_200, 3_600)
