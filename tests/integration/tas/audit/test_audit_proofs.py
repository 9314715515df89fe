"""Proofs in a real Postgres: of what was decided before a bundle, and of single entries without the rest of the log."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import (
    PROJECT,
    AuditLog,
    Forger,
    always,
    asked_by_a_run,
    audit_log,
    call_entries,
    fill,
    sizes,
)

from towpath_audit.proof import verify_proof
from towpath_audit.verifier import verify
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.audit import ProveRun
from towpath_fabric.clock import wall
from towpath_fabric.ids import new_run_id
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit import tree_paths
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.export_piece import MAX_PAYLOAD_BYTES
from towpath_tas.app.audit.housekeeping import AuditRetention


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own."""
    async with audit_log(database(), database("tas")) as found:
        yield found


def codes(lines: list[str], **more: Any) -> list[str]:
    """What verifying finds, in order."""
    return [fault.code for fault in verify(lines, **more).faults]


async def test_what_was_decided_before_a_bundle_is_shown_and_proved_in_it(log: AuditLog) -> None:
    """Only where the log says that retention dropped what was before is a missing decision a remark."""
    await fill(log, 30)
    run_id = new_run_id()
    await asked_by_a_run(log, run_id, 2)
    calls = [always(call_entries(run_id, n)) for n in range(2)]
    await log.write(calls[0][0])
    before = await log.sealer.current()
    since = wall()
    await log.write(*calls[0][1:])
    bundle = await log.export(since=since)
    trusted = {"checkpoints": [before.note], "keys": [log.notes.public.fingerprint]}
    assert verify(bundle, **trusted).faults == []
    forged = Forger(bundle, log.notes)
    places = [n for n, line in enumerate(forged.body) if line["kind"] == "earlier"]
    (place,) = [n for n in places if forged.body[n]["entry"]["phase"] == "decision"]
    hidden = forged.copy()
    del hidden.body[place]
    assert codes(hidden.lines(), **trusted) == ["effect_without_decision"] * 2
    for field, value in (("leaf", 0), ("proof", []), ("proof", [before.edge.root.hex()])):
        torn = forged.copy()
        torn.body[place][field] = value
        assert codes(torn.lines(), **trusted) == ["earlier_unproved", *["effect_without_decision"] * 2]
    await log.write(calls[1][0])
    cut = await log.sealer.current()
    aged = await log.age(40)
    trusted["checkpoints"] = [aged[before.note]]
    await log.write(calls[1][1])
    assert (
        await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments()
        == cut.edge.size
    )
    late = (await log.sealer.current()).at
    await log.write(*calls[1][2:])
    for asked in ({}, {"since": late}):
        report = verify(await log.export(**asked), **trusted)
        assert report.faults == []
        assert any("retention dropped" in note for note in report.notes), asked


async def test_an_entry_is_proved_without_the_rest_of_the_log(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(log, 90)
    (row, *_) = await log.owner("SELECT run_id, execution_id FROM tas.audit_record WHERE phase = 'claim' LIMIT 1")
    proving, key = AuditProofs(log.pool, log.sealer), log.notes.public.fingerprint
    asked = {"project": PROJECT, "run_id": row["run_id"]}
    made = await proving.prove(ProveRun(**asked, execution_id=row["execution_id"]))
    assert made.entries == 3
    report = verify_proof(made.proof, checkpoints=log.kept.notes, keys=[key])
    assert (report.faults, report.notes, report.figures["entries"]) == ([], [], 3)
    (applied, *_) = await log.owner("SELECT entry_id, project FROM tas.audit_record WHERE run_id IS NULL LIMIT 1")
    one = ProveRun(project=applied["project"], entry_id=applied["entry_id"])
    alone = await proving.prove(one)
    report = verify_proof(alone.proof, checkpoints=log.kept.notes, keys=[key])
    assert (report.faults, [entry["entry_id"] for entry in report.figures["proved"]]) == ([], [applied["entry_id"]])
    with pytest.raises(ProblemError, match="no entry"):
        await proving.prove(one.model_copy(update={"project": "bank"}))
    with pytest.raises(ProblemError, match="no entry"):
        await proving.prove(ProveRun(project=PROJECT, entry_id=2**62))
    monkeypatch.setattr(tree_paths, "BLOCK_LEAVES", 4)  # so that a small log is read as a large one is
    for size in sizes(log.kept.notes, log.notes):
        made = await proving.prove(ProveRun(**asked, size=size))
        assert verify_proof(made.proof, checkpoints=log.kept.notes, keys=[key]).faults == []
    parsed = json.loads(made.proof)
    parsed["entries"][1]["entry"]["verdict"] = "refused"
    assert [one.code for one in verify_proof(json.dumps(parsed)).faults] == ["entry_unproved"]
    parsed["entries"].pop(1)
    parsed["entries"][0]["payload"]["detail"] = '{"amount": 1}'
    assert [one.code for one in verify_proof(json.dumps(parsed)).faults] == ["payload_changed"]
    assert any("no checkpoint from outside" in note for note in verify_proof(made.proof).notes)
    assert [one.code for one in verify_proof(made.proof, keys=["sha256:00"]).faults] == ["checkpoint_signature"]
    with pytest.raises(ProblemError, match="no entry"):
        await proving.prove(ProveRun(project="bank", run_id=row["run_id"]))
    cut = sizes(log.kept.notes, log.notes)[1]
    await log.age(40, size=cut)
    assert await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments() == cut
    (kept, *_) = await log.owner("SELECT run_id FROM tas.audit_record WHERE run_id IS NOT NULL LIMIT 1")
    made = await proving.prove(ProveRun(project=PROJECT, run_id=kept["run_id"]))
    assert verify_proof(made.proof, keys=[key]).faults == []


@pytest.mark.parametrize("sign", ['"', "\\", "é", "\U0001f600"])
async def test_a_payload_that_fits_a_message_only_as_it_is_stored_stops_no_export(log: AuditLog, sign: str) -> None:
    """What a call's arguments are called is written by a model, and stands in the decision about it."""
    await fill(log, 10)
    (run,) = await log.owner("SELECT run_id FROM runs.run LIMIT 1")
    names = {sign * length: "unknown" for length in range(2_000, 2_020)}
    for count in (5, 10, 15, 20):
        detail = {"origin": {"args": dict(list(names.items())[:count])}}
        row = platform_audit_row(PROJECT, "wide", "x", actor="", run_id=run["run_id"], detail=detail)
        await log.write(row)
    lines = await log.export()
    assert max(len(json.dumps(line)) for line in lines) < MAX_PAYLOAD_BYTES + 10_000
    assert verify(lines, checkpoints=log.kept.notes).faults == []
    made = await AuditProofs(log.pool, log.sealer).prove(ProveRun(project=PROJECT, run_id=run["run_id"]))
    assert len(made.model_dump_json()) < 1_000_000
    assert verify_proof(made.proof).faults == []
