"""What retention says it dropped was a day old, and erasures that it may have dropped were carried out in two months.

A checkpoint that somebody kept from before the first leaf says the same of the log that it was of.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tas.audit_log import ORIGIN
from tests.unit.audit.test_checkpoint_times import KEY
from tests.unit.audit.test_notes import entry

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.merkle import MerkleFrontier, leaf_hash
from towpath_audit.notes import Checkpoint, write_time
from towpath_audit.report import AuditFault
from towpath_audit.retention import RetentionCheck

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY_LESS_AN_HOUR = timedelta(hours=23)
"""A clock may be set by an hour."""

CUT = MerkleFrontier().extended([leaf_hash(b"dropped")])


def dropped(age: timedelta, *outside: Checkpoint) -> tuple[RetentionCheck, list[str]]:
    """A bundle that begins after one leaf, which retention dropped at `NOW` when its seal had this age."""
    faults: list[AuditFault] = []
    check = RetentionCheck(add_fault=faults.append, notes=[])
    kept = KEY.note(Checkpoint(ORIGIN, CUT.size, CUT.root, NOW - age).text())
    times = {"since": None, "exported_at": write_time(NOW), "begins": None, "kept": kept}
    check.on_header({"origin": ORIGIN, **times}, CUT, [KEY.public])
    said = json.dumps({"from": 0, "to": CUT.size, "edge": [one.hex() for one in CUT.hashes]})
    payload = ErasablePayload(salt=bytes(16), args_digest="", detail=said)
    check.on_entry(1, 2, AuditLogEntry.read(entry(phase="audit.dropped", at=write_time(NOW))), payload)
    check.finish(outside)
    return check, [fault.code for fault in faults]


@pytest.mark.parametrize(
    ("age", "faults"),
    [(DAY_LESS_AN_HOUR, []), (DAY_LESS_AN_HOUR - SECOND, ["drop_untrue", "head_missing"])],
)
def test_what_retention_drops_is_a_day_old(age: timedelta, faults: list[str]) -> None:
    assert dropped(age)[1] == faults


@pytest.mark.parametrize(("age", "faults"), [(DAY_LESS_AN_HOUR, []), (DAY_LESS_AN_HOUR - SECOND, ["head_missing"])])
def test_a_kept_checkpoint_of_a_shorter_log_is_a_day_older_than_what_was_dropped(
    age: timedelta, faults: list[str]
) -> None:
    shorter = Checkpoint(ORIGIN, 0, MerkleFrontier().root, NOW - age)
    assert dropped(timedelta(days=90), shorter)[1] == faults


def test_the_request_of_an_erasure_may_be_dropped_if_it_was_carried_out_in_two_months() -> None:
    check, _ = dropped(timedelta(days=90))
    assert check.told_from == write_time(NOW - timedelta(days=30))
