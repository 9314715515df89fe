"""Worker processes as tool access keeps them: one row for each word, a drain that is told each time, and an end."""

import uuid

import asyncpg
import pytest
from tests.support.tas.tas_caller import TasCaller
from tests.support.tas.tas_running import Running, audit_holds, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.subjects import for_toolset
from towpath_contracts.tools.workers import GONE_S, WorkerBeat, WorkerHeard, WorkerInstance, proved_id

__all__ = ["audit_holds", "shared_tas", "tas"]


async def beat(caller: TasCaller, worker: str, toolset: str = "orders", *, of: str = "", **more: object) -> WorkerHeard:
    said = WorkerBeat.model_validate(
        {"project": caller.project, "toolset": of or toolset, "worker_id": worker, "name": "w-1", "slots": 4, **more}
    )
    subject = for_toolset(rpc.WORKER_BEAT.subject, caller.project, toolset)
    reply = await caller.nc.request(subject, said.model_dump_json().encode(), timeout=60)
    if reply.headers and rpc.PROBLEM_HEADER in reply.headers:
        raise AssertionError(reply.data)
    return WorkerHeard.model_validate_json(reply.data)


async def listed(caller: TasCaller) -> dict[str, WorkerInstance]:
    found = await caller.ask(rpc.LIST_WORKERS, project=caller.project)
    return {one.worker_id: one for one in found.workers}


async def test_a_drain_is_told_with_every_answer_and_stands_in_the_audit_once(tas: Running) -> None:
    caller, one, other = tas.caller, uuid.uuid4().hex, uuid.uuid4().hex
    assert not (await beat(caller, one, up_s=60.0, in_flight=2)).drain
    await beat(caller, one, "mail", in_flight=2)
    await beat(caller, other)
    found = (await listed(caller))[one]
    assert (found.state, found.toolsets, found.calls, found.slots) == ("taking", ("mail", "orders"), 2, 4)
    order = {
        "project": caller.project,
        "worker_id": one,
        "actor": "ann",
        "roles": ("operator",),
        "reason": "new version",
    }
    with pytest.raises(ProblemError, match="operator"):
        await caller.ask(rpc.DRAIN_WORKER, **{**order, "roles": ()})
    assert (await caller.ask(rpc.DRAIN_WORKER, **order)).changed
    assert not (await caller.ask(rpc.DRAIN_WORKER, **order)).changed
    assert (await beat(caller, one, in_flight=1)).drain and (await beat(caller, one, "mail", in_flight=1)).drain
    assert not (await beat(caller, other)).drain
    found = (await listed(caller))[one]
    assert (found.state, found.drained_by, found.reason) == ("draining", "ann", "new version")
    await beat(caller, one, idle=True)
    assert (await listed(caller))[one].state == "drained"
    drained = [entry for entry in await caller.audit() if entry.phase == "worker.drained"]
    assert [(entry.actor, entry.verdict) for entry in drained] == [("ann", "drained")]
    with pytest.raises(ProblemError, match="says that it is there"):
        await caller.ask(rpc.DRAIN_WORKER, **{**order, "project": "another"})


async def test_a_process_that_takes_no_more_by_itself_is_shown_as_draining_from_its_first_word_on(tas: Running) -> None:
    caller, one, other = tas.caller, uuid.uuid4().hex, uuid.uuid4().hex
    await beat(caller, one, in_flight=1)
    assert (await beat(caller, one, in_flight=1, draining=True)).drain
    found = (await listed(caller))[one]
    assert (found.state, found.drained_by) == ("draining", "") and found.drained_at is not None
    await beat(caller, one, draining=True, idle=True)
    await beat(caller, other, in_flight=1, draining=True)
    now = await listed(caller)
    assert (now[one].state, now[one].drained_at) == ("drained", found.drained_at)
    assert now[other].state == "draining"
    assert (await beat(caller, one, draining=True, idle=True, ending=True)).drain
    assert (await beat(caller, one, draining=True, idle=True, ending=True)).drain
    now = await listed(caller)
    assert one not in now and other in now, "who ended after its calls is looked for by nobody"


async def test_who_is_silent_is_gone_then_forgotten_and_one_toolset_has_a_bounded_number(tas: Running) -> None:
    caller, one, new = tas.caller, uuid.uuid4().hex, uuid.uuid4().hex
    await beat(caller, one)
    age = "UPDATE tas.worker SET heard_at = now() - make_interval(secs => $2) WHERE project = $1 AND worker_id <> $3"
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute(age, caller.project, 30.0, new)
        assert (await listed(caller))[one].state == "gone"
        with pytest.raises(ProblemError):
            await caller.ask(rpc.DRAIN_WORKER, project=caller.project, worker_id=one, actor="ann", roles=("operator",))
        await connection.execute(age, caller.project, 900.0, new)
        assert await listed(caller) == {}
        await connection.execute("DELETE FROM tas.worker WHERE project = $1", caller.project)
        await beat(caller, one, idle=True)
        assert (await listed(caller))[one].state == "drained", "as it says itself, though its drain is forgotten"
        await connection.execute(age, caller.project, 900.0, new)
        await connection.execute(
            "INSERT INTO tas.worker (project, toolset, worker_id, name, host, version, slots, calls, idle, started_at,"
            " heard_at) SELECT $1, 'orders', lpad(n::text, 32, '0'), 'w', '', '', 1, 0, false, now(), now()"
            " FROM generate_series(1, 256) n",
            caller.project,
        )
        assert not (await beat(caller, new)).drain
        kept = await connection.fetchval("SELECT count(*) FROM tas.worker WHERE project = $1", caller.project)
        assert kept == 256, "the forgotten one is deleted, and there is no room for a new one"
        quiet = (
            "UPDATE tas.worker SET heard_at = now() - make_interval(secs => $2) WHERE project = $1 AND worker_id = $3"
        )
        longest, shorter = ("0" * 29 + number for number in ("007", "008"))
        await connection.execute(quiet, caller.project, GONE_S - 5, longest)
        await beat(caller, new)
        assert new not in await listed(caller), "who is only late makes no room"
        await connection.execute(quiet, caller.project, GONE_S + 20, longest)
        await connection.execute(quiet, caller.project, GONE_S + 10, shorter)
        await beat(caller, new)
        now = await listed(caller)
        assert new in now and longest not in now and shorter in now and len(now) == 256, "who is gone longest does"
        drained, other = "0" * 29 + "009", proved_id("another")
        drain = "UPDATE tas.worker SET drained_at = now() WHERE project = $1 AND worker_id = $2"
        await connection.execute(quiet, caller.project, GONE_S + 30, drained)
        await connection.execute(drain, caller.project, drained)
        await beat(caller, other, proof="another")
        now = await listed(caller)
        assert other in now and drained in now and shorter not in now, "who is drained may come back, and stays"
    finally:
        await connection.close()


async def test_nobody_speaks_for_a_process_whose_proof_is_not_known(tas: Running) -> None:
    caller, worker = tas.caller, proved_id("its own")
    await beat(caller, worker, proof="its own")
    for proof in ("", "another", worker, proved_id(worker)):
        with pytest.raises(AssertionError, match="forbidden"):
            await beat(caller, worker, "mail", idle=True, proof=proof)
    found = (await listed(caller))[worker]
    assert (found.state, found.toolsets) == ("taking", ("orders",))


async def test_toolsets_of_many_processes_leave_room_for_others_and_each_process_is_listed_once(tas: Running) -> None:
    caller = tas.caller
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute(
            "INSERT INTO tas.worker (project, toolset, worker_id, name, host, version, slots, calls, idle, started_at,"
            " heard_at) SELECT $1, 'many-' || t, lpad(n::text, 32, '0'), 'w', '', '', 1, 0, false,"
            " now() - interval '1 year', now() FROM generate_series(1, 256) n, generate_series(1, 4) t",
            caller.project,
        )
        one, other = "e" * 32, "f" * 32
        for toolset in ("orders", "mail"):
            await beat(caller, one, toolset)
            await beat(caller, other, toolset)
        found = await caller.ask(rpc.LIST_WORKERS, project=caller.project)
        ids = [worker.worker_id for worker in found.workers]
        assert len(ids) == len(set(ids)), "though the toolsets of several began at the same time"
        shown = {worker.worker_id: worker.toolsets for worker in found.workers}
        assert shown[one] == shown[other] == ("mail", "orders") and found.left_out == 28
    finally:
        await connection.close()


async def test_a_word_about_another_toolset_than_the_subject_names_is_refused(tas: Running) -> None:
    with pytest.raises(AssertionError, match="forbidden"):
        await beat(tas.caller, uuid.uuid4().hex, "orders", of="mail")


async def test_a_worker_hears_which_of_its_runs_have_ended_and_of_other_projects_nothing(tas: Running) -> None:
    caller, one = tas.caller, uuid.uuid4().hex
    going, done, elsewhere, gone = (uuid.uuid4() for _ in range(4))
    begun = (
        "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller,"
        " created_at, updated_at) VALUES ($1, $2, 'agent', 'n', 1, 'd', $3, 1, 'ann', now(), now())"
    )
    rows = [(going, caller.project, "waiting"), (done, caller.project, "completed"), (elsewhere, "another", "running")]
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.executemany(begun, rows)
        asked = (going, done, elsewhere, gone)
        assert set((await beat(caller, one, runs=asked)).ended) == {done, elsewhere, gone}, "from its first word on"
        await connection.execute("UPDATE runs.run SET status = 'cancelled' WHERE run_id = $1", going)
        assert (await beat(caller, one, runs=(going,))).ended == (going,)
        assert (await beat(caller, one)).ended == ()
    finally:
        await connection.execute("DELETE FROM runs.run WHERE run_id = ANY ($1)", [row[0] for row in rows])
        await connection.close()
