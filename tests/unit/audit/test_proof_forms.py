"""Proofs of other kinds than those that are made: they prove nothing, and stop nothing."""

import json
from typing import Any

import pytest
from tests.unit.audit.test_verifier import DEEP, GOOD, KEY

from towpath_audit.entries import AuditLogEntry
from towpath_audit.notes import Checkpoint
from towpath_audit.proof import ProvedEntry, is_proof, serialize_proof, verify_proof


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"keys": [], "checkpoint": 3, "entries": []}', "[" * 9_000, '{"keys": 3}', "\ud800"]
)
def test_what_is_no_proof_proves_nothing_and_stops_nothing(text: str) -> None:
    report = verify_proof(text, checkpoints=["x\n"])
    assert not report.holds
    json.dumps(report.as_json())


@pytest.mark.parametrize(
    "changes",
    [
        *({"leaf": leaf} for leaf in (True, "0", None, -1, 2**70, 1.5)),
        *({"path": path} for path in (None, [1], ["zz"], ["00"], "00", [DEEP])),
        *({"entry": entry} for entry in (None, [], {}, DEEP)),
        *({"payload": payload} for payload in ("x", {}, [], 3)),
    ],
)
def test_an_entry_of_another_kind_is_not_proved(changes: dict[str, Any]) -> None:
    parsed = json.loads(proof())
    parsed["entries"][0] |= changes
    assert [fault.code for fault in verify_proof(json.dumps(parsed)).faults] == ["entry_unproved"]


def proof(form: int = 2) -> str:
    """A proof of one entry, in a log of one leaf of this form."""
    entry = AuditLogEntry.read(next(json.loads(line)["entry"] for line in GOOD if '"kind":"leaf"' in line))
    note = KEY.note(Checkpoint(KEY.public.name, 1, entry.leaf_hash(form), None).text())
    text = serialize_proof(note, [KEY.public], [ProvedEntry(leaf=0, entry=entry, payload=None, path=())])
    assert is_proof(text)
    return text


def test_what_an_earlier_release_proved_is_verified_as_it_was() -> None:
    assert verify_proof(proof(1).replace("towpath-audit-proof/2", "towpath-audit-proof/1")).faults == []
    assert [fault.code for fault in verify_proof(proof(1)).faults] == ["entry_unproved"]


def test_what_is_proved_is_in_the_report() -> None:
    report = verify_proof(proof())
    (proved,) = report.figures["proved"]
    said = json.loads(proof())["entries"][0]
    assert (report.holds, proved) == (True, {"leaf": 0, **said["entry"], "detail": None})


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"entries": [', '"entries": [],\n  "entries": [', "twice"),
        ('"leaf": 0', '"leaf": 7, "leaf": 0', "twice"),
        ('"phase": ', '"phase": "approval.approved", "phase": ', "twice"),
        ('"entries": [', '"approved_by": "the board",\n  "entries": [', "and no others"),
    ],
)
def test_a_proof_that_readers_could_read_differently_is_refused(old: str, new: str, why: str) -> None:
    text = proof()
    assert old in text
    report = verify_proof(text.replace(old, new, 1))
    assert [fault.code for fault in report.faults] == ["unreadable"]
    assert why in report.faults[0].message


@pytest.mark.parametrize(
    "changes",
    [
        {"approved_by": "the board"},
        {"withheld": True, "changed": True},
        {"withheld": False},
        {"changed": "no"},
        {"withheld": True, "payload": {"salt": "00" * 16, "args_digest": "", "detail": "{}"}},
    ],
)
def test_an_entry_that_says_more_than_is_verified_is_not_proved(changes: dict[str, Any]) -> None:
    parsed = json.loads(proof())
    parsed["entries"][0] |= changes
    report = verify_proof(json.dumps(parsed))
    assert ([fault.code for fault in report.faults], report.figures["proved"]) == (["entry_unproved"], [])


def test_a_proof_of_nothing_and_one_that_says_an_entry_twice_are_refused() -> None:
    parsed = json.loads(proof())
    for entries in ([], None, {}, "x"):
        report = verify_proof(json.dumps({**parsed, "entries": entries}))
        assert [fault.code for fault in report.faults] == ["unreadable"]
    report = verify_proof(json.dumps({**parsed, "entries": parsed["entries"] * 2}))
    assert [fault.code for fault in report.faults] == ["entry_unproved"]


def test_half_a_character_in_a_checkpoint_or_a_key_proves_nothing_and_stops_nothing() -> None:
    parsed = json.loads(proof())
    key = KEY.public.text
    for changes in ({"checkpoint": f"\ud800{parsed['checkpoint']}"}, {"keys": [f"\ud800{key}"]}):
        assert not verify_proof(json.dumps(parsed | changes)).holds
        assert not verify_proof(json.dumps(parsed | changes), keys=[key]).holds
    assert not verify_proof(proof(), checkpoints=[f"\ud800{parsed['checkpoint']}"]).holds
