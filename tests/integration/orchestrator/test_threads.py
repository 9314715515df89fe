"""A run that has ended is continued: a thread is a line of runs with one conversation, which replays."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.integration.orchestrator.test_task_runs import ended, publish, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator

from towpath_contracts import rpc
from towpath_contracts.runs.forks import ForkOptions, ForkRun
from towpath_contracts.runs.records import ReplayRuns
from towpath_contracts.runs.views import GetEvents, GetRun, ListRuns
from towpath_contracts.tasks import SubmitTask

CONFIRMED = (
    "INSERT INTO tas.erasure"
    " (erasure_id, project, kind, reason, status, requested_by, requested_at, alone_from, run_ids)"
    " SELECT id, 'default', 'run', 'r', 'confirmed', 'dana', now(), now(), ARRAY[coalesce($1::uuid, id)]"
    " FROM unnest($2::uuid[]) AS id"
)
"""Erasures that nobody carries out, as the log of the audit has nothing of them."""

EARLIER = [UUID(int=number) for number in range(1, 121)]
"""More than are looked for at once; those with the least ids come first."""


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def submit(peers: Peers, message: str, caller: str = "", **options: Any) -> Any:
    task = SubmitTask.model_validate({"network": "solo", "user_message": message, **options})
    subject = f"task.submit.{caller}" if caller else "task.submit"
    return json.loads((await peers.raw(subject, task.model_dump_json().encode())).data)


async def completed(peers: Peers, message: str, **options: Any) -> str:
    accepted = await submit(peers, message, **options)
    assert "run_id" in accepted and "code" not in accepted, accepted
    assert (await ended(peers, accepted["run_id"])).status == "completed"
    run_id: str = accepted["run_id"]
    return run_id


async def view(peers: Peers, run_id: str) -> Any:
    return await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=UUID(run_id)))


async def fork(peers: Peers, run_id: str) -> Any:
    request = ForkRun(
        project="default", run_id=UUID(run_id), caller="anonymous", actor="bob", options=ForkOptions(from_step=2)
    )
    return json.loads((await peers.raw(rpc.FORK_RUN.subject, request.model_dump_json().encode())).data)


async def forked(peers: Peers, run_id: str) -> str:
    run: str = (await fork(peers, run_id))["run_id"]
    return run


def shown(peers: Peers, run_id: str) -> list[tuple[str, str]]:
    """Return the earlier turns that the first decision of a run was shown."""
    asked = next(one for one in peers.decisions if str(one.run_id) == run_id)
    return [(turn.role, turn.content) for turn in asked.context.messages]


async def test_b4_a_run_is_continued_by_whoever_may_read_it_and_only_once(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    dsn = database()
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        given = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
        files = [{"mount_path": "in", "files": [{"path": "a.md", "content": "text"}]}]
        first = await completed(peers, "Is it lit?", messages=given, labels={"team": "x"}, mounts=files)
        assert shown(peers, first) == [("user", "Hello."), ("assistant", "Hello!")]
        await publish(peers)

        asked = {"continues": first, "idempotency_key": "k"}
        second = await completed(peers, "And now?", **asked)
        turns = [("user", "Hello."), ("assistant", "Hello!"), ("user", "Is it lit?"), ("assistant", "done")]
        assert shown(peers, second) == turns
        page = await peers.ask(rpc.EVENTS, GetEvents(project="default", run_id=UUID(second), limit=1))
        assert [(file.path, file.size) for file in page.entries[0].event.workspace] == [("in/a.md", 4)]
        repeated = await submit(peers, "And now?", **asked)
        assert (repeated["run_id"], repeated["duplicate"]) == (second, True)
        assert (await submit(peers, "And then?", **asked))["code"] == "idempotency_conflict"
        again = await submit(peers, "And now?", continues=first)
        assert (again["code"], again["run_id"]) == ("run_continued", second)

        third = await completed(peers, "Thanks.", continues=second)
        assert shown(peers, third) == [*turns, ("user", "And now?"), ("assistant", "done")]
        views = [await view(peers, run_id) for run_id in (first, second, third)]
        assert {str(one.thread_id) for one in views} == {first}
        assert [one.previous_run_id and str(one.previous_run_id) for one in views] == [None, first, second]
        assert [one.next_run_id and str(one.next_run_id) for one in views] == [second, third, None]
        assert {one.labels["team"] for one in views} == {"x"}
        other = await completed(peers, "Something else.")
        page = await peers.ask(rpc.LIST_RUNS, ListRuns(project="default", thread_id=UUID(first)))
        assert [str(one.run_id) for one in page.runs] == [third, second, first]
        assert str((await view(peers, other)).thread_id) == other

        racing = await asyncio.gather(*(submit(peers, f"{n}", continues=third) for n in range(6)))
        made = [one["run_id"] for one in racing if "code" not in one]
        assert (len(made), {one["code"] for one in racing if "code" in one}) == (1, {"run_continued"})
        await ended(peers, made[0])

        branch = await forked(peers, second)
        await ended(peers, branch)
        assert shown(peers, branch) == turns
        assert str((await view(peers, branch)).thread_id) == branch, "a thread of its own"
        await completed(peers, "And here?", continues=branch)
        await change(dsn, "UPDATE runs.run SET depth = 1 WHERE run_id = $1", UUID(second))
        other = await forked(peers, second)
        await ended(peers, other)
        refused = await submit(peers, "x", continues=other)
        assert refused["code"] == "reply_refused", "a model wrote the task of the run that it is forked from"
        await change(dsn, "UPDATE runs.run SET depth = 0 WHERE run_id = $1", UUID(second))
        replayed = await peers.ask(rpc.REPLAY_RUNS, ReplayRuns(project="default"))
        assert (replayed.runs, replayed.identical) == (8, 8)

        await change(dsn, "UPDATE runs.run SET erased_at = now() WHERE run_id = $1", UUID(made[0]))
        assert (await view(peers, third)).next_run_id is None
        await completed(peers, "Once more.", continues=third)


async def test_what_can_not_be_continued_is_refused_with_a_code(database: Any, nats_server: Any, peers: Peers) -> None:
    dsn = database()
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        assert (await submit(peers, "x", continues=str(uuid4())))["code"] == "run_not_found"
        first = await completed(peers, "Is it lit?")
        await change(dsn, "UPDATE runs.run SET caller = 'bob' WHERE run_id = $1", UUID(first))
        assert (await submit(peers, "x", continues=first))["code"] == "run_not_found", "anonymous sees its own alone"
        await change(dsn, "UPDATE runs.run SET caller = 'anonymous', project = 'other' WHERE run_id = $1", UUID(first))
        assert (await submit(peers, "x", continues=first))["code"] == "run_not_found"
        await change(dsn, "UPDATE runs.run SET project = 'default', depth = 1 WHERE run_id = $1", UUID(first))
        assert (await submit(peers, "x", continues=first))["code"] == "reply_refused"
        await change(dsn, "UPDATE runs.run SET depth = 0 WHERE run_id = $1", UUID(first))
        await change(dsn, CONFIRMED, None, EARLIER)
        await change(dsn, CONFIRMED, UUID(first), [UUID(int=1_000)])
        assert (await submit(peers, "x", continues=first))["code"] == "run_erased", "nobody adds to what is to go"
        assert (await fork(peers, first))["code"] == "run_erased", "nor begins with it, however many are to go"
        assert await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=UUID(first))), "it is there still"
        await change(dsn, "UPDATE runs.run SET erased_at = now() WHERE run_id = $1", UUID(first))
        assert (await submit(peers, "x", continues=first))["code"] == "run_erased"
        peers.answer_tools = False
        waiting = (await submit(peers, "Wait."))["run_id"]
        refused = await submit(peers, "x", continues=waiting)
        assert (refused["code"], "runs cancel" in refused["remedy"]) == ("run_not_ended", True)


async def test_a_run_that_is_erased_while_it_is_continued_is_not_continued(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        first = await completed(peers, "Is it lit?")
        eraser = await asyncpg.connect(database())
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        async with eraser.transaction():
            await eraser.execute("SELECT 1 FROM runs.run WHERE run_id = $1 FOR UPDATE", UUID(first))
            replying = asyncio.create_task(submit(peers, "And now?", continues=first, idempotency_key="k"))
            async with asyncio.timeout(60):
                while not replying.done() and not await eraser.fetch(waits):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await eraser.execute("UPDATE runs.run SET erased_at = now() WHERE run_id = $1", UUID(first))
        assert (await replying).get("code") == "run_erased"
        assert await eraser.fetchval("SELECT count(*) FROM runs.run") == 1
        assert await eraser.fetchval("SELECT count(*) FROM runs.idempotency WHERE key = 'k'") == 0
        await eraser.close()


async def test_a_reply_that_comes_too_late_leaves_its_key_free(database: Any, nats_server: Any, peers: Peers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        first, other = await completed(peers, "Is it lit?"), await completed(peers, "Something else.")
        holder = await asyncpg.connect(database())
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM runs.run WHERE run_id = $1 FOR UPDATE", UUID(other))
            before = asyncio.create_task(submit(peers, "x", continues=other))
            async with asyncio.timeout(60):
                while not await holder.fetch(waits):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            replying = [
                asyncio.create_task(submit(peers, f"{n}", continues=first, idempotency_key=f"k{n}")) for n in range(4)
            ]
            await asyncio.sleep(1)  # they wait behind it, to be stored together
        racing = await asyncio.gather(before, *replying)
        (made,) = [one["run_id"] for one in racing[1:] if "code" not in one]
        late = next(n for n, one in enumerate(racing[1:]) if one.get("code") == "run_continued")
        assert await holder.fetchval("SELECT count(*) FROM runs.idempotency") == 1
        await ended(peers, made)
        await completed(peers, "And now?", continues=made, idempotency_key=f"k{late}")
        await holder.close()


async def change(dsn: str, statement: str, *values: Any) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()
