"""Runs erased in a real Postgres by their owners' roles: what goes, what stays, who may do it, and what is proved."""

import asyncio
from uuid import uuid4

import asyncpg
import pytest
from tests.support.tas.audit_log import PROJECT
from tests.support.tas.run_owners import Owners, owners
from tests.support.tas.tas_running import Running, shared_tas, tas
from tests.support.waiting import eventually

from towpath_audit.verifier import verify
from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.access import SettleCall
from towpath_contracts.tools.erasures import DecideErasure, ListErasures, RequestErasure
from towpath_orchestrator.adapters.run_store import QUERIES as RUN_LOG

__all__ = ["owners", "shared_tas", "tas"]


async def test_the_ledger_of_an_erased_run_is_empty_and_the_log_holds_all_the_same(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.limit(first, second)
    before = verify(await owners.log.export(), checkpoints=owners.log.kept.notes)
    await owners.erase(first)
    assert await owners.limited() == {"rule_count": [second], "fence": [second], "restored_run": [second]}
    rows = await owners.log.owner("SELECT run_id, args, args_digest, fact, status FROM tas.tool_call")
    assert {(row["args_digest"], row["fact"]) for row in rows if row["run_id"] == first} == {("", None)}
    assert all(row["fact"] and row["args_digest"] for row in rows if row["run_id"] == second)
    assert {row["status"] for row in rows} == {"succeeded"}
    report = verify(await owners.log.export(), checkpoints=owners.log.kept.notes)
    assert (before.faults, report.faults) == ([], [])
    assert (report.figures["payloads_erased"], report.figures["runs_erased"]) == (30, 1)
    assert report.figures["decisions"] == before.figures["decisions"]


async def test_bytes_of_erased_events_are_taken_off_what_their_project_has_stored(owners: Owners) -> None:
    first, _ = await owners.all_runs()
    text = "SELECT sum(octet_length(event::text)) AS bytes FROM runs.run_event WHERE run_id = $1"
    [row] = await owners.log.owner(text, first)
    assert row["bytes"] > 0
    stored = "INSERT INTO runs.project_storage (project, event_bytes) VALUES ($1, $2), ('other', 7)"
    await owners.log.owner(stored, PROJECT, row["bytes"] + 5)
    await owners.erase(first)
    rows = await owners.log.owner("SELECT event_bytes FROM runs.project_storage ORDER BY 1")
    assert [row["event_bytes"] for row in rows] == [5, 7]


async def test_rows_that_the_owner_of_the_database_empties_are_found(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.erase(first)
    for change in (
        "UPDATE tas.tool_call SET args = '{}', args_digest = '', fact = NULL, erased_at = now() WHERE run_id = $1",
        "UPDATE tas.tool_call SET args = '{\"a\":1}' WHERE run_id = $1 AND erased_at IS NOT NULL",
    ):
        await owners.log.owner(change, second)
    found = verify(await owners.log.export(), checkpoints=owners.log.kept.notes).faults
    assert {fault.code for fault in found} == {"stored_missing"}
    assert len(found) == 20
    assert all(fault.leaf is not None and fault.entry_id is not None for fault in found)
    await owners.log.owner("DELETE FROM runs.run_event WHERE run_id = $1", second)
    await owners.log.owner("UPDATE runs.run SET erased_at = now() WHERE run_id = $1", second)
    found = verify(await owners.log.export(), checkpoints=owners.log.kept.notes).faults
    assert {fault.code for fault in found} == {"stored_missing", "decision_without_run_event"}


async def test_a_run_that_the_owner_of_the_database_deletes_is_found(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.erase(first)
    for table in ("run_event", "run_fact", "run_snapshot", "run"):
        for run_id in (first, second):
            await owners.log.owner(f"DELETE FROM runs.{table} WHERE run_id = $1", run_id)
    found = verify(await owners.log.export(), checkpoints=owners.log.kept.notes).faults
    assert {fault.code for fault in found} == {"decision_without_run_event"}
    assert all(str(second) in fault.message and fault.leaf is not None for fault in found), "the other was erased"
    assert len(found) == 10


async def test_nobody_erases_what_was_not_confirmed(owners: Owners) -> None:
    first, second = await owners.all_runs()
    request = RequestErasure(project=PROJECT, actor="dana", reason="r", kind="run", run_id=first)
    asked = await owners.log.erasures.request(request)
    with pytest.raises(asyncpg.RaiseError, match="nobody confirmed"):
        await owners.runs.execute("SELECT runs.erase_runs($1, 10)", asked.erasure_id)
    with pytest.raises(asyncpg.RaiseError, match="nobody confirmed"):
        await owners.history.execute("SELECT history.erase_runs($1, 10)", asked.erasure_id)
    confirmed = await owners.confirm(first)
    await owners.log.owner("UPDATE tas.erasure SET run_ids = run_ids || $1::uuid", second)
    with pytest.raises(asyncpg.RaiseError, match="asked for or confirmed for other runs"):
        await owners.runs.execute("SELECT runs.erase_runs($1, 10)", confirmed.erasure_id)
    for pool, statement in (
        (owners.runs, "DELETE FROM runs.run_event"),
        (owners.runs, "DELETE FROM runs.blob"),
        (owners.runs, "UPDATE runs.blob SET data = ''"),
        (owners.runs, "SELECT tas.note_erased_part(gen_random_uuid(), 'runs')"),
        (owners.history, "DELETE FROM history.tool_log"),
        (owners.log.pool, "DELETE FROM tas.tool_call"),
        (owners.log.pool, "SELECT tas.empty_calls('{}', 1)"),
        (owners.log.pool, "UPDATE tas.erasure SET parts = '{runs}'"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await pool.execute(statement)


async def test_a_run_that_is_put_below_one_later_is_not_erased_with_it(owners: Owners) -> None:
    first, second = await owners.all_runs()
    request = RequestErasure(project=PROJECT, actor="dana", reason="a test", kind="run", run_id=first)
    asked = await owners.log.erasures.request(request)
    assert (asked.runs, asked.run_ids) == (1, (first,))
    (listed,) = (await owners.log.erasures.list(ListErasures(project=PROJECT))).erasures
    assert (listed.runs, listed.run_ids) == (1, (first,))
    await owners.log.owner("UPDATE runs.run SET parent_run_id = $1 WHERE run_id = $2", first, second)
    word = DecideErasure(project=PROJECT, erasure_id=asked.erasure_id, verdict="confirm", actor="eve")
    with pytest.raises(ProblemError, match="erasure_changed"):
        await owners.log.erasures.decide(word)
    await owners.log.owner("UPDATE tas.erasure SET run_ids = $1", [first, second])
    (shown,) = (await owners.log.erasures.list(ListErasures(project=PROJECT))).erasures
    assert shown.runs == 2, "whoever confirms sees it"
    await owners.log.erasures.decide(word)
    with pytest.raises(asyncpg.RaiseError, match="asked for or confirmed for other runs"):
        await owners.runs.execute("SELECT runs.erase_runs($1, 10)", asked.erasure_id)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owners.log.pool.execute("UPDATE tas.erasure SET run_ids = '{}'")


async def test_live_runs_and_those_of_other_projects_are_refused(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.log.owner(
        "UPDATE runs.run SET status = 'running', parent_run_id = $1 WHERE run_id = $2", first, second
    )
    for run_id, project, code in (
        (first, PROJECT, "run_not_ended"),
        (first, "bank", "run_not_found"),
        (uuid4(), PROJECT, "run_not_found"),
    ):
        request = RequestErasure(project=project, actor="dana", reason="r", kind="run", run_id=run_id)
        with pytest.raises(ProblemError, match=code):
            await owners.log.erasures.request(request)
    await owners.log.owner("UPDATE runs.run SET status = 'failed' WHERE run_id = $1", second)
    await owners.erase(first)
    assert [row[0] for row in await owners.log.owner("SELECT erased_at IS NULL FROM runs.run")] == [False, False]
    with pytest.raises(ProblemError, match="run_erased"):
        await owners.confirm(first)


async def test_a_run_is_erased_with_the_runs_that_continue_it_which_begin_with_what_it_said(owners: Owners) -> None:
    first, second = await owners.all_runs()
    behind = "UPDATE runs.run SET status = $3, continues = $1, thread_id = $1 WHERE run_id = $2"
    await owners.log.owner(behind, first, second, "running")
    request = RequestErasure(project=PROJECT, actor="dana", reason="r", kind="run", run_id=first)
    with pytest.raises(ProblemError, match="below or behind it"):
        await owners.log.erasures.request(request)
    await owners.log.owner(behind, first, second, "completed")
    asked = await owners.log.erasures.request(request)
    assert asked.run_ids == (first, second), "whoever asks sees it"
    later = request.model_copy(update={"run_id": second})
    assert (await owners.log.erasures.request(later)).run_ids == (second,), "what came before it stays"
    await owners.erase(first)
    assert await owners.log.owner("SELECT 1 FROM runs.run_event") == []
    assert [row[0] for row in await owners.log.owner("SELECT erased_at IS NULL FROM runs.run")] == [False, False]


async def test_letters_gates_notices_and_states_go_and_the_row_stays(owners: Owners) -> None:
    first, second = await owners.all_runs()
    for run_id in (first, second):
        await owners.log.owner(
            "WITH g AS (INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail,"
            " opened_at, expires_at) VALUES (gen_random_uuid(), $1, $2, '', 'paused', 'void', 'r', '{}', now(), now())"
            " RETURNING gate_id) INSERT INTO runs.notice (notice_id, webhook, gate_id, project, kind, body)"
            " SELECT gen_random_uuid(), 'w', gate_id, $2, 'gate.opened', 'body' FROM g",
            *(run_id, PROJECT),
        )
        await owners.runs.execute(RUN_LOG.save_snapshot, run_id, 3, "1", "{}")
        for named in (run_id, None):
            await owners.log.owner(
                "INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, project, delivery)"
                " VALUES ('INBOX', 's', $1, 'r', $2, $3, $4)",
                *(named, f"about {run_id}".encode(), PROJECT, hash((run_id, named)) % 2**62),
            )
    await owners.log.owner("UPDATE runs.run SET user_message = 'secret', labels = '{\"a\": \"b\"}', outcome = '{}'")
    (seq,) = await owners.log.owner("SELECT seq FROM runs.run WHERE run_id = $1", first)
    await owners.erase(first)
    for table in ("gate", "notice", "run_snapshot", "run_event"):
        assert len(await owners.log.owner(f"SELECT 1 FROM runs.{table}")) == 1, table
    assert len(await owners.log.owner("SELECT 1 FROM runs.dead_letter")) == 2
    (row,) = await owners.log.owner("SELECT * FROM runs.run WHERE run_id = $1", first)
    assert (row["user_message"], row["labels"], row["outcome"], row["status"]) == ("", "{}", None, "completed")
    assert row["seq"] == seq["seq"] + 1
    await owners.runs.execute(RUN_LOG.save_snapshot, first, 3, "1", '{"late": true}')
    assert len(await owners.log.owner("SELECT 1 FROM runs.run_snapshot")) == 1, "a late state is not stored"
    times = await owners.runs.fetch(RUN_LOG.times, [first, second])
    assert [found["run_id"] for found in times] == [second], "facts for it find no run"


async def test_letters_of_another_project_stay_whatever_they_say(owners: Owners) -> None:
    first, _ = await owners.all_runs()
    for place, (project, run_id) in enumerate(
        ((PROJECT, first), (PROJECT, None), (None, first), (None, None), ("bank", first), ("bank", None))
    ):
        await owners.log.owner(
            "INSERT INTO runs.dead_letter (stream, subject, run_id, reason, body, project, delivery)"
            " VALUES ('INBOX', 's', $1, 'r', $2, $3, $4)",
            *(run_id, f"about {first}".encode(), project, place),
        )
    await owners.erase(first)
    left = await owners.log.owner("SELECT project, run_id IS NULL FROM runs.dead_letter ORDER BY 2")
    assert [tuple(row) for row in left] == [("bank", False), ("bank", True)]


async def test_a_part_that_is_cut_off_is_done_again_whole(owners: Owners) -> None:
    first, _ = await owners.all_runs()
    erasure = await owners.confirm(first)
    connection = await owners.runs.acquire()
    cut = connection.transaction()
    await cut.start()
    assert await connection.fetchval("SELECT runs.erase_runs($1, 10)", erasure.erasure_id) == 1
    await cut.rollback()
    await owners.runs.release(connection)
    assert await owners.log.owner("SELECT 1 FROM runs.run WHERE erased_at IS NOT NULL") == []
    for _ in range(2):  # what is done twice is done once
        for part in (owners.erase_runs, owners.erase_history, owners.log.erasures.finish):
            await part()
    (row,) = await owners.log.owner("SELECT status, parts, erased FROM tas.erasure")
    assert tuple(row) == ("done", ["runs", "blobs", "history", "tas"], 30)
    assert verify(await owners.log.export(), checkpoints=owners.log.kept.notes).faults == []


async def test_a_request_that_comes_late_opens_no_call_of_an_erased_run(tas: Running) -> None:
    request = tas.caller.request("orders.refund", args={"late": "canary"})
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute(
            "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller,"
            " created_at, updated_at, erased_at) VALUES ($1, $2, '', '', 1, '', 'failed', 3, '', now(), now(), now())",
            *(request.run_id, tas.caller.project),
        )
        await tas.caller.put(request)
        later = await tas.caller.call("orders.refund")  # behind it in the same queue
        assert await connection.fetchval("SELECT count(*) FROM tas.tool_call WHERE run_id = $1", later.run_id) == 1
        await asyncio.sleep(0.5)
        assert await connection.fetch("SELECT 1 FROM tas.tool_call WHERE run_id = $1", request.run_id) == []
        assert await connection.fetch("SELECT 1 FROM tas.audit_record WHERE run_id = $1", request.run_id) == []
        assert await connection.fetch("SELECT 1 FROM runs.dead_letter WHERE run_id = $1", request.run_id) == []
    finally:
        await connection.close()


async def test_what_comes_late_of_an_erased_call_is_confirmed_and_not_stored(tas: Running) -> None:
    called = await tas.caller.call("orders.refund")
    claimed = await tas.caller.claim(called)
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute(
            "UPDATE tas.tool_call SET args = '{}', context = '{}', claims = '[]', revision = revision + 1,"
            " erased_at = now() WHERE execution_id = $1",
            called.execution_id,
        )
        key = await tas.caller.report(called, claimed.claim_id, result={"late": "canary"})
        await eventually(lambda: key in tas.caller.confirmed)
        assert not (await tas.caller.claim(called)).granted
        settle = {"project": tas.caller.project, "run_id": called.run_id, "execution_id": called.execution_id}
        with pytest.raises(ProblemError, match="run_erased"):
            await tas.caller.send(
                rpc.SETTLE_CALL,
                SettleCall.model_validate({**settle, "verdict": "happened", "actor": "mia", "reason": "canary"}),
            )
        (row,) = await connection.fetch("SELECT * FROM tas.tool_call WHERE execution_id = $1", called.execution_id)
        assert (row["fact"], row["args"], "canary" in repr(dict(row))) == (None, "{}", False)
        assert await connection.fetch("SELECT 1 FROM tas.audit_payload WHERE detail LIKE '%canary%'") == []
    finally:
        await connection.close()
