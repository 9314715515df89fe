"""What is kept for how long is told as statements and streams remove it, and nothing that they remove is missing."""

import re
from pathlib import Path

import pytest

from towpath_contracts.streams import STREAMS
from towpath_contracts.tools.retention import TasRetention
from towpath_contracts.tools.workers import FORGOTTEN_S
from towpath_gateway.app.metric_samples import EVERY_S, MAX_SAMPLES
from towpath_gateway.core.retention import AUDIT, AUDIT_SETTING, FIXED, RUNS, RUNS_SETTING, retention_report
from towpath_log_writer.adapters.history_tables import KEPT_DAYS
from towpath_tas.settings import TasSettings
from towpath_tas.wiring.audit_wiring import retention_of

ROOT = Path(__file__).parents[3]
HOUR_S, DAY_S = 3_600, 86_400
UNITS = {"hour": HOUR_S, "day": DAY_S}
REMOVED_BY = {
    "gateway.api_key": ("sign_in_keys",),
    "history.cost": ("costs",),
    "history.handling_mark": ("handling_marks",),
    "runs.budget": ("budget_days",),
    "runs.dead_letter": ("dead_letters_settled", "dead_letters_open"),
    "runs.handling_failure": ("handling_failures",),
    "runs.idempotency": ("idempotency_keys",),
    "runs.notice": ("notices_done", "notices_dead"),
    "tas.blob_piece": ("blob_pieces",),
    "tas.worker": ("workers",),
}
"""Tables from which rows go for their age, and the periods by which, in the order of the statement."""

BY_LAST_USE = ("unused_blobs",)
IN_MEMORY, FOR_EVER = ("metric_samples",), ("policies", "keys")
KEPT = {one.name: one.kept_s for one in FIXED}


def aged_deletes() -> dict[str, list[int]]:
    """Return the tables from which a statement removes rows by a time, and the periods that it writes out."""
    found: dict[str, list[int]] = {}
    for file in [*ROOT.glob("services/*/*/*.sql"), *ROOT.glob("libs/towpath_fabric/*.sql")]:
        text = re.sub(r"--.*", "", file.read_text("utf-8").replace("-- name:", ";"))
        for statement in re.split(r";|\$\$", text):
            table = re.search(r"DELETE FROM (\w+\.\w+)", statement)
            if table and re.search(r"\bnow\(\)|clock_timestamp\(\)", statement):
                periods = re.findall(r"interval '(\d+) (hour|day)s?'", statement)
                found.setdefault(table[1], []).extend(int(number) * UNITS[unit] for number, unit in periods)
    return found


def test_every_period_is_that_of_the_statement_that_removes_and_none_is_missing() -> None:
    deletes = aged_deletes()
    assert set(deletes) == set(REMOVED_BY)
    for table, names in REMOVED_BY.items():
        if deletes[table]:
            assert [KEPT[name] for name in names] == deletes[table], table
    assert {table for table, periods in deletes.items() if not periods} == {"history.cost", "tas.worker"}
    assert KEPT["costs"] == KEPT_DAYS * DAY_S == 93 * DAY_S and KEPT["workers"] == FORGOTTEN_S
    assert KEPT["metric_samples"] == EVERY_S * MAX_SAMPLES
    assert {one.origin for one in FIXED} == {"fixed"}
    assert [KEPT[name] for name in FOR_EVER] == [None] * len(FOR_EVER)


def test_blobs_are_unused_by_the_period_that_is_told() -> None:
    text = (ROOT / "services/towpath_orchestrator/migrations/0001_runs.sql").read_text("utf-8")
    body = text.partition("CREATE FUNCTION runs.delete_unused_blobs")[2].partition("$$;")[0]
    assert re.findall(r"interval '(\d+) days'", body) == ["7"] and KEPT["unused_blobs"] == 7 * DAY_S


def test_every_stream_with_an_age_is_told_and_nothing_else_is() -> None:
    aged = {f"stream_{one.name.lower()}": one.max_age_s for one in STREAMS if one.max_age_s}
    assert {name: KEPT[name] for name in KEPT if name.startswith("stream_")} == aged
    others = {name for names in REMOVED_BY.values() for name in names} | {*IN_MEMORY, *FOR_EVER, *BY_LAST_USE}
    assert set(KEPT) == others | set(aged) and len(FIXED) == len(KEPT)


DOCUMENTED = {
    "costs by day": (("costs", "budget_days"), "93 days"),
    "dead letters": (("dead_letters_settled", "dead_letters_open"), "30 days once settled, else 90"),
    "notices of gates": (("notices_done", "notices_dead"), "7 days once sent or obsolete, 30 where nobody"),
    "keys of sign-ins at a provider": (("sign_in_keys",), "a day after their end"),
    "blobs that nothing has named": (("unused_blobs",), "7 days after they were stored last"),
    "idempotency keys": (("idempotency_keys",), "24 hours after the task"),
    "counts of failures and deaths at one message": (("handling_failures", "handling_marks"), "a day after the last"),
    "pieces of results that did not arrive whole; samples of the metrics page": (
        ("blob_pieces", "metric_samples"),
        "an hour",
    ),
    "worker processes in the list": (("workers",), "10 minutes after their last word"),
    "messages of the streams `EVENTS` and `LOGS`; of `REGISTERS`": (
        ("stream_events", "stream_logs", "stream_registers"),
        "24 hours; an hour",
    ),
}
SECONDS = {
    "93 days": [93 * DAY_S, 93 * DAY_S],
    "30 days once settled, else 90": [30 * DAY_S, 90 * DAY_S],
    "7 days once sent or obsolete, 30 where nobody": [7 * DAY_S, 30 * DAY_S],
    "a day after their end": [DAY_S],
    "7 days after they were stored last": [7 * DAY_S],
    "24 hours after the task": [DAY_S],
    "a day after the last": [DAY_S, DAY_S],
    "an hour": [HOUR_S, HOUR_S],
    "10 minutes after their last word": [600],
    "24 hours; an hour": [DAY_S, DAY_S, HOUR_S],
}


def test_the_page_for_operators_says_the_same_of_every_period() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## What is kept for how long")[2]
    for what, (names, words) in DOCUMENTED.items():
        assert re.search(rf"^\| {re.escape(what)}[^|]*\| {re.escape(words)}", page, re.MULTILINE), what
        assert [KEPT[name] for name in names] == SECONDS[words], what
    assert {name for names, _ in DOCUMENTED.values() for name in names} == set(KEPT) - set(FOR_EVER)


@pytest.mark.parametrize(
    ("given", "kept_s", "origin"),
    [(None, 365 * DAY_S, "default"), ("365", 365 * DAY_S, "set"), ("30", 30 * DAY_S, "set"), ("0", None, "set")],
)
def test_the_audit_is_kept_as_tas_says_that_it_was_started(
    monkeypatch: pytest.MonkeyPatch, given: str | None, kept_s: int | None, origin: str
) -> None:
    assert f"TOWPATH_{'audit_keep_days'.upper()}" == AUDIT_SETTING and "audit_keep_days" in TasSettings.model_fields
    if given is not None:
        monkeypatch.setenv(AUDIT_SETTING, given)
    report = retention_report(retention_of(TasSettings.load(instance="tas-1")))
    audit = report.periods[0]
    assert (audit.name, audit.kept_s, audit.origin, audit.setting) == (AUDIT, kept_s, origin, AUDIT_SETTING)
    assert report.tas_instance == "tas-1" and report.periods[2:] == FIXED


def test_the_audit_is_not_known_where_tas_tells_nothing_and_all_else_is() -> None:
    report = retention_report(None)
    for period in report.periods[:2]:
        assert (period.origin, period.kept_s, report.tas_instance) == ("unknown", None, None)
    assert report.periods[2:] == FIXED
    before = TasRetention(instance="", audit_keep_days=1, origin="set")
    assert [one.origin for one in retention_report(before).periods[:2]] == ["set", "unknown"], "of the version before"


@pytest.mark.parametrize(
    ("given", "kept_s", "origin"),
    [(None, None, "default"), ("0", None, "set"), ("90", 90 * DAY_S, "set")],
)
def test_runs_are_kept_as_tas_says_that_it_was_started(
    monkeypatch: pytest.MonkeyPatch, given: str | None, kept_s: int | None, origin: str
) -> None:
    assert RUNS_SETTING == "TOWPATH_RUN_KEEP_DAYS" and "run_keep_days" in TasSettings.model_fields
    if given is not None:
        monkeypatch.setenv(RUNS_SETTING, given)
    runs = retention_report(retention_of(TasSettings.load())).periods[1]
    assert (runs.name, runs.kept_s, runs.origin, runs.setting) == (RUNS, kept_s, origin, RUNS_SETTING)


def test_statuses_and_networks_with_periods_of_their_own_are_told_behind_those_of_all_runs() -> None:
    own = {"run_keep_days_by_status": {"failed": 90}, "run_keep_days_by_network": {"support": 0}}
    report = retention_report(retention_of(TasSettings.load(**own)))
    told = [(one.what, one.kept_s, one.setting, one.origin) for one in report.periods[2:4]]
    assert told == [
        ("runs that ended as failed", 90 * DAY_S, f"{RUNS_SETTING}_BY_STATUS", "set"),
        ("runs of the network support", None, f"{RUNS_SETTING}_BY_NETWORK", "set"),
    ]
    assert report.periods[4:] == FIXED


def test_days_below_zero_keep_the_audit_for_ever_as_its_housekeeping_does() -> None:
    told = TasRetention(instance="", audit_keep_days=-1, origin="set")
    assert retention_report(told).periods[0].kept_s is None
