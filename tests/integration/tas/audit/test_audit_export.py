"""What an export refuses between two pieces, and what a sealer remembers, in a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import PROJECT, AuditLog, audit_log, fill
from tests.support.waiting import eventually

from towpath_audit import bundle
from towpath_audit.bundle import EVERY_PROJECT
from towpath_audit.verifier import verify
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.audit import AuditPiece, ExportAudit, GetCheckpoint
from towpath_fabric.clock import wall
from towpath_fabric.turns.task_end import end_tasks
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit import audit_export, export_piece
from towpath_tas.app.audit.housekeeping import AuditRetention
from towpath_tas.app.audit.sealer import AuditLogMismatchError


@pytest.fixture
async def log(database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AuditLog]:
    """A log of 20 calls, exported in small pieces."""
    for module in (audit_export, export_piece):
        monkeypatch.setattr(module, "MAX_LEAVES", 25)
    async with audit_log(database(), database("tas")) as found:
        await fill(found, 20)
        yield found


def after(request: ExportAudit, piece: AuditPiece, **cursor: Any) -> ExportAudit:
    """The request for the piece after *piece*, with other words in the cursor."""
    assert piece.cursor is not None
    given = piece.cursor.model_copy(update=cursor)
    return request.model_copy(update={"cursor": given, "previous": bundle.digest(piece.lines[-1])})


async def refusal(log: AuditLog, request: ExportAudit) -> str:
    with pytest.raises(ProblemError) as refused:
        await log.exports.export(request)
    assert refused.value.problem.remedy
    return refused.value.problem.code


async def test_a_cursor_counts_only_as_it_was_given_and_for_what(log: AuditLog) -> None:
    first = ExportAudit(project=PROJECT, actor="ann")
    piece = await log.exports.export(first)
    given = after(first, piece)
    tomorrow = wall() + timedelta(days=1)
    for changed in (
        after(first, piece, leaves_done=True, run_id=UUID(int=2**128 - 1)),
        after(first, piece, effects_since=tomorrow),
        after(first, piece, size=3),
        after(first, piece, watched=None),
        after(first, piece, signature=""),
        after(first, piece, signature="ä"),
        given.model_copy(update={"until": wall() - timedelta(days=1)}),
        given.model_copy(update={"since": tomorrow}),
        given.model_copy(update={"project": "bank"}),
        given.model_copy(update={"previous": "0" * 64}),
        first.model_copy(update={"previous": "0" * 64}),
    ):
        assert await refusal(log, changed) == "cursor_refused"
    before_all_years = first.model_copy(update={"since": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))})
    assert await refusal(log, before_all_years) == "request_invalid"
    again = ExportAudit.model_validate_json(given.model_dump_json())
    assert (await log.another_exports().export(again)).lines != (), "as it was given it counts, at any replica"


async def test_a_piece_takes_fewer_leaves_where_what_they_rest_on_needs_its_room(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_piece, "MAX_PIECE_BYTES", 4_000)
    lines = await log.export()
    assert verify(lines, checkpoints=log.kept.notes).faults == []
    assert sum('"kind":"page"' in line for line in lines) > 20


async def test_a_cursor_with_times_counts_in_whatever_zone_they_come_back(log: AuditLog) -> None:
    lines = await log.export(since=wall() - timedelta(days=1), until=wall() + timedelta(days=1))
    assert verify(lines).faults == []
    assert sum('"kind":"page"' in line for line in lines) > 2


async def test_an_entry_that_was_moved_to_another_project_is_found_in_every_bundle(log: AuditLog) -> None:
    await log.write(platform_audit_row(PROJECT, "approval.approved", "approved", actor="mia"))
    await log.sealer.current()
    assert verify(await log.export("bank")).faults == []
    await log.owner("UPDATE tas.audit_record SET project = 'ghost' WHERE phase = 'approval.approved'")
    (row,) = await log.owner(
        "SELECT l.leaf_index FROM tas.audit_leaf l JOIN tas.audit_record r USING (entry_id) WHERE r.project = 'ghost'"
    )
    for project in (PROJECT, "bank"):
        report = verify(await log.export(project), checkpoints=log.kept.notes)
        assert [(fault.code, fault.leaf) for fault in report.faults] == [("hidden_entry_changed", row["leaf_index"])]
    report = verify(await log.export(EVERY_PROJECT))
    assert [(fault.code, fault.leaf) for fault in report.faults] == [("entry_changed", row["leaf_index"])]


async def test_a_row_with_a_time_that_no_calendar_has_is_told_as_one_that_nobody_writes(log: AuditLog) -> None:
    await log.owner("UPDATE tas.audit_record SET at = '20000-01-01' WHERE phase = 'claim'")
    assert await refusal(log, ExportAudit(project=PROJECT, actor="ann")) == "audit_unreadable"


async def test_a_bundle_of_every_project_hides_nothing(log: AuditLog) -> None:
    await log.write(platform_audit_row("bank", "secret", "x", actor="mia", detail={"iban": "DE00"}))
    lines = await log.export(EVERY_PROJECT)
    report = verify(lines, checkpoints=log.kept.notes)
    assert report.faults == []
    assert report.figures["hidden"] == 0
    assert any("DE00" in line for line in lines)


async def test_an_export_ends_where_its_own_payloads_are_erased_meanwhile(log: AuditLog) -> None:
    await log.write(platform_audit_row("bank", "a", "x", actor="mia"))
    first = ExportAudit(project=PROJECT, actor="ann")
    piece = await log.exports.export(first)
    assert await log.erase(project="bank", before=wall()) == 1
    await log.sealer.current()
    request = after(first, piece)
    piece = await log.exports.export(request)
    assert await log.erase(before=wall()) > 0
    assert await refusal(log, after(first, piece)) == "export_moved", "while the erasure waits for its leaf"
    await log.sealer.current()
    assert await refusal(log, after(first, piece)) == "export_moved", "and after"
    assert verify(await log.export(), checkpoints=log.kept.notes).faults == [], "begun again it holds"


async def test_an_export_ends_where_retention_drops_a_segment_meanwhile(log: AuditLog) -> None:
    await log.age(40)
    await fill(log, 10)
    first = ExportAudit(project=PROJECT, actor="ann")
    piece = await log.exports.export(first)
    assert await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments() > 0
    assert await refusal(log, after(first, piece)) == "export_moved"
    assert verify(await log.export()).faults == []


async def roll_back(log: AuditLog, seals: int) -> None:
    """What a hand in the tables, or an older backup, leaves: the newest seals are gone, with their leaves."""
    newest = await log.owner("SELECT seal_id, size FROM tas.audit_seal ORDER BY seal_id DESC LIMIT $1", seals + 1)
    kept = newest[-1]
    await log.owner("DELETE FROM tas.audit_seal WHERE seal_id > $1", kept["seal_id"])
    await log.owner("DELETE FROM tas.audit_leaf WHERE leaf_index >= $1", kept["size"])


async def test_a_sealer_signs_no_second_history_of_what_it_knows(log: AuditLog) -> None:
    witness = log.another_sealer()
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
    assert await witness.seal() is not None
    await roll_back(log, 1)
    await log.write(platform_audit_row(PROJECT, "b", "x", actor=""))
    for _ in range(2):
        with pytest.raises(AuditLogMismatchError, match="is not stored"):
            await witness.seal()
    stranger = log.another_sealer()
    for _ in range(3):
        await stranger.current(fresh=True)
    with pytest.raises(AuditLogMismatchError, match="is not stored"):
        await witness.seal()


async def test_a_sealer_goes_on_from_what_others_sealed_and_retention_left(log: AuditLog) -> None:
    other = log.another_sealer()
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
    await log.sealer.current()
    await log.age(40)
    async with log.pool.acquire() as connection:
        await other.last(connection)
    await fill(log, 10)
    await AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30).drop_old_segments()
    left = (await log.owner("SELECT min(seal_id) AS first FROM tas.audit_seal"))[0]["first"]
    assert other._seen is not None
    assert other._seen.seal_id <= left
    assert (await other.current()).edge.size > other._seen.edge.size - 1
    assert verify(await log.export()).faults == []


async def test_leaves_that_no_checkpoint_covers_are_not_sealed_over(log: AuditLog) -> None:
    await log.owner(
        "DELETE FROM tas.audit_seal WHERE seal_id = (SELECT max(seal_id) FROM tas.audit_seal WHERE size < 60)"
    )
    await log.owner("DELETE FROM tas.audit_seal WHERE size > 50")
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
    with pytest.raises(AuditLogMismatchError, match="does not cover"):
        await log.another_sealer().seal()


async def test_asking_for_a_checkpoint_writes_one_only_where_something_came(log: AuditLog) -> None:
    first = await log.sealer.current()
    assert (await log.sealer.current()).note == first.note
    assert (await log.another_exports().checkpoint(GetCheckpoint())).note == first.note
    await log.export()
    assert (await log.owner("SELECT max(seal_id) AS last FROM tas.audit_seal"))[0]["last"] == first.seal_id
    assert (await log.another_sealer(idle_s=0).current()).seal_id == first.seal_id + 1, "an old one is not enough"
    lines = await log.export(since=wall() + timedelta(hours=1))
    assert verify(lines).figures["checkpoints"] == 1, "a bundle always has one of its own"
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
    assert (await log.sealer.current()).edge.size == first.edge.size + 1


async def test_an_outlet_that_hangs_holds_no_seal_back(log: AuditLog) -> None:
    class Hanging:
        """A witness that takes a checkpoint and never says so."""

        asked = 0

        async def publish(self, _note: str) -> None:
            """Wait for ever."""
            self.asked += 1
            await asyncio.Event().wait()

    hanging = Hanging()
    sealer = log.another_sealer(outlets=[hanging], every_s=0.01, publish_s=0)
    running = asyncio.create_task(sealer.run())
    try:
        await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))
        await eventually(lambda: hanging.asked == 1)
        before = await log.sealer.current()
        await log.write(platform_audit_row(PROJECT, "b", "x", actor=""))
        await eventually(lambda: sealer._seen is not None and sealer._seen.edge.size > before.edge.size)
    finally:
        await end_tasks([running])
