"""Blobs that nothing has named: deleted in a real Postgres by the role of the service, and never one in use."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from structlog import get_logger
from structlog.testing import capture_logs
from tests.conftest import DatabaseUrl
from tests.support.tas.audit_log import add_run

from towpath_contracts.canonical import digest_text
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.run_store import QUERIES
from towpath_orchestrator.app import unused_blobs
from towpath_orchestrator.app.unused_blobs import UnusedBlobLoop
from towpath_orchestrator.metrics import OrchestratorMetrics

PROJECT = "default"
FUNCTIONS = ("runs.find_unused_blobs('default', 10)", "runs.delete_unused_blobs('default', '{}')")


class Blobs:
    """The blobs of one database: stored by the role of the service, aged and read by the owner of the tables."""

    def __init__(self, pool: Any, owner: Any) -> None:
        self.pool, self.owner = pool, owner
        self.metrics = OrchestratorMetrics(CollectorRegistry())
        self.loop = UnusedBlobLoop(pool, self.metrics, get_logger("test"))

    async def store(self, text: str, project: str = PROJECT) -> str:
        """Store a text as the service does, and return its digest."""
        digest = digest_text(text.encode())
        await self.pool.execute(QUERIES.add_blob, project, digest, text.encode(), len(text))
        return digest

    async def pass_days(self, days: float) -> None:
        """Move all times that count into the past."""
        for table, column in (
            *((f"runs.{name}", column) for name, column in (("run", "updated_at"), ("run_event", "at"))),
            *(("runs.blob", column) for column in ("created_at", "used_at", "unnamed_until")),
            ("tas.tool_call", "updated_at"),
        ):
            await self.owner.execute(
                f"UPDATE {table} SET {column} = {column} - make_interval(secs => $1)", days * 86_400
            )

    async def run(self, status: str, *, project: str = PROJECT) -> UUID:
        """Store a run."""
        run_id = new_run_id()
        await add_run(self.owner, run_id, [], project)
        await self.owner.execute("UPDATE runs.run SET status = $2 WHERE run_id = $1", run_id, status)
        return run_id

    async def name(self, run_id: UUID, *digests: str) -> None:
        """Write an event that names blobs, as a commit of the run does."""
        event = json.dumps({"type": "workspace_changed", "files": digests})
        await self.owner.execute(
            "INSERT INTO runs.run_event (run_id, seq, at, type, event) SELECT $1, 10 + count(*), now(),"
            " 'workspace_changed', $2::json FROM runs.run_event WHERE run_id = $1",
            *(run_id, event),
        )
        await self.owner.execute("UPDATE runs.run SET updated_at = now() WHERE run_id = $1", run_id)

    async def find(self, connection: Any = None) -> list[str]:
        """Return what is unused."""
        [found] = await (connection or self.pool).fetch(unused_blobs.QUERIES.find, PROJECT, 10)
        return list(found["unused"])

    async def left(self) -> set[str]:
        """Return the digests that are there."""
        return {row[0] for row in await self.owner.fetch("SELECT digest FROM runs.blob")}

    async def spend_days(self, days: int) -> None:
        """Let the loop look once a day, for so many days."""
        for _ in range(days):
            await self.pass_days(1)
            await self.loop.look()


@pytest.fixture
async def blobs(database: DatabaseUrl) -> AsyncIterator[Blobs]:
    pool, owner = await open_pool(database("orchestrator"), 3, "test"), await asyncpg.connect(database())
    yield Blobs(pool, owner)
    await owner.close()
    await pool.close()


async def test_what_nothing_names_within_a_week_is_deleted_and_what_is_named_stays(blobs: Blobs) -> None:
    ended, waits = await blobs.run("completed"), await blobs.run("waiting")
    at_once, later, nobody = [await blobs.store(text) for text in ("at once", "later", "of nobody")]
    other = await blobs.store("of nobody", "bank")
    await blobs.name(ended, at_once, "sha256:" + "0" * 64)
    await blobs.spend_days(5)
    await blobs.name(waits, later)
    assert await blobs.left() == {at_once, later, nobody}
    with capture_logs() as logs:
        await blobs.spend_days(5)
    assert await blobs.left() == {at_once, later}
    said = [(one["project"], one["blobs"], one["bytes"]) for one in logs]
    assert sorted(said) == [("bank", 1, 9), (PROJECT, 1, 9)] and other == nobody
    rows = await blobs.owner.fetch("SELECT digest FROM runs.blob WHERE is_named")
    assert {row[0] for row in rows} == {at_once, later}
    await blobs.spend_days(20)
    assert await blobs.left() == {at_once, later}, "a named one goes with the runs that name it, not by itself"


async def test_what_is_used_again_stays_for_another_week(blobs: Blobs) -> None:
    text = "sent again and again, and refused each time"
    digest = await blobs.store(text)
    for _ in range(4):
        await blobs.spend_days(5)
        await blobs.store(text)
    assert await blobs.left() == {digest}
    await blobs.spend_days(9)
    assert await blobs.left() == set()


async def test_all_of_a_project_are_looked_at_in_one_turn_however_many_they_are(
    blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await blobs.run("running")
    digests = [await blobs.store(f"text {number}") for number in range(9)]
    await blobs.pass_days(8)
    await blobs.name(run_id, *digests[:3])
    monkeypatch.setattr(unused_blobs, "FOUND_AT_ONCE", 3)
    await blobs.loop.look()
    assert await blobs.left() == set(digests[:3])


@pytest.mark.parametrize("of_project", [PROJECT, None, "bank"])
async def test_what_an_open_dead_letter_names_stays_until_it_is_settled(blobs: Blobs, of_project: str | None) -> None:
    digest, other = await blobs.store("a result that could not be read"), await blobs.store("of nobody")
    body = b"\xff\x00\\" + json.dumps({"result": {"result_digest": digest}}).encode()
    await blobs.owner.execute(
        "INSERT INTO runs.dead_letter (stream, subject, reason, body, project) VALUES ('TOOLOUT', 's', 'r', $1, $2)",
        *(body, of_project),
    )
    await blobs.spend_days(12)
    assert await blobs.left() == ({digest} if of_project != "bank" else set())
    settle = "UPDATE runs.dead_letter SET status = 'requeued', settled_at = now() - make_interval(days => $1)"
    await blobs.owner.execute(settle, 0)
    await blobs.spend_days(1)
    assert await blobs.left() == ({digest} if of_project != "bank" else set()), "it is on its way"
    await blobs.owner.execute(settle, 2)
    await blobs.spend_days(2)
    assert await blobs.left() == set() and other != digest


async def test_a_name_of_the_ledger_counts_also_where_the_run_has_ended_long_ago(blobs: Blobs) -> None:
    run_id = await blobs.run("cancelled")
    await blobs.pass_days(60)
    digest = await blobs.store("an outcome that came late")
    columns = await blobs.owner.fetch(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'tas'"
        " AND table_name = 'tool_call' AND is_nullable = 'NO' AND column_default IS NULL"
        " AND column_name NOT IN ('run_id', 'project', 'status')"
    )
    kinds = {"text": "''", "integer": "0", "uuid": "gen_random_uuid()", "timestamp with time zone": "now()"}
    await blobs.owner.execute(
        f"INSERT INTO tas.tool_call (run_id, project, status, fact, {', '.join(row[0] for row in columns)})"
        f" VALUES ($1, $2, 'succeeded', $3, {', '.join(kinds[row[1]] for row in columns)})",
        *(run_id, PROJECT, json.dumps({"blob": True, "result_digest": digest})),
    )
    await blobs.owner.execute(
        "INSERT INTO tas.audit_record (project, run_id, phase, verdict, tool, operation, network, agent_key, caller,"
        " actor, policy_version, commitment) VALUES ($1, $2, 'outcome', '', '', '', '', '', '', '', 0, '')",
        *(PROJECT, run_id),
    )
    await blobs.spend_days(2)
    assert await blobs.owner.fetchval("SELECT is_named FROM runs.blob")


async def test_who_is_about_to_name_a_blob_keeps_it_however_the_two_meet(blobs: Blobs) -> None:
    texts = ("before", "meanwhile", "behind")
    before, meanwhile, behind = [await blobs.store(text) for text in texts]
    await blobs.pass_days(9)
    found = await blobs.find()
    assert set(found) == {before, meanwhile, behind}
    await blobs.store("before")
    async with blobs.pool.acquire() as writer:
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute(QUERIES.add_blob, PROJECT, meanwhile, b"meanwhile", 9)
        deleting = asyncio.create_task(
            blobs.pool.fetch(unused_blobs.QUERIES.delete, PROJECT, [before, meanwhile, behind])
        )
        await _waits_for_a_lock(blobs.owner)
        await transaction.commit()
    [gone] = await deleting
    assert (gone["blobs"], gone["bytes"], await blobs.left()) == (1, len("behind"), {before, meanwhile})
    assert await blobs.store("behind") in await blobs.left(), "who comes behind the deletion stores it anew"


async def test_who_stores_the_same_bytes_while_they_are_deleted_has_them_afterwards(blobs: Blobs) -> None:
    digest = await blobs.store("same bytes")
    await blobs.pass_days(9)
    async with blobs.pool.acquire() as cleaner:
        transaction = cleaner.transaction()
        await transaction.start()
        found = await blobs.find(cleaner)
        await cleaner.fetch(unused_blobs.QUERIES.delete, PROJECT, found)
        storing = asyncio.create_task(blobs.store("same bytes"))
        await _waits_for_a_lock(blobs.owner)
        await transaction.commit()
    assert await storing == digest and await blobs.left() == {digest}


async def test_a_writer_and_the_loop_at_once_never_leave_a_name_without_its_blob(blobs: Blobs) -> None:
    run_id = await blobs.run("running")
    texts = [f"text {number}" for number in range(40)]
    for text in texts:
        await blobs.store(text)
    await blobs.pass_days(9)

    async def write() -> None:
        for text in texts[::2]:
            await blobs.name(run_id, await blobs.store(text))

    await asyncio.gather(write(), blobs.loop.look())
    await blobs.spend_days(9)
    assert await blobs.left() == {digest_text(text.encode()) for text in texts[::2]}


async def test_a_project_that_fails_keeps_no_other_from_its_turn_and_no_success_is_told(blobs: Blobs) -> None:
    for project in ("bank", "shop"):
        await blobs.store("of nobody", project)
    await blobs.pass_days(9)
    await blobs.owner.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;"
        "CREATE TRIGGER refuse BEFORE DELETE ON runs.blob FOR EACH ROW WHEN (OLD.project = 'bank')"
        " EXECUTE FUNCTION refuse()"
    )
    succeeded = blobs.metrics.housekept.labels("blobs")
    with capture_logs() as logs:
        await blobs.loop.look()
    assert [(one["log_level"], one["project"]) for one in logs] == [("warning", "bank"), ("info", "shop")]
    assert succeeded._value.get() == 0
    await blobs.owner.execute("DROP TRIGGER refuse ON runs.blob")
    await blobs.spend_days(2)
    assert succeeded._value.get() > 0 and await blobs.left() == set()


async def test_nobody_else_deletes_blobs_and_nothing_that_was_not_found(blobs: Blobs, database: DatabaseUrl) -> None:
    digest = await blobs.store("young")
    for days in (0, 9):  # old, and not looked for yet
        await blobs.pass_days(days)
        [gone] = await blobs.pool.fetch(unused_blobs.QUERIES.delete, PROJECT, [digest])
        assert gone["blobs"] == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await blobs.pool.execute("DELETE FROM runs.blob")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await blobs.pool.execute("UPDATE runs.blob SET unnamed_until = now()")
    for role in ("tas", "gateway", "log_writer"):
        connection = await asyncpg.connect(database(role))
        try:
            for function in FUNCTIONS:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(f"SELECT {function}")
        finally:
            await connection.close()


async def _waits_for_a_lock(owner: Any) -> None:
    """Wait until a statement waits for another one."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while await owner.fetchval(waits) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
