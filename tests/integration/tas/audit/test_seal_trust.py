"""What a sealer in a real Postgres believes of the tables: no clock, no key, and no seal that it did not see follow."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

import pytest
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import ORIGIN, PROJECT, AuditLog, audit_log, fill, signer
from tests.support.waiting import eventually

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, Signer, open_note
from towpath_audit.verifier import verify
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.audit import GetCheckpoint
from towpath_fabric.clock import wall
from towpath_fabric.turns.task_end import end_tasks
from towpath_tas.adapters.ledger_tables import platform_audit_row
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.housekeeping import AuditRetention
from towpath_tas.app.audit.sealer import AuditLogMismatchError, SealClockError, StoredCheckpoint

NOTE = "SELECT tas.write_audit('{}', ARRAY[tas.audit_own_note('', 'audit.dropped', 'retention', $1)])"


@pytest.fixture
async def log(database: DatabaseUrl) -> AsyncIterator[AuditLog]:
    """The log of a database of the test's own, with ten calls."""
    async with audit_log(database(), database("tas")) as found:
        await fill(found, 10)
        yield found


def ahead(minutes: float) -> Callable[[], datetime]:
    """Return a clock that is so far ahead."""
    return lambda: wall() + timedelta(minutes=minutes)


async def add_entry(log: AuditLog) -> None:
    await log.write(platform_audit_row(PROJECT, "a", "x", actor=""))


def signed_time(log: AuditLog, sealed: StoredCheckpoint) -> datetime | None:
    return Checkpoint.read(open_note(sealed.note, [log.notes.public])[0]).at


@pytest.mark.parametrize("minutes", [2_880, -2_880, 6])
async def test_nothing_is_sealed_while_the_clock_of_postgres_is_another(log: AuditLog, minutes: float) -> None:
    await add_entry(log)
    seals = await log.owner("SELECT max(seal_id) FROM tas.audit_seal")
    sealer = log.another_sealer(every_s=0.01, clock=ahead(minutes))
    with pytest.raises(SealClockError, match="set the clock that is wrong"):
        await sealer.seal()
    requests = AuditLogRequests(log.pool, sealer)
    with pytest.raises(ProblemError, match="audit_clock_differs"):
        await requests.checkpoint(GetCheckpoint())
    running = asyncio.create_task(sealer.run())
    await eventually(lambda: sealer._metrics.seal_refusals._value.get() >= 2)
    await end_tasks([running])
    assert await log.owner("SELECT max(seal_id) FROM tas.audit_seal") == seals
    log.exports = requests
    assert verify(await log.export(), checkpoints=log.kept.notes).faults == [], (
        "what is sealed is exported as it stands"
    )


async def test_the_signed_time_is_the_sealers_own_and_never_falls(log: AuditLog) -> None:
    early, late = log.another_sealer(clock=ahead(1)), log.another_sealer(clock=ahead(-1))
    first = await early.current(fresh=True)
    assert timedelta(seconds=50) < first.at - wall() < timedelta(seconds=70)
    await log.owner("UPDATE tas.audit_seal SET at = at - interval '2 days' WHERE seal_id = $1", first.seal_id)
    second = await late.current(fresh=True)
    assert [signed_time(log, one) for one in (first, second)] == [first.at, first.at]
    assert verify(await log.export(), checkpoints=[first.note, second.note]).faults == []
    await log.another_sealer(clock=ahead(4)).current(fresh=True)
    with pytest.raises(SealClockError, match="which is later"):
        await log.another_sealer(clock=ahead(-4)).seal()


async def test_retention_drops_nothing_while_the_clock_of_postgres_is_another(log: AuditLog) -> None:
    await log.age(40)
    await fill(log, 3)
    for minutes, dropped in ((600, 0), (-600, 0), (1, 32)):
        retention = AuditRetention(log.pool, log.sealer._log, log.sealer._metrics, keep_days=30, clock=ahead(minutes))
        assert await retention.drop_old_segments() == dropped


async def set_back(log: AuditLog, to: StoredCheckpoint, *, keep: int | None = None) -> int:
    """Put an earlier checkpoint in the place of all later seals and leaves, under a higher number; return that."""
    last: int = (await log.owner("SELECT max(seal_id) AS last FROM tas.audit_seal"))[0]["last"]
    await log.owner("DELETE FROM tas.audit_leaf WHERE leaf_index >= $1", to.edge.size)
    await log.owner("DELETE FROM tas.audit_seal WHERE seal_id IS DISTINCT FROM $1", keep)
    await log.owner(
        "INSERT INTO tas.audit_seal VALUES ($1, $2, $3, $4, $5, $6)",
        *(last + 1, to.edge.size, to.edge.root, to.edge.packed(), to.at, to.note),
    )
    return last + 1


@pytest.mark.parametrize("trick", ["", "keeps the last", "says that retention did it"])
async def test_a_log_that_is_set_back_under_a_new_number_is_not_sealed_on(log: AuditLog, trick: str) -> None:
    old = await log.sealer.current()
    await fill(log, 10)
    seen = await log.sealer.current()
    await set_back(log, old, keep=seen.seal_id if trick == "keeps the last" else None)
    if trick == "says that retention did it":
        detail = {"from": 0, "to": old.edge.size, "root": old.edge.root.hex()}
        await log.owner(NOTE, json.dumps(detail))
    await add_entry(log)
    for _ in range(2):
        with pytest.raises(AuditLogMismatchError, match="is not stored"):
            await log.sealer.seal()


async def test_a_replica_remembers_what_others_sealed_also_where_it_has_nothing_to_do(log: AuditLog) -> None:
    old = await log.sealer.current()
    witness = log.another_sealer()
    await fill(log, 10)
    assert await witness._due() is False
    await set_back(log, old)
    with pytest.raises(AuditLogMismatchError, match="is not stored"):
        await witness._due()
    await log.owner("DELETE FROM tas.audit_seal")
    with pytest.raises(AuditLogMismatchError, match="is not stored"):
        await witness._due()


async def test_seals_that_are_gone_without_an_entry_of_retention_are_missed(log: AuditLog) -> None:
    other = log.another_sealer()
    seen = await other.current()
    await fill(log, 10)
    last = await log.sealer.current()
    await log.owner("DELETE FROM tas.audit_seal WHERE seal_id < $1", last.seal_id)
    assert last.seal_id > seen.seal_id
    with pytest.raises(AuditLogMismatchError, match="is not stored"):
        await other.seal()
    detail = {"from": 0, "to": last.edge.size, "root": last.edge.root.hex()}
    await log.owner(NOTE, json.dumps(detail))
    assert await other.seal() is not None, "whoever writes that entry has it in the log"


async def forge_seal(log: AuditLog, key: Signer) -> None:
    """Put a key and a seal of it over all leaves into the tables."""
    leaves = await log.owner("SELECT hash FROM tas.audit_leaf ORDER BY leaf_index")
    edge, at = MerkleFrontier().extended(row["hash"] for row in leaves), wall()
    note = key.note(Checkpoint(ORIGIN, edge.size, edge.root, at).text())
    await log.owner("INSERT INTO tas.audit_key VALUES ($1)", key.public.text)
    await log.owner(
        "INSERT INTO tas.audit_seal SELECT max(seal_id) + 1, $1, $2, $3, $4, $5 FROM tas.audit_seal",
        *(edge.size, edge.root, edge.packed(), at, note),
    )


async def test_a_seal_of_a_key_that_somebody_put_into_the_table_is_not_believed(log: AuditLog) -> None:
    await forge_seal(log, key := signer())
    await add_entry(log)
    for sealer in (log.sealer, log.another_sealer()):
        with pytest.raises(AuditLogMismatchError, match="no known key has signed it"):
            await sealer.seal()
    lines = await log.export()
    assert key.public.text not in json.loads(lines[0])["keys"]
    assert "checkpoint_signature" in [fault.code for fault in verify(lines).faults]


async def test_a_new_key_goes_on_where_the_one_before_is_named(log: AuditLog) -> None:
    before, old = await log.sealer.current(), log.notes
    log.notes = signer()
    await add_entry(log)
    with pytest.raises(AuditLogMismatchError, match="TOWPATH_SEAL_OTHER_KEYS"):
        await log.another_sealer().seal()
    sealer = log.another_sealer(other_keys=[old.public, signer().public])
    after = await sealer.seal()
    assert after is not None
    log.exports = AuditLogRequests(log.pool, sealer)
    lines = await log.export()
    assert json.loads(lines[0])["keys"] == [old.public.text, log.notes.public.text], "and none that was never used"
    notes, keys = [before.note, after.note], [old.public.fingerprint, log.notes.public.fingerprint]
    assert verify(lines, checkpoints=notes, keys=keys).faults == []
    with pytest.raises(AuditLogMismatchError, match="no known key"):
        await log.sealer.seal()  # a replica that was not told of the next key


async def test_a_bundle_has_all_since_a_time_though_a_sealers_clock_is_behind(log: AuditLog) -> None:
    """A seal may seem minutes older than the entries that it covers."""
    since = wall()
    for _ in range(3):
        await add_entry(log)
    sealed = await log.another_sealer(clock=ahead(-4)).current(fresh=True)
    assert sealed.at < since
    lines = await log.export(since=since)
    shown = [json.loads(line).get("entry") for line in lines if json.loads(line)["kind"] == "leaf"]
    assert sum(entry["phase"] == "a" for entry in shown) == 3
    assert verify(lines, checkpoints=[sealed.note]).faults == []
