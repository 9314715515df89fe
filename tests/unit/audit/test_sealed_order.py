"""Entries that exclude each other are sealed in the order of their ids; none is older than what was sealed before."""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tas.audit_log import ORIGIN, signer
from tests.unit.audit.test_sealed_calls import AGAIN, ALLOW, ASK, CLAIM, CONSUMED, DENY, DONE, place

from towpath_audit import bundle
from towpath_audit.entries import ErasablePayload
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, write_time
from towpath_audit.report import AuditFault
from towpath_audit.sealed_order import CLOCKS_DIFFER, MAX_LEAVES_PER_SEAL, SealedOrder
from towpath_audit.verifier import verify
from towpath_tas.core.seal_times import MAX_CLOCK_DIFFERENCE

KEY = signer()
SEALED = datetime(2026, 11, 22, 11, tzinfo=UTC)
HOUR = timedelta(hours=1)
APPLIED, PAUSED, RESUMED = "policy.applied applied", "switch.paused paused", "switch.resumed resumed"
ACCEPTED, PROPOSED, REFUSED = "tool.accepted accepted", "tool.proposed pending", "tool.refused refused"
Said = tuple[int, str] | tuple[int, str, str]
"""An id, a phase and a verdict, and the project where it is another."""


def told(*seals: list[Said], calls: str = "") -> list[int]:
    """Return which are out of order; each list is sealed together, each entry about a call of its own or of *calls*."""
    found: list[AuditFault] = []
    order = SealedOrder(found.append)
    for seal in seals:
        for number, kind, *project in seal:
            entry = place(number, kind, project=project[0] if project else "p").entry
            if entry.execution_id is not None:
                entry = replace(entry, execution_id=calls or str(number))
            order.on_entry(number, number, entry)
        order.on_sealed(None, len(seal))
    assert {fault.code for fault in found} <= {"entry_out_of_order"}
    return [fault.entry_id for fault in found if fault.entry_id is not None]


@pytest.mark.parametrize(
    "changes", [APPLIED, PAUSED, RESUMED, ACCEPTED, "tool.registered accepted", "tool.drifted held"]
)
@pytest.mark.parametrize("decides", [ALLOW, ASK, CONSUMED, CLAIM, AGAIN])
def test_who_decides_and_who_changes_what_decides_exclude_each_other(changes: str, decides: str) -> None:
    assert told([(5, changes)], [(9, decides)]) == []
    assert told([(9, changes)], [(5, decides)]) == [5]
    assert told([(9, decides)], [(5, changes)]) == [5]
    assert told([(9, changes)], [(5, APPLIED)]) == [5]


def test_of_what_is_sealed_together_and_of_other_projects_the_order_is_free() -> None:
    assert told([(9, APPLIED), (5, ALLOW)]) == []
    assert told([(9, APPLIED)], [(5, ALLOW, "q")]) == []
    assert told([(9, ALLOW)], [(5, ALLOW)]) == [], "calls are decided at the same time"
    assert told([(9, APPLIED)], [(5, DENY)], [(4, PROPOSED)], [(3, REFUSED)], [(2, "x")]) == []


def test_what_was_covered_last_is_not_all_that_counts() -> None:
    assert told([(9, APPLIED)], [(10, ALLOW)], [], [(5, CLAIM)]) == [5]
    assert told([(9, APPLIED)], [(10, APPLIED)], [(11, "x")], [(9, ALLOW)]) == [9]


def test_the_entries_of_one_call_are_in_order() -> None:
    assert told([(5, ALLOW), (7, CLAIM)], [(8, DONE)], calls="a") == []
    assert told([(5, ALLOW), (7, CLAIM)], [(6, DONE)], calls="a") == [6]
    assert told([(7, CLAIM)], [(6, "evidence succeeded")], calls="a") == []


def test_entries_from_before_the_bundle_stand_before_all_others_and_may_be_shown_later() -> None:
    found: list[AuditFault] = []
    order = SealedOrder(found.append)
    order.on_entry(20, 1, place(20, ALLOW).entry)
    order.on_sealed(None, 1)
    order.on_earlier(place(8, APPLIED).entry)
    assert found == []
    order.on_entry(21, 2, replace(place(7, ALLOW).entry, execution_id="another"))
    assert [fault.entry_id for fault in found] == [7]


def dated(*seals: tuple[datetime | None, int], at: datetime) -> str:
    """Return the time of an entry that was written at *at*, by its own word, after *seals* of so many leaves."""
    order = SealedOrder(lambda _fault: None)
    for signed, leaves in seals:
        order.on_sealed(signed, leaves)
    return order.on_entry(1, 1, replace(place(1, ALLOW).entry, at=write_time(at))).at


def test_an_entry_is_not_older_than_the_checkpoint_before_it() -> None:
    earliest = SEALED - CLOCKS_DIFFER
    assert dated((SEALED, 1), at=SEALED - HOUR) == write_time(earliest)
    assert dated((SEALED - HOUR, 1), (SEALED, 1), (None, 1), at=SEALED - HOUR) == write_time(earliest)
    for honest in (earliest, SEALED, SEALED + HOUR):
        assert dated((SEALED, 1), at=honest) == write_time(honest)
    assert dated(at=SEALED - HOUR) == write_time(SEALED - HOUR)


def test_a_full_seal_leaves_out_what_was_written_before() -> None:
    before = SEALED - HOUR
    assert dated((SEALED, MAX_LEAVES_PER_SEAL), at=before) == write_time(before)
    assert dated((SEALED, MAX_LEAVES_PER_SEAL - 1), at=before) == write_time(SEALED - CLOCKS_DIFFER)


def test_a_seal_that_was_full_when_older_versions_signed_it_counts_as_full() -> None:
    """With a larger number, what it left behind would count as written after it."""
    assert MAX_LEAVES_PER_SEAL == 10_000


def verified(
    *entries: tuple[str, datetime, dict[str, str]],
    gone: Collection[int] = (),
    kept: bool = True,
    behind: Sequence[tuple[int, datetime]] = (),
) -> list[str]:
    """Verify a bundle of entries with these phases, times and details, each sealed an hour after the one before.

    Seals that are *gone* are not in the bundle; they, and the last one, are *kept* outside. So are those that it begins
    *behind*: leaves that they cover, and when each was signed.
    """
    edge, body, outside = MerkleFrontier(), list[bundle.Line](), list[str]()
    for size, signed in behind:
        edge = edge.extended([bytes(32)] * (size - edge.size))
        outside.append(KEY.note(Checkpoint(ORIGIN, edge.size, edge.root, signed).text()))
    begin = edge
    for number, (phase, at, detail) in enumerate(entries, begin.size):
        payload = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(detail))
        entry = replace(place(number, phase).entry, at=write_time(at), actor="mia", commitment=payload.commitment())
        entry = replace(entry, run_id=None, execution_id=None)
        body.append(bundle.leaf(number, entry, payload, entry.leaf_hash()))
        edge = edge.extended([entry.leaf_hash()])
        note = KEY.note(Checkpoint(ORIGIN, edge.size, edge.root, SEALED + (number - begin.size) * HOUR).text())
        if number not in gone:
            body.append(bundle.checkpoint(note))
        if kept and (number in gone or number - begin.size == len(entries) - 1):
            outside.append(note)
    head = bundle.header(
        origin=ORIGIN,
        project="p",
        since=write_time(SEALED) if behind else None,
        until=None,
        edge=begin,
        begins=outside[len(behind) - 1] if behind else None,
        size=edge.size,
        keys=[KEY.public],
        exported_at=write_time(SEALED + 9 * HOUR),
        exported_by="ann",
    )
    lines = [bundle.serialize_line(line) for line in (head, *body)]
    lines.append(bundle.page(0, "", lines, KEY, last=True))
    return [fault.code for fault in verify(lines, checkpoints=outside).faults]


def test_a_vote_that_is_dated_back_is_not_by_a_key_that_counted_then() -> None:
    created = ("key.created created", SEALED - HOUR, {"key": "k", "caller": "mia"})
    revoked = ("key.revoked revoked", SEALED + HOUR, {"key": "k"})
    between = ("x", SEALED + 2 * HOUR, dict[str, str]())
    vote = {"by_key": "k", "approval_id": "a"}
    assert verified(created, ("approval.approved approved", SEALED + HOUR, vote), revoked) == []
    dated_back = ("approval.approved approved", SEALED + HOUR, vote)
    assert verified(created, revoked, between, dated_back) == ["key_unmade"]
    assert verified(created, revoked, between, dated_back, gone=(1, 2)) == ["key_unmade"], "its seals were deleted"
    assert verified(created, revoked, between, dated_back, gone=(1, 2), kept=False) == []


def test_who_was_left_behind_by_the_full_seal_that_a_bundle_begins_behind_is_not_accused() -> None:
    """A key that was used an hour before its entry found room in a seal had not expired when it was used."""
    made = ("key.created created", SEALED - 3 * HOUR, {"key": "k", "caller": "mia", "expires_at": str(SEALED - HOUR)})
    vote = ("approval.approved approved", SEALED - 2 * HOUR, {"by_key": "k", "approval_id": "a"})

    def told(*behind: tuple[int, datetime]) -> list[str]:
        return verified(made, vote, gone=[sum(size for size, _ in behind[-1:])], kept=False, behind=behind)

    size, at = full = (MAX_LEAVES_PER_SEAL, SEALED - HOUR / 6)
    assert told() == told(full) == told((1, SEALED - 4 * HOUR), (1 + size, at)) == []
    assert told((1, SEALED - 4 * HOUR), full) == ["key_unmade"], "that seal had room, so what it left out came later"
    assert told(full, (size, at + HOUR / 60)) == ["key_unmade"], "a second one at that size: nothing waited"


def test_a_checkpoint_from_outside_covers_what_a_seal_that_was_deleted_covered() -> None:
    applied, decided = (place(number, kind).entry for number, kind in ((9, APPLIED), (5, ALLOW)))
    for seals in ([], [1]):
        found: list[AuditFault] = []
        order = SealedOrder(found.append)
        order.on_begin(10)
        order.on_entry(10, 1, applied)
        for leaves in seals:
            order.on_checkpoint(None, 10 + leaves)
        order.on_entry(11, 2, decided)
        assert [fault.entry_id for fault in found] == [5] * len(seals)


def test_a_full_seal_that_was_also_kept_outside_still_leaves_out_what_was_written_before() -> None:
    order = SealedOrder(lambda _fault: None)
    old = replace(place(1, ALLOW).entry, at=write_time(SEALED - HOUR))
    order.on_checkpoint(SEALED, MAX_LEAVES_PER_SEAL)
    order.on_checkpoint(SEALED, MAX_LEAVES_PER_SEAL)
    assert order.on_entry(1, 1, old).at == old.at
    order.on_checkpoint(SEALED + HOUR, MAX_LEAVES_PER_SEAL)
    assert order.on_entry(2, 2, old).at == write_time(SEALED + HOUR - CLOCKS_DIFFER), "a second one: nothing waited"


def test_the_clocks_of_a_sealer_and_of_postgres_may_differ_by_no_more_than_verifiers_allow() -> None:
    assert timedelta(0) < CLOCKS_DIFFER - MAX_CLOCK_DIFFERENCE <= timedelta(minutes=1)
