"""What a person reads of a proof, without anything that a terminal would obey; checkpoints that were kept in files."""

import json
from pathlib import Path

import pytest
from tests.support.tas.audit_log import signer

from towpath.cli import main
from towpath.cli.access.audit_bundle_commands import _show_proof
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.text import plain_yaml
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.notes import Checkpoint
from towpath_audit.proof import ProvedEntry, serialize_proof, verify_proof

KEY = signer()
PAYLOAD = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps({"reason": "fine\u202e\x1b[2J"}))
ENTRY = AuditLogEntry(
    entry_id=7,
    at="2026-11-22T09:00:00.000000Z",
    project="p",
    run_id="0192f3a0-0000-7000-8000-000000000001",
    execution_id=None,
    phase="approval.approved",
    verdict="approved",
    tool="desk.refund",
    operation="",
    network="",
    agent_key="",
    caller="shop",
    actor="mia\x1b[31m\nnoa",
    rule=None,
    policy_version=1,
    commitment=PAYLOAD.commitment(),
)


def shown(payload: ErasablePayload | None, capsys: pytest.CaptureFixture[str]) -> str:
    note = KEY.note(Checkpoint(KEY.public.name, 1, ENTRY.leaf_hash(), None).text())
    text = serialize_proof(note, [KEY.public], [ProvedEntry(leaf=0, entry=ENTRY, payload=payload, path=())])
    report = verify_proof(text)
    assert report.faults == []
    _show_proof(OutputPrinter("table"), report.as_json())
    return capsys.readouterr().out


def test_the_proved_entries_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(PAYLOAD, capsys)
    (line,) = [line for line in out.splitlines() if "desk.refund" in line]
    for said in ("approval.approved approved", "shop", "mia noa", '"reason": "fine', ENTRY.at, str(ENTRY.run_id)):
        assert said in line
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_payload_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "(erased or left out)" in shown(None, capsys)


NOTE = KEY.note(Checkpoint(KEY.public.name, 1, ENTRY.leaf_hash(), None).text())
FIELDS = {"size": 1, "at": None, "note": NOTE, "fingerprint": "sha256:00"}
TAKEN = json.dumps(FIELDS, indent=2)
YAML = plain_yaml(FIELDS)


@pytest.mark.parametrize(
    "kept",
    [
        *(NOTE, f"{NOTE}\n{NOTE}", f"{TAKEN}\n", f"{TAKEN}\n{TAKEN}\n", f"{json.dumps({'note': NOTE})}\n"),
        *(YAML, f"\n{YAML}{YAML}", f"---\n{YAML}---\n{YAML}", plain_yaml({"note": NOTE}) * 2),
    ],
)
def test_a_checkpoint_is_kept_by_writing_what_the_command_says_into_a_file(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, file = tmp_path / "proof.json", tmp_path / "kept.txt"
    proof.write_text(serialize_proof(NOTE, [KEY.public], [ProvedEntry(leaf=0, entry=ENTRY, payload=PAYLOAD, path=())]))
    file.write_text(kept, "utf-8")
    assert main(["audit", "verify", str(proof), "--checkpoint", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["faults"] == []


@pytest.mark.parametrize("kept", ["", "\n\n", "{}", '{"note": 7}', '{"note": ', "note: 7\n", "note: [\n"])
def test_a_file_without_a_checkpoint_is_refused_with_how_one_is_kept(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.txt"
    file.write_text(kept, "utf-8")
    assert main(["audit", "verify", str(tmp_path / "proof.json"), "--checkpoint", str(file)]) == 2
    said = capsys.readouterr().err
    assert "kept.txt holds no checkpoint" in said
    assert "towpath audit checkpoint --file FILE" in said
