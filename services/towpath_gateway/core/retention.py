"""For how long what is kept: the fixed periods, written down once, and those of audit and runs, which TAS tells.

The services delete by their own statements and streams; each period here is held against these by a test.
"""

from collections.abc import Iterator
from typing import Literal

from towpath_contracts.base import Message, MessagePart
from towpath_contracts.runs.costs import MAX_DAYS
from towpath_contracts.streams import STREAMS
from towpath_contracts.tools.retention import TasRetention
from towpath_contracts.tools.workers import FORGOTTEN_S

HOUR_S = 3_600
DAY_S = 24 * HOUR_S

AUDIT = "audit"
AUDIT_SETTING = "TOWPATH_AUDIT_KEEP_DAYS"
RUNS = "runs"
RUNS_SETTING = "TOWPATH_RUN_KEEP_DAYS"

Decides = Literal["set", "default", "fixed", "unknown"]


class RetentionPeriod(MessagePart):
    """How long one thing is kept, from `since` on; it goes with the next housekeeping after that.

    `kept_s` is None for what is never removed for its age, and where the period is not known. `origin` says what
    decides: a `setting` that was `set`, its `default`, nothing that can be set (`fixed`); `unknown` is what the service
    that knows it does not tell now.
    """

    name: str
    what: str
    owner: str
    since: str = ""
    kept_s: int | None = None
    setting: str | None = None
    origin: Decides = "fixed"


class RetentionReport(Message):
    """What is kept for how long; `tas_instance` is the replica of TAS that told of audit and runs."""

    periods: tuple[RetentionPeriod, ...]
    tas_instance: str | None = None


def _fixed(name: str, owner: str, kept_s: float | None, what: str, since: str = "") -> RetentionPeriod:
    kept = None if kept_s is None else int(kept_s)
    return RetentionPeriod(name=name, owner=owner, kept_s=kept, what=what, since=since)


_STREAMED = {
    "EVENTS": ("events of runs on their way to readers; Postgres has them all", "their sending"),
    "REGISTERS": ("small values that processes of one role share", "their sending"),
    "LOGS": ("texts of model calls and logs of tools on their way to the history", "their sending"),
}
"""Streams whose messages have an age. A full one drops the oldest before that; of other streams a message stays until
it is handled."""

FIXED: tuple[RetentionPeriod, ...] = (
    _fixed("policies", "tas", None, "versions of the policy and of networks"),
    _fixed("keys", "gateway", None, "keys that somebody made, revoked ones too"),
    _fixed("sign_in_keys", "gateway", DAY_S, "keys of sign-ins at a provider", "their end"),
    _fixed("costs", "log_writer", (MAX_DAYS + 1) * DAY_S, "costs by day", "their day"),
    _fixed("budget_days", "orchestrator", (MAX_DAYS + 1) * DAY_S, "accounts of budgets of a day", "their day"),
    _fixed("dead_letters_settled", "orchestrator", 30 * DAY_S, "dead letters that were settled", "being settled"),
    _fixed("dead_letters_open", "orchestrator", 90 * DAY_S, "all other dead letters", "their arrival"),
    _fixed("notices_done", "orchestrator", 7 * DAY_S, "notices that were sent, or are obsolete", "their end"),
    _fixed("notices_dead", "orchestrator", 30 * DAY_S, "notices that nobody has taken", "their end"),
    _fixed("unused_blobs", "orchestrator", 7 * DAY_S, "blobs that nothing has named", "being stored last"),
    _fixed("idempotency_keys", "orchestrator", DAY_S, "idempotency keys of tasks", "the task"),
    _fixed("handling_failures", "orchestrator", DAY_S, "counts of failures to handle a message", "the last failure"),
    _fixed("handling_marks", "log_writer", DAY_S, "counts of deaths at one message", "the last try"),
    _fixed("blob_pieces", "tas", HOUR_S, "pieces of results that did not arrive whole", "their arrival"),
    _fixed("workers", "tas", FORGOTTEN_S, "worker processes in the list", "their last word"),
    _fixed("metric_samples", "gateway", HOUR_S, "samples of the metrics page, in memory", "the sample"),
    *(
        _fixed(f"stream_{stream.name.lower()}", "nats", stream.max_age_s, *_STREAMED[stream.name])
        for stream in STREAMS
        if stream.max_age_s
    ),
)
"""What no setting decides; first what is never removed for its age."""


def retention_report(told: TasRetention | None) -> RetentionReport:
    """Return all periods; those of the audit and of runs as they were *told*, unknown where nobody did."""
    told_of = None if told is None else (told.audit_keep_days, told.origin)
    audit = _told(AUDIT, AUDIT_SETTING, "entries of the audit", "being written", told_of)
    told_of = None if told is None or told.run_keep_days is None else (told.run_keep_days, told.runs_origin)
    what = "runs with their events, calls, approvals, results and history"
    runs = _told(RUNS, RUNS_SETTING, what, "their end", told_of)
    return RetentionReport(
        periods=(audit, runs, *_own_periods(told), *FIXED), tas_instance=None if told is None else told.instance
    )


def _own_periods(told: TasRetention | None) -> Iterator[RetentionPeriod]:
    """Return the periods of runs that differ by how they ended, or by network."""
    if told is not None:
        for kind, words, periods in (
            ("status", "runs that ended as", told.run_keep_days_by_status),
            ("network", "runs of the network", told.run_keep_days_by_network),
        ):
            for name, days in sorted(periods.items()):
                setting = f"{RUNS_SETTING}_BY_{kind.upper()}"
                yield _told(f"runs_{kind}_{name}", setting, f"{words} {name}", "their end", (days, "set"))


def _told(name: str, setting: str, what: str, since: str, told: tuple[int, Decides] | None) -> RetentionPeriod:
    days, origin = (0, "unknown") if told is None else told
    kept_s = days * DAY_S if days > 0 else None
    return RetentionPeriod(
        name=name, what=what, owner="tas", since=since, kept_s=kept_s, setting=setting, origin=origin
    )
