"""Erasures in a real Postgres: what the log holds of them, and what whoever owns the database can't hide with them."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import PROJECT, AuditLog, audit_log, fill

from towpath_audit.verifier import verify
from towpath_contracts.tools.erasures import DecideErasure, RequestErasure
from towpath_fabric.clock import wall
from towpath_fabric.ids import new_run_id

FORGED = (
    "INSERT INTO tas.erasure (erasure_id, project, caller, reason, status, requested_by, requested_at, alone_from,"
    " decided_by, decided_at) VALUES ($1, $2, 'cäller', 'r', 'confirmed', 'dana', now(), now(), 'eve', now())"
)
SAY_ERASED = (
    "SELECT tas.write_audit('{}', ARRAY[tas.audit_own_note($1, 'audit.erased', 'eve', json_build_object("
    "'entries', ARRAY[$2::bigint], 'erasure_id', $3::uuid, 'reason', 'r', 'requested_by', 'dana')::text)])"
)


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own."""
    async with audit_log(database(), database("tas")) as found:
        yield found


async def test_a_confirmed_erasure_is_finished_after_an_interruption(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, 3)
    erasure_id = await confirmed_and_interrupted(log, monkeypatch)
    assert await log.pool.fetchval("SELECT tas.erase_payloads($1, 2)", erasure_id) == 2
    await log.erasures.finish()
    (row,) = await log.owner("SELECT status, erased FROM tas.erasure")
    assert tuple(row) == ("done", 9)
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert (report.faults, report.figures["payloads_erased"]) == ([], 9)


async def test_what_was_written_after_the_request_stays(log: AuditLog) -> None:
    await fill(log, 3)
    asked = RequestErasure(project=PROJECT, actor="dana", reason="ahead of the deed", caller="cäller")
    erasure = await log.erasures.request(asked)
    await fill(log, 2)
    payloads = "SELECT r.entry_id FROM tas.audit_record r JOIN tas.audit_payload p USING (entry_id) WHERE "
    erasable = "r.phase NOT LIKE ALL (ARRAY['audit.%', 'key.%', 'policy.%'])"
    later = await log.owner(f"{payloads} {erasable} AND r.at >= $1", erasure.requested_at)
    confirmed = DecideErasure(project=PROJECT, erasure_id=erasure.erasure_id, verdict="confirm", actor="eve")
    assert (await log.erasures.decide(confirmed)).status == "done"
    left = await log.owner(f"{payloads} {erasable}")
    assert {row[0] for row in left} == {row[0] for row in later} != set()
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert report.faults == []


async def test_a_payload_that_is_taken_beside_the_log_is_found_also_with_a_forged_row(log: AuditLog) -> None:
    await fill(log, 20)
    first, second, third = await outcomes(log, 3)
    forged = new_run_id()
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = $1", first)
    await log.owner(FORGED, forged, PROJECT)
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = $1", second)
    await log.owner(SAY_ERASED, PROJECT, second, forged)
    real = await log.erase(execution_id=(await call_of(log, third)))
    assert real == 3
    (erasure,) = await log.owner("SELECT erasure_id FROM tas.erasure WHERE status = 'done'")
    another = (await outcomes(log, 4))[3]
    await log.owner("DELETE FROM tas.audit_payload WHERE entry_id = $1", another)
    await log.owner(SAY_ERASED, PROJECT, another, erasure["erasure_id"])
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert {(fault.code, fault.entry_id) for fault in report.faults} == {
        ("payload_missing", first),
        ("payload_missing", second),
        ("payload_missing", another),
    }
    assert all(fault.leaf is not None for fault in report.faults)
    assert report.figures["payloads_erased"] == 3


async def test_a_forged_row_is_not_carried_out(log: AuditLog) -> None:
    await fill(log, 3)
    await log.owner(FORGED, new_run_id(), PROJECT)
    (row,) = await log.owner("SELECT erasure_id FROM tas.erasure")
    with pytest.raises(asyncpg.RaiseError, match="the log holds no request and confirmation"):
        await log.pool.execute("SELECT tas.erase_payloads($1, 5000)", row["erasure_id"])
    await log.erasures.finish()
    assert await log.owner("SELECT 1 FROM tas.audit_entry WHERE erased") == []


@pytest.mark.parametrize(
    "change",
    [
        "caller = 'another'",
        "caller = NULL",
        "before = now()",
        "run_id = gen_random_uuid()",
        "execution_id = gen_random_uuid()",
    ],
)
async def test_a_row_that_names_more_than_was_confirmed_is_not_carried_out(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    await fill(log, 3)
    erasure_id = await confirmed_and_interrupted(log, monkeypatch)
    await log.owner(f"UPDATE tas.erasure SET {change}")
    with pytest.raises(asyncpg.RaiseError, match="no request and confirmation"):
        await log.pool.fetchval("SELECT tas.erase_payloads($1, 2)", erasure_id)


async def test_a_row_that_is_deleted_takes_nothing_from_what_the_log_says(log: AuditLog) -> None:
    await fill(log, 3)
    assert await log.erase(caller="cäller") == 9
    await log.owner("DELETE FROM tas.erasure")
    report = verify(await log.export(), checkpoints=log.kept.notes)
    assert (report.faults, report.figures["payloads_erased"]) == ([], 9)


async def test_a_bundle_that_begins_later_shows_who_asked_for_what_is_erased_in_it(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, 3)
    erasure_id = await confirmed_and_interrupted(log, monkeypatch)
    await log.sealer.current(fresh=True)
    await log.age(1)
    await fill(log, 2)
    assert await log.pool.fetchval("SELECT tas.erase_payloads($1, 5000)", erasure_id) == 9
    lines = await log.export(since=wall() - timedelta(hours=1))
    report = verify(lines, checkpoints=log.kept.notes)
    assert (report.faults, report.figures["payloads_erased"]) == ([], 0), "what was erased is older than its request"
    assert sum('"kind":"earlier"' in line and "audit.erase_" in line for line in lines) == 2


async def confirmed_and_interrupted(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Have dana ask for everything of a caller and eve confirm it; the process ends before anything is erased."""
    asked = await log.erasures.request(RequestErasure(project=PROJECT, actor="dana", reason="r", caller="cäller"))

    async def ends(*_: object) -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(log.erasures, "carry_out", ends)
        word = DecideErasure(project=PROJECT, erasure_id=asked.erasure_id, verdict="confirm", actor="eve")
        assert (await log.erasures.decide(word)).status == "confirmed"
    return asked.erasure_id


async def outcomes(log: AuditLog, some: int) -> list[int]:
    """The ids of the first outcomes in the log."""
    rows = await log.owner("SELECT entry_id FROM tas.audit_record WHERE phase = 'outcome' ORDER BY 1 LIMIT $1", some)
    return [row["entry_id"] for row in rows]


async def call_of(log: AuditLog, entry_id: int) -> UUID:
    """The call of an entry."""
    (row,) = await log.owner("SELECT execution_id FROM tas.audit_record WHERE entry_id = $1", entry_id)
    found: UUID = row["execution_id"]
    return found
