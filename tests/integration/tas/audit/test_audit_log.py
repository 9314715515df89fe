"""The audit log in a real Postgres: sealing, exporting, erasing, retention, and what the service's role may not do."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
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
from tests.support.tas.audit_mutants import inside, outside
from tests.support.waiting import eventually

from towpath_audit.notes import Signer
from towpath_audit.verifier import verify
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.audit import ExportAudit, GetCheckpoint
from towpath_contracts.tools.erasures import DecideErasure, ListErasures, RequestErasure
from towpath_fabric.clock import wall
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.turns.task_end import end_tasks
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit import audit_export
from towpath_tas.app.audit.housekeeping import AuditRetention
from towpath_tas.app.audit.sealer import QUERIES, AuditLogMismatchError

CALLS = 100
MUTANTS = 5


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own."""
    async with audit_log(database(), database("tas")) as found:
        yield found


def codes(lines: list[str], **more: Any) -> list[str]:
    """What verifying finds, in order."""
    return [fault.code for fault in verify(lines, **more).faults]


async def test_a_bundle_holds_and_whoever_tampers_with_it_is_found_and_located(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, CALLS)
    monkeypatch.setattr(audit_export, "MAX_LEAVES", 100)  # several pieces of leaves, with borders to tamper across
    lines = await log.export()
    trusted = {"checkpoints": log.kept.notes, "keys": [log.notes.public.fingerprint]}
    report = verify(lines, **trusted)
    assert report.faults == []
    assert report.notes == []
    assert report.figures["leaves"] == 2 + 3 * CALLS
    assert report.figures["decisions"] == CALLS
    assert verify(lines).notes != [], "without a checkpoint and a key it says what it can't see"
    forger = Forger(lines, log.notes)
    assert verify(forger.lines(), **trusted).faults == [], "the forger's own work is not what gives him away"
    chance = random.Random(20261122)
    for _ in range(MUTANTS):
        for mutant in (outside(lines, chance), inside(forger, chance)):
            found = verify(mutant.lines, **trusted)
            assert mutant.found_by(found), (mutant.what, found.faults[:5])


async def test_an_effect_without_a_decision_is_found_also_where_everything_was_sealed(log: AuditLog) -> None:
    await fill(log, 20)
    run_id = new_run_id()
    lonely = always(call_entries(run_id, 0))[1:]
    await log.write(*lonely)
    lines = await log.export()
    found = verify(lines)
    assert [fault.code for fault in found.faults] == ["effect_without_decision"] * 2
    assert [json.loads(lines[fault.line - 1])["entry"]["phase"] for fault in found.faults if fault.line] == [
        "claim",
        "outcome",
    ]


async def test_a_call_of_the_ledger_without_a_decision_is_found(log: AuditLog) -> None:
    await fill(log, 10)
    execution_id = uuid4()
    columns = await log.owner(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'tas'"
        " AND table_name = 'tool_call' AND is_nullable = 'NO' AND column_default IS NULL"
    )
    kinds = {"text": "''", "uuid": "gen_random_uuid()", "integer": "0", "timestamp with time zone": "now()"}
    names = {row["column_name"]: kinds[row["data_type"]] for row in columns}
    names |= {"execution_id": "$1", "project": f"'{PROJECT}'", "status": "'succeeded'", "tool": "'orders.refund'"}
    await log.owner(
        f"INSERT INTO tas.tool_call ({', '.join(names)}) VALUES ({', '.join(names.values())})", execution_id
    )
    lines = await log.export()
    report = verify(lines)
    assert [fault.code for fault in report.faults] == ["effect_without_decision"]
    assert json.loads(lines[(report.faults[0].line or 0) - 1])["execution_id"] == str(execution_id)
    assert await log.export(until=wall() - timedelta(hours=1)) != [], "and not where another time is asked for"


async def test_a_decision_needs_a_policy_and_a_run_that_asked(log: AuditLog) -> None:
    await fill(log, 10)
    await log.write(*always(call_entries(new_run_id(), 0, version=7)))
    none = ["decision_without_policy", "decision_without_run_event"]
    assert sorted(codes(await log.export())) == none, "and nothing deletes a run but an erasure"
    rows = await log.owner("SELECT run_id FROM runs.run LIMIT 1")
    await log.write(*always(call_entries(rows[0]["run_id"], 999)))
    assert sorted(codes(await log.export())) == [*none, "decision_without_run_event"]


async def test_entries_that_commit_in_reverse_order_are_all_sealed(log: AuditLog) -> None:
    await fill(log, 10)
    async with log.pool.acquire() as one, log.pool.acquire() as two:
        slow, quick = one.transaction(), two.transaction()
        await slow.start()
        await one.execute(
            "SELECT tas.write_audit('{}', $1::tas.audit_new[])", [platform_audit_row(PROJECT, "a", "x", actor="")]
        )
        await quick.start()
        await two.execute(
            "SELECT tas.write_audit('{}', $1::tas.audit_new[])", [platform_audit_row(PROJECT, "b", "x", actor="")]
        )
        await quick.commit()
        first = await log.sealer.seal()
        await slow.commit()
        second = await log.sealer.seal()
    assert first is not None
    assert second is not None
    assert second.edge.size == first.edge.size + 1
    late = await log.owner("SELECT leaf_index, entry_id FROM tas.audit_leaf ORDER BY leaf_index DESC LIMIT 2")
    assert late[0]["entry_id"] < late[1]["entry_id"], "the lower id got the later leaf"
    lines = await log.export()
    assert codes(lines, checkpoints=[first.note, second.note]) == []
    assert {json.loads(line)["entry"]["phase"] for line in lines if '"kind":"leaf"' in line} >= {"a", "b"}


async def test_a_sealer_that_dies_in_the_middle_leaves_everything_to_the_next(log: AuditLog) -> None:
    await fill(log, 10)
    before = await log.sealer.current()
    run_id = new_run_id()
    await asked_by_a_run(log, run_id, 1)
    await log.write(*always(call_entries(run_id, 0)))
    async with log.pool.acquire() as dying:
        transaction = dying.transaction()
        await transaction.start()
        assert await dying.fetchval(QUERIES.try_seal_lock)
        assert len(await dying.fetch(QUERIES.take_leaves, 100)) == 3
        assert await log.another_sealer().seal() is None, "the other one waits for its turn"
        await log.owner("SELECT pg_terminate_backend($1)", await dying.fetchval("SELECT pg_backend_pid()"))
        with pytest.raises(DATABASE_DOWN):
            await transaction.commit()
    after = await log.another_sealer().current()
    assert after.edge.size == before.edge.size + 3
    assert codes(await log.export(), checkpoints=[before.note, after.note]) == []


async def test_two_sealers_at_once_make_one_log(log: AuditLog) -> None:
    await fill(log, 10)
    sealers = [log.another_sealer(), log.another_sealer()]
    notes: list[str] = []

    async def seal(number: int) -> None:
        for _ in range(12):
            sealed = await sealers[number].seal()
            notes.extend([] if sealed is None else [sealed.note])

    async def write() -> None:
        for number in range(40):
            await log.write(platform_audit_row(PROJECT, "noise", "x", actor=str(number)))

    await asyncio.gather(seal(0), seal(1), write(), write())
    lines = await log.export()
    assert codes(lines, checkpoints=notes) == []
    assert sum('"phase":"noise"' in line for line in lines) == 80
    assert sorted(sizes(notes, log.notes)) != []


async def test_the_loop_seals_what_comes_and_hands_checkpoints_out(log: AuditLog) -> None:
    sealer = log.another_sealer(every_s=0.01, publish_s=0, idle_s=0.05)
    running = asyncio.create_task(sealer.run())
    try:
        await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
        await eventually(lambda: len(found := sizes(log.kept.notes, log.notes)) >= 4 and found[-1] >= 2)
    finally:
        await end_tasks([running])
    found = sizes(log.kept.notes, log.notes)
    assert found == sorted(found), "and goes on signing that nothing came"
    assert codes(await log.export(), checkpoints=log.kept.notes) == []


async def test_erased_payloads_leave_every_proof_whole(log: AuditLog) -> None:
    await fill(log, 60)
    gone = await log.owner("SELECT DISTINCT execution_id FROM tas.audit_record WHERE execution_id IS NOT NULL LIMIT 6")
    for row in gone:
        assert await log.erase(execution_id=row["execution_id"]) == 3
    assert await log.erase(project="other", caller="cäller") == 0
    with pytest.raises(ProblemError, match="request_invalid"):
        await log.erase(reason="all of it")
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert report.faults == []
    assert report.figures["payloads_erased"] == 18
    shown = await log.owner("SELECT detail, args_digest FROM tas.audit_entry WHERE erased")
    assert {(row["detail"], row["args_digest"]) for row in shown} == {("{}", "")}
    await log.erase(reason="cover up", before=wall())
    assert codes(await log.export(), checkpoints=log.kept.notes) == [], "the log's own entries can't be erased"
    assert await log.owner("SELECT 1 FROM tas.audit_entry WHERE phase = 'audit.erased' AND NOT erased") != []


async def test_nothing_is_erased_before_another_person_confirms(log: AuditLog) -> None:
    await fill(log, 3)
    asked = await log.erasures.request(RequestErasure(project=PROJECT, actor="dana", reason="r", caller="cäller"))
    said = DecideErasure(project=PROJECT, erasure_id=asked.erasure_id, verdict="confirm", actor="dana")
    with pytest.raises(ProblemError, match="second_person_required"):
        await log.erasures.decide(said)
    with pytest.raises(asyncpg.RaiseError, match="nobody confirmed"):
        await log.pool.execute("SELECT tas.erase_payloads($1, 5000)", asked.erasure_id)
    with pytest.raises(ProblemError, match="erasure_not_found"):
        await log.erasures.decide(said.model_copy(update={"project": "bank", "actor": "eve"}))
    assert await log.owner("SELECT 1 FROM tas.audit_entry WHERE erased") == []
    withdrawn = await log.erasures.decide(said.model_copy(update={"verdict": "withdraw"}))
    assert (withdrawn.status, withdrawn.erased) == ("withdrawn", 0)
    with pytest.raises(ProblemError, match="erasure_settled"):
        await log.erasures.decide(said.model_copy(update={"actor": "eve"}))
    for _ in range(2):
        await log.erasures.request(RequestErasure(project=PROJECT, actor="dana", reason="r", caller="cäller"))
    first = await log.erasures.list(ListErasures(project=PROJECT, limit=1))
    rest = await log.erasures.list(ListErasures(project=PROJECT, before=first.next_before))
    assert [one.status for one in rest.erasures] == ["requested", "withdrawn"]
    phases = await log.owner(
        "SELECT phase, actor FROM tas.audit_record WHERE phase LIKE 'audit.erase%' ORDER BY entry_id"
    )
    words = ("requested", "withdrawn", "requested", "requested")
    assert [tuple(row) for row in phases] == [(f"audit.erase_{word}", "dana") for word in words]
    assert codes(await log.export(), checkpoints=log.kept.notes) == []


async def test_what_the_owner_of_the_database_changes_is_found(log: AuditLog) -> None:
    await fill(log, 20)
    changed = (
        await log.owner("SELECT entry_id FROM tas.audit_record WHERE phase = 'outcome' ORDER BY 1 LIMIT 4")
    ).copy()
    ids = [row["entry_id"] for row in changed]
    await log.owner("UPDATE tas.audit_record SET actor = 'nobody' WHERE entry_id = $1", ids[0])
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = $1", ids[1])
    await log.owner("UPDATE tas.audit_payload SET detail = '{}' WHERE entry_id = $1", ids[2])
    await log.owner("DELETE FROM tas.audit_record WHERE entry_id = $1", ids[3])
    found = {(fault.code, fault.entry_id) for fault in verify(await log.export(), checkpoints=log.kept.notes).faults}
    assert found == {
        ("entry_changed", ids[0]),
        ("payload_missing", ids[1]),
        ("payload_changed", ids[2]),
        ("entry_changed", None),
        ("effect_without_outcome", None),
    }
    await log.owner("DELETE FROM tas.audit_leaf WHERE leaf_index = 30")
    assert "leaf_missing" in codes(await log.export())
    await log.owner(
        "UPDATE tas.audit_seal SET size = size - 1 WHERE seal_id = (SELECT max(seal_id) FROM tas.audit_seal)"
    )
    with pytest.raises(AuditLogMismatchError):
        await log.sealer.seal()
    with pytest.raises(ProblemError, match="audit_broken"):
        await log.exports.checkpoint(GetCheckpoint())
    assert "leaf_missing" in codes(await log.export()), "what is left is exported as it stands"


async def test_old_segments_go_whole_and_the_rest_is_proved_as_before(log: AuditLog) -> None:
    await fill(log, 30)
    cut = await log.sealer.current()
    aged = await log.age(40)
    await fill(log, 20)
    retention = AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30)
    assert await retention.drop_old_segments() == cut.edge.size
    assert await retention.drop_old_segments() == 0
    lines = await log.export()
    report = verify(lines, checkpoints=[aged[cut.note], log.kept.notes[-1]])
    assert (report.faults, report.figures["first"]) == ([], cut.edge.size)
    forged = Forger(lines, log.notes)
    forged.body = [line for line in forged.body if line["kind"] != "leaf" or line["entry"]["phase"] != "audit.dropped"]
    assert "head_missing" in codes(forged.lines())
    assert await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=0).drop_old_segments() == 0
    left = await log.owner("SELECT count(*) AS n FROM tas.audit_payload")
    assert left[0]["n"] == report.figures["leaves"]


async def test_a_bundle_shows_one_project_and_one_time(log: AuditLog) -> None:
    await fill(log, 20)
    await log.write(platform_audit_row("bank", "secret", "x", actor="mia", detail={"iban": "DE00"}))
    since = wall()
    run_id = (await log.owner("SELECT run_id FROM runs.run LIMIT 1"))[0]["run_id"]
    await log.write(*always(call_entries(run_id, 21))[1:])
    whole = await log.export()
    assert not any("secret" in line or "DE00" in line for line in whole)
    assert verify(whole, checkpoints=log.kept.notes).figures["hidden"] == 1
    late = verify(await log.export(since=since), checkpoints=log.kept.notes[-1:])
    assert [fault.code for fault in late.faults] == ["effect_without_decision"] * 2, "nobody let it go before either"
    assert late.figures["leaves"] == 2
    early = verify(await log.export(until=since), checkpoints=log.kept.notes)
    assert early.faults == []
    assert early.figures["hidden"] == 3
    assert any("1 hidden leaves are proved to be of other projects, 2 are its own" in note for note in early.notes)
    other = verify(await log.export("bank"))
    assert (other.faults, other.figures["leaves"]) == ([], 2), "its entry, and the log's own about its key"


async def test_a_payload_that_is_too_large_for_a_message_is_withheld_and_marked_so(log: AuditLog) -> None:
    await fill(log, 10)
    await log.write(platform_audit_row(PROJECT, "large", "x", actor="", detail={"args": '"' * 400_000}))
    piece = await log.exports.export(ExportAudit(project=PROJECT, actor="ann"))
    assert len(piece.model_dump_json()) < 1_000_000
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert report.faults == []
    assert any("1 payloads are too large" in note for note in report.notes)


async def test_the_service_may_only_add_to_the_audit(log: AuditLog) -> None:
    await fill(log, 10)
    tables = ("audit_record", "audit_payload", "audit_leaf", "audit_seal", "audit_unsealed", "audit_key")
    statements = [
        *(f"DELETE FROM tas.{table}" for table in tables),
        *(f"TRUNCATE tas.{table}" for table in tables),
        "UPDATE tas.audit_record SET verdict = 'allow'",
        "UPDATE tas.audit_payload SET detail = ''",
        "UPDATE tas.audit_leaf SET hash = ''",
        "UPDATE tas.audit_seal SET root = ''",
        "INSERT INTO tas.audit_leaf VALUES (1000, 1, '')",
        "INSERT INTO tas.audit_payload VALUES (1000, '', '', '')",
        "INSERT INTO tas.audit_record (project) VALUES ('p')",
        "INSERT INTO tas.audit_unsealed VALUES (1)",
        "ALTER TABLE tas.audit_record DISABLE TRIGGER ALL",
        "DROP TABLE tas.audit_record",
        "SELECT tas.audit_own_note('p', 'audit.erased', 'x', '{}')",
        "SELECT * FROM runs.run_event",
    ]
    for statement in statements:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await log.pool.execute(statement)
    with pytest.raises(asyncpg.RaiseError, match="older than a day"):
        await log.pool.execute("SELECT tas.drop_segments(10, 'eve')")
    with pytest.raises(asyncpg.RaiseError, match="at most 5000"):
        await log.pool.execute("SELECT tas.erase_payloads($1, 5001)", uuid4())


async def test_a_replica_of_the_version_before_adds_entries_as_it_did(log: AuditLog) -> None:
    await fill(log, 10)
    await log.pool.execute(
        "INSERT INTO tas.audit_entry (project, run_id, execution_id, phase, verdict, tool, operation, network,"
        " agent_key, caller, actor, rule, policy_version, args_digest, detail) VALUES"
        " ($1, NULL, NULL, 'tool.offered', 'accepted', 't', '', '', '', '', 'w', NULL, 0, '', '{\"version\":1}')",
        PROJECT,
    )
    lines = await log.export()
    assert codes(lines) == []
    entry = json.loads(next(line for line in lines if "tool.offered" in line))
    assert (entry["entry"]["actor"], entry["payload"]["detail"]) == ("w", '{"version":1}')


async def test_a_checkpoint_covers_all_that_was_committed_and_names_its_key(log: AuditLog) -> None:
    await fill(log, 10)
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
    taken = await log.exports.checkpoint(GetCheckpoint())
    assert taken.size == 2 + 30 + 1
    assert (taken.public_key, taken.fingerprint) == (log.notes.public.text, log.notes.public.fingerprint)
    lines = await log.export()
    assert codes(lines, checkpoints=[taken.note], keys=[taken.public_key]) == []
    stranger = Signer("towpath.test/audit", _another_key())
    assert "key_unknown" in codes(lines, keys=[stranger.public.fingerprint])
    anew = Forger(lines, stranger)
    anew.header["keys"] = [stranger.public.text]
    assert codes(anew.lines(), checkpoints=[taken.note]) == ["outside_unreadable"], "a log signed anew by another key"


def _another_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()
