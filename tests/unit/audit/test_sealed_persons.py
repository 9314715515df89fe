"""What a table says of a tool that waits for a person needs an entry; so does a key's revocation, a minute later."""

import json
from typing import Any

import pytest

from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_persons import EntryPlace, SealedPersons

EXPORTED = "2026-11-22T12:00:00.000000Z"
HOUR_BEFORE = "2026-11-22T11:00:00.000000Z"
JUST_BEFORE = "2026-11-22T11:59:30.000000Z"
YEAR_AFTER = "2027-11-22T11:59:30.000000Z"
ACCEPTED = {"status": "accepted", "decided_by": "mia"}


def add(persons: SealedPersons, phase: str, found: Any = None, *, at: str = HOUR_BEFORE, **detail: Any) -> None:
    """Add an entry of *phase* with these details as the next one."""
    number = add.__dict__["count"] = add.__dict__.get("count", 0) + 1
    entry = AuditLogEntry(
        entry_id=number,
        at=at,
        **dict.fromkeys(("project", "tool", "operation", "network", "agent_key", "caller"), "x"),
        run_id=None,
        execution_id=None,
        phase=phase,
        verdict=phase.partition(".")[2],
        actor="mia",
        rule=None,
        policy_version=1,
        commitment="",
    )
    payload = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(detail))
    persons.on_entry(EntryPlace(entry, number, number), payload, found)


@pytest.mark.parametrize(
    ("found", "decided", "faults"),
    [
        ({"status": "pending", "decided_at": None}, None, []),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": None}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": YEAR_AFTER}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": JUST_BEFORE}, None, []),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, 2, []),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, 3, ["stored_changed"]),
    ],
)
def test_a_tool_that_waited_is_accepted_by_an_entry_about_that_version(
    found: Any, decided: int | None, faults: list[str]
) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "tool.proposed", found, version=2)
    if decided is not None:
        add(persons, "tool.accepted", version=decided)
    assert [fault.code for fault in persons.finish()] == faults


def test_in_a_bundle_that_ends_earlier_the_entry_may_come_later() -> None:
    persons = SealedPersons(exported_at=EXPORTED, until_end=False)
    add(persons, "tool.proposed", {**ACCEPTED, "decided_at": HOUR_BEFORE}, version=2)
    assert list(persons.finish()) == []


@pytest.mark.parametrize(
    ("caller", "revoked", "faults"),
    [
        ("mia", None, 0),
        ("noa", None, 1),
        ("mia", "2026-11-22T10:59:30.000000Z", 0),
        ("mia", "2026-11-22T10:00:00.000000Z", 1),
    ],
)
def test_whoever_votes_has_a_key_that_counts(caller: str, revoked: str | None, faults: int) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", key="k", caller=caller)
    if revoked is not None:
        add(persons, "key.revoked", at=revoked, key="k")
    add(persons, "approval.approved", by_key="k")
    assert [fault.code for fault in persons.finish()] == ["key_unmade"] * faults


def test_keys_from_before_a_bundle_are_counted_only() -> None:
    persons = SealedPersons(exported_at=EXPORTED, partial=True)
    add(persons, "approval.approved", by_key="k")
    assert list(persons.finish()) == []
    assert persons.unseen_keys == 1
