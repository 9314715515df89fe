"""Signed times that can't be true: before an earlier one, or after the export."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tas.audit_log import ORIGIN, signer

from towpath_audit import bundle
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, write_time
from towpath_audit.report import AuditFault
from towpath_audit.retention import CLOCK_ALLOWANCE
from towpath_audit.verifier import verify

KEY = signer()
NOW = datetime(2026, 11, 24, tzinfo=UTC)
HOUR = timedelta(hours=1)
EMPTY = MerkleFrontier()


def faults(*times: datetime | None, begins: datetime | None = None, kept: datetime | None = None) -> list[AuditFault]:
    """Verify a bundle of a log without leaves that was exported at `NOW`, whose checkpoints have these times."""

    def note(at: datetime | None) -> str:
        return KEY.note(Checkpoint(ORIGIN, 0, EMPTY.root, at).text())

    head = bundle.header(
        origin=ORIGIN,
        project="p",
        since=None,
        until=None,
        edge=EMPTY,
        size=0,
        keys=[KEY.public],
        exported_at=write_time(NOW),
        exported_by="ann",
        begins=None if begins is None else note(begins),
        kept=None if kept is None else note(kept),
    )
    lines = [bundle.serialize_line(line) for line in (head, *(bundle.checkpoint(note(at)) for at in times))]
    return verify([*lines, bundle.page(0, "", lines, KEY, last=True)]).faults


@pytest.mark.parametrize(
    ("times", "more"),
    [
        ((NOW - HOUR, NOW - HOUR, NOW, NOW + CLOCK_ALLOWANCE), {}),
        ((NOW - HOUR, None, NOW), {}),
        ((NOW,), {"kept": NOW - 2 * HOUR, "begins": NOW - HOUR}),
        ((), {}),
    ],
)
def test_times_that_rise_until_the_export_are_true(
    times: tuple[datetime | None, ...], more: dict[str, datetime]
) -> None:
    assert faults(*times, **more) == []


@pytest.mark.parametrize(
    ("times", "more", "line", "why"),
    [
        ((NOW, NOW - HOUR), {}, 3, "one before it of"),
        ((NOW, None, NOW - timedelta(microseconds=1)), {}, 4, "one before it of"),
        ((NOW + timedelta(days=2),), {}, 2, "after the export"),
        ((NOW - HOUR,), {"begins": NOW}, 2, "one before it of"),
        ((NOW,), {"kept": NOW - HOUR, "begins": NOW - 2 * HOUR}, 1, "one before it of"),
        ((NOW + HOUR,), {"kept": NOW + HOUR}, 1, "after the export"),
    ],
)
def test_a_time_that_falls_or_is_after_the_export_is_a_fault_at_its_line(
    times: tuple[datetime | None, ...], more: dict[str, datetime], line: int, why: str
) -> None:
    first = faults(*times, **more)[0]
    assert (first.code, first.line) == ("checkpoint_time", line)
    assert why in first.message
