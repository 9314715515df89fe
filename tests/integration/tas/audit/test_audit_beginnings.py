"""What hands in the tables try with large payloads and with the log's beginning, in a real Postgres: a bundle tells."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import NO_RULES, PROJECT, AuditLog, Forger, always, audit_log, call_entries, fill

from towpath_audit.notes import Checkpoint, open_note
from towpath_audit.proof import verify_proof
from towpath_audit.report import AuditReport
from towpath_audit.verifier import verify
from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.audit import ProveRun
from towpath_contracts.tools.erasures import RequestErasure
from towpath_fabric.clock import wall
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.housekeeping import AuditRetention
from towpath_tas.app.audit.sealer import StoredCheckpoint

JUNK = "UPDATE tas.audit_payload SET detail = repeat('x', 300001) WHERE entry_id = ANY ($1)"
OLD_SEAL = (
    "INSERT INTO tas.audit_seal (seal_id, size, root, edge, at, note) SELECT seal_id + 1, size, root, edge,"
    " now() - interval '2 days', note FROM tas.audit_seal ORDER BY seal_id DESC LIMIT 1"
)
NOTE = "SELECT tas.write_audit('{}', ARRAY[tas.audit_own_note($1, $2, $3, $4)])"


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own, with ten calls."""
    async with audit_log(database(), database("tas")) as found:
        await fill(found, 10)
        yield found


def trusting(log: AuditLog, lines: list[str]) -> AuditReport:
    return verify(lines, checkpoints=log.kept.notes, keys=[log.notes.public.text])


def codes(log: AuditLog, lines: list[str]) -> list[str]:
    """What verifying with the kept checkpoints finds, in order."""
    return [fault.code for fault in trusting(log, lines).faults]


async def entries(log: AuditLog, phases: tuple[str, ...]) -> list[int]:
    rows = await log.owner(
        "SELECT entry_id FROM tas.audit_record WHERE phase = ANY ($1) ORDER BY entry_id", list(phases)
    )
    return [row["entry_id"] for row in rows]


@pytest.mark.parametrize("phases", [("decision", "claim", "outcome"), ("policy.applied",)])
async def test_a_payload_that_is_swapped_for_a_large_one_is_a_fault_at_its_leaf(
    log: AuditLog, phases: tuple[str, ...]
) -> None:
    ids = await entries(log, phases)
    await log.owner(JUNK, ids)
    args = '{"ids":["666"]}'
    await log.owner("UPDATE tas.tool_call SET args = $1, args_digest = $2", args, digest_text(args))
    await log.owner("UPDATE tas.policy_version SET text = text || '#evil'")
    report = trusting(log, await log.export())
    assert {one.entry_id for one in report.faults if one.code == "payload_changed"} == set(ids)
    assert all(one.leaf is not None for one in report.faults)


async def test_a_proof_tells_of_a_payload_that_was_swapped_for_a_large_one(log: AuditLog) -> None:
    (row, *_) = await log.owner("SELECT run_id, entry_id FROM tas.audit_record WHERE phase = 'outcome' LIMIT 1")
    await log.owner(JUNK, [row["entry_id"]])
    made = await AuditProofs(log.pool, log.sealer).prove(ProveRun(project=PROJECT, run_id=row["run_id"]))
    report = verify_proof(made.proof, checkpoints=log.kept.notes, keys=[log.notes.public.text])
    assert [(one.code, one.entry_id) for one in report.faults] == [("payload_changed", row["entry_id"])]


async def test_what_an_honest_large_payload_recorded_is_still_compared(log: AuditLog) -> None:
    """A policy of two million characters has a difference to the one before that no message takes."""
    text = "kind: Policy # 2"
    await log.owner(
        "INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, rules_digest)"
        " VALUES ($1, 2, $2, $3, 0, '', '', 'ann', $4)",
        *(PROJECT, digest_text(text), text, NO_RULES),
    )
    said = {"digest": digest_text(text), "source": "", "note": "", "added": ["a rule"] * 40_000}
    run_id = (await log.owner("SELECT run_id FROM runs.run LIMIT 1"))[0]["run_id"]
    rows = always(call_entries(run_id, 20))
    detail = json.dumps({**json.loads(rows[2][-1]), "text": "x" * 400_000})
    await log.write(rows[0], rows[1], (*rows[2][:-1], detail))
    await log.write(platform_audit_row(PROJECT, "policy.applied", "applied", actor="ann", version=2, detail=said))
    report = trusting(log, await log.export())
    assert (report.faults, any("2 payloads are too large" in note for note in report.notes)) == ([], True)
    await log.owner("UPDATE tas.policy_version SET text = text || '#evil' WHERE version = 2")
    await log.owner("UPDATE tas.tool_call SET fact = '{}' WHERE execution_id = $1", rows[2][3])
    report = trusting(log, await log.export())
    assert [fault.code for fault in report.faults] == ["stored_changed"] * 2


async def test_the_service_drops_nothing_that_is_younger_than_a_day_whatever_a_seal_says(log: AuditLog) -> None:
    await log.pool.execute(OLD_SEAL)
    cut = (await log.sealer.current()).edge.size
    with pytest.raises(asyncpg.RaiseError, match="are not older than a day"):
        await log.pool.execute("SELECT tas.drop_segments($1, 'tas')", cut)
    await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=0).drop_old_segments()
    assert codes(log, await log.export()) == []


async def test_the_service_takes_no_checkpoint_away_but_those_of_what_it_drops(log: AuditLog) -> None:
    """Whoever has its login may add a seal that is later than all, and says that it is old and of nothing."""
    kept = "SELECT seal_id, note FROM tas.audit_seal WHERE seal_id < 1000000 ORDER BY seal_id"
    before = await log.owner(kept)
    await log.pool.execute(
        "INSERT INTO tas.audit_seal (seal_id, size, root, edge, at, note)"
        " VALUES (1000000, 0, '', '', now() - interval '2 days', 'x')"
    )
    await log.pool.execute("SELECT tas.drop_segments(0, 'eve')")
    assert await log.owner(kept) == before != []
    await log.owner("DELETE FROM tas.audit_seal WHERE seal_id = 1000000")


async def cut_beginning(log: AuditLog) -> StoredCheckpoint:
    """Delete the beginning of the log, up to a checkpoint, as the owner of the database; what is kept covers it."""
    cut = await log.sealer.current()
    before = "entry_id IN (SELECT entry_id FROM tas.audit_leaf WHERE leaf_index < $1)"
    for table in ("audit_payload", "audit_record", "audit_leaf"):
        await log.owner(f"DELETE FROM tas.{table} WHERE {before}", cut.edge.size)
    await log.owner("DELETE FROM tas.audit_seal WHERE seal_id < $1", cut.seal_id)
    await log.owner("UPDATE tas.tool_call SET created_at = now() - interval '40 days'")
    log.kept.notes.pop()  # of the cut itself: the others are of what was before
    return cut


def dropped_detail(cut: StoredCheckpoint) -> str:
    """What an honest entry of retention says."""
    return json.dumps({"from": 0, "to": cut.edge.size, "edge": [one.hex() for one in cut.edge.hashes]})


async def test_a_beginning_that_was_deleted_is_missing_in_a_bundle_from_any_time(log: AuditLog) -> None:
    await cut_beginning(log)
    await fill(log, 3)
    for asked in ({}, {"since": wall() - timedelta(days=30)}):
        report = trusting(log, await log.export(**asked))
        assert [(one.code, one.leaf) for one in report.faults if one.code == "head_missing"] == [("head_missing", 0)]


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(days=2)])
async def test_an_entry_of_retention_excuses_no_leaves_that_were_younger_than_a_day(
    log: AuditLog, ahead: timedelta
) -> None:
    """Whoever owns the database writes the entry that retention would write, also with a later time."""
    cut = await cut_beginning(log)
    await log.owner(NOTE, "", "audit.dropped", "tas", dropped_detail(cut))
    await log.owner("UPDATE tas.audit_record SET at = at + $1 WHERE phase = 'audit.dropped'", ahead)
    await fill(log, 3)
    for asked in ({}, {"since": wall() - timedelta(days=30)}):
        assert {"drop_untrue", "head_missing"} <= set(codes(log, await log.export(**asked)))
    later = (await log.sealer.current(fresh=True)).at + timedelta(microseconds=1)
    assert codes(log, await log.export(since=later))[:1] == ["drop_untrue"], "and from a time after that"


async def test_a_bundle_begins_where_the_signed_time_is_before_the_one_asked_for(log: AuditLog) -> None:
    await log.sealer.current(fresh=True)
    since = wall()
    await log.write(platform_audit_row(PROJECT, "secret", "x", actor="mia"))
    cut = await log.sealer.current()
    await fill(log, 3)
    honest = await log.export(since=since)
    assert codes(log, honest) == []
    await log.owner(
        "UPDATE tas.audit_seal SET at = $1::timestamptz - (1000 - seal_id) * interval '1 microsecond'"
        " WHERE size <= $2 AND at >= $1",
        *(since, cut.edge.size),
    )
    lines = await log.export(since=since)
    assert codes(log, lines) == []
    assert any("secret" in line for line in lines)
    forged = Forger(await log.export(since=cut.at + timedelta(seconds=1)), log.notes)
    forged.header["since"] = json.loads(honest[0])["since"]
    assert "head_missing" in codes(log, forged.lines())


async def test_a_kept_checkpoint_of_a_time_that_a_bundle_shows_is_not_from_before_it(log: AuditLog) -> None:
    await fill(log, 10)
    lines = await log.export(since=wall())
    assert codes(log, lines) == []
    forged = Forger(lines, log.notes)
    forged.header["since"] = "2026-01-01T00:00:00.000000Z"
    for names in ((), ("begins", "kept")):
        for name in names:
            del forged.header[name]
        assert "head_missing" in codes(log, forged.lines()), "also in a bundle of an earlier release"


async def test_bundles_of_releases_that_did_not_show_when_they_begin_are_verified_as_they_were(log: AuditLog) -> None:
    await log.age(40)
    await fill(log, 3)
    now = wall()
    await fill(log, 3)
    whole = await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments()
    for asked in ({}, {"since": now}, {"since": now - timedelta(days=50)}):
        lines = await log.export(**asked)
        assert (codes(log, lines), whole > 0) == ([], True)
        older = Forger(lines, log.notes)
        for name in ("begins", "kept"):
            del older.header[name]
        assert codes(log, older.lines()) == []


async def test_a_forged_entry_of_retention_turns_no_missing_payload_into_a_remark(log: AuditLog) -> None:
    ids = (await entries(log, ("outcome",)))[:3]
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = ANY ($1)", ids)
    said = {"entries": ids, "reason": "", "erasure_id": str(uuid4()), "kind": "run"}
    await log.owner(NOTE, PROJECT, "audit.erased", "", json.dumps(said))
    for forged in ({}, {"from": 0, "to": 0}, {"from": 0, "to": 5, "edge": ["00" * 32] * 2}):
        await log.owner(NOTE, "", "audit.dropped", "tas", json.dumps(forged))
    found = codes(log, await log.export())
    assert sorted(found) == ["drop_untrue"] * 3 + ["payload_missing"] * 3


async def test_no_erasure_reaches_into_the_future(log: AuditLog) -> None:
    now: datetime = (await log.owner("SELECT clock_timestamp() AS now"))[0]["now"]
    asked = RequestErasure(project=PROJECT, actor="dana", reason="r", before=now + timedelta(hours=1))
    with pytest.raises(ProblemError, match="request_invalid"):
        await log.erasures.request(asked)
    assert (await log.erasures.request(asked.model_copy(update={"before": now}))).status == "requested"


async def test_the_header_shows_the_checkpoint_that_a_bundle_begins_with(log: AuditLog) -> None:
    sealed = await log.sealer.current()
    header: dict[str, Any] = json.loads((await log.export(since=wall()))[0])
    found = Checkpoint.read(open_note(header["begins"], [log.notes.public])[0])
    assert (found.size, found.root, header["first"]) == (sealed.edge.size, sealed.edge.root, sealed.edge.size)
    assert header["kept"] is None, "retention dropped nothing"


async def test_where_retention_dropped_a_part_a_made_up_erasure_of_a_run_hides_nothing_of_today(log: AuditLog) -> None:
    await log.age(400)
    await fill(log, 10)
    assert await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=365).drop_old_segments() > 0
    ids = (await entries(log, ("outcome",)))[:3]
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = ANY ($1)", ids)
    said = {"entries": ids, "reason": "", "erasure_id": str(uuid4()), "kind": "run"}
    await log.owner(NOTE, PROJECT, "audit.erased", "", json.dumps(said))
    await log.owner("UPDATE tas.audit_record SET at = at - interval '399 days' WHERE phase = 'audit.erased'")
    assert codes(log, await log.export()) == ["payload_missing"] * 3, "also with a time of long ago"


async def test_an_entry_of_retention_that_is_swapped_for_a_large_one_stops_no_export(log: AuditLog) -> None:
    await log.age(40)
    await fill(log, 3)
    await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments()
    await log.sealer.current(fresh=True)
    since = wall()
    (entry_id,) = await entries(log, ("audit.dropped",))
    await log.owner("UPDATE tas.audit_payload SET detail = repeat('x', 3000000) WHERE entry_id = $1", entry_id)
    await fill(log, 3)
    lines = await log.export(since=since)
    assert max(map(len, lines)) < 300_000
    assert "payload_changed" in codes(log, await log.export())
