"""Erasures that wait or fail: what goes all the same, what is locked meanwhile, and who is held up."""

import asyncio
import json
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest
from tests.support.tas.audit_log import PROJECT
from tests.support.tas.run_owners import LOG, Owners, owners

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.erasures import DecideErasure
from towpath_fabric.postgres.run_erasures import RunErasureLoop
from towpath_orchestrator.adapters.run_store import ERASURES as RUNS
from towpath_orchestrator.adapters.run_store import QUERIES as RUN_LOG
from towpath_tas.app.audit import erasures

__all__ = ["owners"]

SHARED, OWN, AGAIN = "shared blob", "own blob", "blob that is stored again"


async def store_blobs(owners: Owners, *texts: str, named_by: UUID) -> dict[str, str]:
    """Store blobs a day ago, in two projects, which an event of a run names; return their digests."""
    digests = {text: digest_text(text) for text in texts}
    for project in (PROJECT, "bank"):
        for text, digest in digests.items():
            await owners.runs.execute(RUN_LOG.add_blob, project, digest, text.encode(), len(text))
    await owners.log.owner(
        "UPDATE runs.blob SET created_at = now() - interval '1 day', used_at = now() - interval '1 day'"
    )
    await name_blobs(owners, named_by, *digests.values())
    return digests


async def name_blobs(owners: Owners, run_id: UUID, *digests: str) -> None:
    event = json.dumps({"type": "x", "named": digests})
    statement = "INSERT INTO runs.run_event (run_id, seq, at, type, event) VALUES ($1, 9, now(), 'x', $2)"
    await owners.log.owner(statement, run_id, event)


async def blobs_left(owners: Owners) -> list[str]:
    rows = await owners.log.owner("SELECT convert_from(data, 'UTF8') FROM runs.blob WHERE project = $1", PROJECT)
    assert len(await owners.log.owner("SELECT 1 FROM runs.blob WHERE project = 'bank'")) == 3
    return sorted(row[0] for row in rows)


async def test_blobs_that_another_run_names_stay_and_one_stored_again_holds_up_itself_alone(owners: Owners) -> None:
    first, second = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    await name_blobs(owners, second, digests[SHARED])
    await owners.runs.execute(RUN_LOG.add_blob, PROJECT, digests[AGAIN], AGAIN.encode(), len(AGAIN))
    purged: list[UUID] = []

    async def purge(run_ids: Sequence[UUID]) -> None:
        purged.extend(run_ids)

    loop = RunErasureLoop(owners.runs, RUNS, LOG, purge=purge)
    await owners.confirm(first)
    await loop.finish()
    assert await blobs_left(owners) == [AGAIN, SHARED]
    for part in (owners.erase_history, owners.log.erasures.finish):
        await part()
    (row,) = await owners.log.owner("SELECT status, parts FROM tas.erasure")
    assert tuple(row) == ("confirmed", ["runs", "history", "tas"])
    await owners.log.owner("UPDATE runs.blob SET used_at = now() - interval '2 hours'")
    await loop.finish()
    assert await blobs_left(owners) == [AGAIN, SHARED], "a minute later"
    await RunErasureLoop(owners.runs, RUNS, LOG, purge=purge).finish()
    assert (await blobs_left(owners), purged) == ([SHARED], [first])
    (row,) = await owners.log.owner("SELECT status, parts FROM tas.erasure")
    assert tuple(row) == ("done", ["runs", "history", "tas", "blobs"])
    assert await owners.log.owner("SELECT 1 FROM runs.blob_to_erase") == []


async def test_logs_are_not_read_for_blobs_that_can_not_go_and_nothing_waits_for_reading_them(owners: Owners) -> None:
    first, _ = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    await owners.runs.execute(RUN_LOG.add_blob, PROJECT, digests[AGAIN], AGAIN.encode(), len(AGAIN))
    erasure = await owners.confirm(first)
    await owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id)
    holder = await asyncpg.connect(owners.log.dsn)
    async with holder.transaction():
        await holder.execute("LOCK TABLE runs.run_event IN ACCESS EXCLUSIVE MODE")  # who reads the logs waits
        reading = asyncio.create_task(owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id))
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'runs.run_event'::regclass"
        async with asyncio.timeout(60):
            while not await owners.log.owner(waiting):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        again = await owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id)
        assert again == -1, "a second replica does not read them too"
        await owners.runs.execute(RUN_LOG.add_blob, PROJECT, digests[SHARED], SHARED.encode(), len(SHARED), timeout=60)
        async with asyncio.timeout(60):
            for part in (owners.erase_history, owners.log.erasures.finish):
                await part()
    assert await reading == -1
    assert await blobs_left(owners) == [AGAIN, SHARED]
    (row,) = await owners.log.owner("SELECT digest FROM runs.blob_to_erase")
    assert row[0] == digests[AGAIN], "what somebody stored meanwhile is theirs"
    async with holder.transaction():
        await holder.execute("LOCK TABLE runs.run_event IN ACCESS EXCLUSIVE MODE")
        looked = await owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id, timeout=60)
        assert looked == -1, "all that is left was stored again shortly before"
    await holder.close()


async def test_bytes_of_a_writer_that_began_before_the_word_and_ended_behind_it_stay_for_the_hour(
    owners: Owners,
) -> None:
    first, _ = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    writer = await asyncpg.connect(owners.log.dsn)
    writing = writer.transaction()
    await writing.start()
    await writer.execute(RUN_LOG.add_blob, PROJECT, digests[AGAIN], AGAIN.encode(), len(AGAIN))
    erasure = await owners.confirm(first)
    assert await owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id) == 10
    erasing = asyncio.create_task(owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
    async with asyncio.timeout(60):
        while not await owners.log.owner(waiting, writer.get_server_pid()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await writing.commit()
    assert await erasing == -1
    assert await blobs_left(owners) == [AGAIN], "another run may be about to name it"
    (row,) = await owners.log.owner("SELECT digest FROM runs.blob_to_erase")
    assert row[0] == digests[AGAIN], "nor is the erasure done before that is known"
    await writer.close()


async def test_an_erasure_ends_where_the_same_bytes_are_stored_again_and_again(owners: Owners) -> None:
    first, second = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    await owners.log.owner("UPDATE runs.blob SET is_named = true")
    await name_blobs(owners, second, digests[SHARED])

    async def store_again() -> None:
        for text in (AGAIN, SHARED):
            await owners.runs.execute(RUN_LOG.add_blob, PROJECT, digests[text], text.encode(), len(text))

    await store_again()
    erasure = await owners.confirm(first)
    for expected in (10, -1):
        assert await owners.runs.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id) == expected
    await store_again()
    for part in (owners.erase_runs, owners.erase_history, owners.log.erasures.finish):
        await part()
    (row,) = await owners.log.owner("SELECT status FROM tas.erasure")
    assert row[0] == "done"
    assert await blobs_left(owners) == [AGAIN, SHARED]
    left = await owners.log.owner("SELECT digest, is_named FROM runs.blob WHERE project = $1 ORDER BY digest", PROJECT)
    assert {row["digest"]: row["is_named"] for row in left} == {digests[AGAIN]: False, digests[SHARED]: True}
    await owners.log.owner(
        "UPDATE runs.blob SET used_at = used_at - interval '9 days', unnamed_until = unnamed_until - interval '9 days'"
    )
    [found] = await owners.log.owner("SELECT unused FROM runs.find_unused_blobs($1, 10)", PROJECT)
    assert found[0] == [digests[AGAIN]], "nothing has named it since, and it goes as any other"


async def test_a_blob_that_only_a_dead_letter_of_another_run_names_stays_until_it_is_settled(owners: Owners) -> None:
    first, second = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    letter = (
        "INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, project)"
        " VALUES ('TOOLOUT', 's', $1, 'r', convert_to($2, 'UTF8'), $3)"
    )
    for run_id, text in ((first, OWN), (second, SHARED)):
        await owners.log.owner(letter, run_id, json.dumps({"result_digest": digests[text]}), PROJECT)
    await owners.erase(first)
    assert await blobs_left(owners) == [SHARED]
    old = "UPDATE runs.blob SET unnamed_until = now() - interval '2 days' WHERE project = $1"
    for settled, unused in ((False, []), (True, [digests[SHARED]])):
        await owners.log.owner(old, PROJECT)
        if settled:
            await owners.log.owner("DELETE FROM runs.dead_letter")
        await owners.log.owner("UPDATE runs.blob SET used_at = now() - interval '9 days'")
        [found] = await owners.log.owner("SELECT unused FROM runs.find_unused_blobs($1, 10)", PROJECT)
        assert found[0] == unused


async def test_a_blob_that_only_the_ledger_of_another_run_names_stays(owners: Owners) -> None:
    first, second = await owners.all_runs()
    digests = await store_blobs(owners, SHARED, OWN, AGAIN, named_by=first)
    fact = json.dumps({"blob": digests[SHARED]})
    await owners.log.owner("UPDATE tas.tool_call SET fact = $2 WHERE run_id = $1", second, fact)
    await owners.erase(first)
    assert await blobs_left(owners) == [SHARED]


async def test_an_erasure_that_can_not_be_finished_holds_up_no_other(owners: Owners) -> None:
    first, second = await owners.all_runs()
    broken, whole = await owners.confirm(first), await owners.confirm(second)
    assert broken.erasure_id < whole.erasure_id
    for table, column in (("runs.run_event", "run_id"), ("history.run_cursor", "run_id"), ("tas.tool_call", "run_id")):
        name = table.replace(".", "_")
        await owners.log.owner(
            f"CREATE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF coalesce(NEW.{column}, OLD.{column}) = '{first}' THEN PERFORM 1 / 0; END IF;"
            " RETURN coalesce(NEW, OLD); END $$"
        )
        await owners.log.owner(
            f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION {name}_refuse()"
        )
    for part in (owners.erase_runs, owners.erase_history, owners.log.erasures.finish):
        await part()
    status = "SELECT status FROM tas.erasure ORDER BY erasure_id"
    assert [row[0] for row in await owners.log.owner(status)] == ["confirmed", "done"]
    await owners.log.owner("DROP TRIGGER refuse ON runs.run_event")
    await RunErasureLoop(owners.runs, RUNS, LOG).finish()
    for part in (owners.erase_history, owners.log.erasures.finish):
        await part()
    assert [row[0] for row in await owners.log.owner(status)] == ["confirmed", "done"]
    assert await owners.runs.fetch(RUNS.due, []) == []


async def test_a_broker_that_refuses_one_erasure_holds_up_no_other(owners: Owners) -> None:
    first, second = await owners.all_runs()
    for run_id in (first, second):
        await owners.confirm(run_id)

    async def purge(run_ids: Sequence[UUID]) -> None:
        if first in run_ids:
            raise TimeoutError

    await RunErasureLoop(owners.runs, RUNS, LOG, purge=purge).finish()
    erased = await owners.log.owner("SELECT run_id FROM runs.run WHERE erased_at IS NOT NULL")
    assert [row[0] for row in erased] == [second]


async def test_a_word_about_an_erasure_that_is_carried_out_waits_for_nobody(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await owners.all_runs()
    erasure = await owners.confirm(first)
    monkeypatch.setattr(erasures, "AWAIT_RUN_S", 0.6)
    connection = await owners.runs.acquire()
    async with connection.transaction():
        assert await connection.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id) == 1
        words = {"project": PROJECT, "erasure_id": erasure.erasure_id}
        async with asyncio.timeout(60):
            again = await owners.log.erasures.decide(DecideErasure(**words, verdict="confirm", actor="eve"))
            assert again.status == "confirmed"
            with pytest.raises(ProblemError, match="erasure_settled"):
                await owners.log.erasures.decide(DecideErasure(**words, verdict="withdraw", actor="dana"))
    await owners.runs.release(connection)
