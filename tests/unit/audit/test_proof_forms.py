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
    entry = AuditLogEntry.read(next(json.loads(line)["entry"] for line in GOOD if '"kind":"leaf"' in line))
    note = KEY.note(Checkpoint(KEY.public.name, 1, entry.leaf_hash(), None).text())
    text = serialize_proof(note, [KEY.public], [ProvedEntry(leaf=0, entry=entry, payload=None, path=())])
    assert verify_proof(text).holds and is_proof(text)
    parsed = json.loads(text)
    parsed["entries"][0] |= changes
    assert [fault.code for fault in verify_proof(json.dumps(parsed)).faults] == ["entry_unproved"]
