"""Quotas of projects on two real orchestrators, with real NATS and Postgres: how many runs they accept together."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use

from towpath_contracts import rpc, streams
from towpath_contracts.budgets import ProjectQuota, QuotaStatus, SetQuota, ShowQuota
from towpath_contracts.dead_letters import DeadLetter, DeadLetterPage, ListDeadLetters, SettleDeadLetter
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.tasks import SubmitTask

PROJECT = "default"

MINUTE = "SELECT floor(extract(epoch FROM now()) / 60)::bigint"
CALLS_COUNTED = (
    "INSERT INTO tas.rate_count (project, rule, per_s, window_no, used) VALUES ($1, 'quota of calls', 60, $2, 5)"
    " ON CONFLICT (project, rule) DO UPDATE SET window_no = excluded.window_no"
)

STORED = "SELECT event_bytes FROM runs.project_storage WHERE project = $1"
WRITTEN = (
    "SELECT sum(octet_length(e.event::text)) FROM runs.run_event e JOIN runs.run r USING (run_id) WHERE r.project = $1"
)
BLOB = "INSERT INTO runs.blob (project, digest, data, size) VALUES ($1, 'd', '', 1000)"

SUBJECTS = ("task.submit", "task.submit.bob", "task.submit.eve")


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda request: use("hello") if request.step < 2 else respond("done"))
        await found.start()
        yield found
        await found.stop()


async def submit(peers: Peers, subject: str = "task.submit", **options: Any) -> dict[str, Any]:
    task = SubmitTask(network="solo", user_message="hello", **options)
    return dict(json.loads((await peers.raw(subject, task.model_dump_json().encode())).data))


async def set_quota(peers: Peers, *roles: str, project: str = PROJECT, **limits: int) -> dict[str, Any]:
    quota = ProjectQuota.model_validate(limits) if limits else None
    request = SetQuota(project=project, quota=quota, actor="ann", roles=roles, reason="the free plan")
    return dict(json.loads((await peers.raw(rpc.SET_QUOTA.subject, request.model_dump_json().encode())).data))


async def used(peers: Peers) -> dict[str, int]:
    status = await peers.ask(rpc.SHOW_QUOTA, ShowQuota(project=PROJECT))
    assert isinstance(status, QuotaStatus)
    return {use.name: use.used for use in status.uses}


async def test_replicas_together_keep_a_project_to_its_quota(database: Any, nats_server: Any, peers: Peers) -> None:
    settings = {"dsn": database("orchestrator"), "nats_url": nats_server.url()}
    async with orchestrator(**settings) as first, orchestrator(**settings) as second:
        await asyncio.gather(first.wait_ready(), second.wait_ready())
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project=PROJECT, actor="test", spec=NETWORK))
        await only_an_operator_sets_it(peers)
        await runs_of_a_day_end_at_the_limit(peers)
        await a_repeat_takes_nobodys_place(peers)
        await runs_that_have_not_ended_end_at_the_limit(peers)
        await yesterday_counts_no_more(peers, database())
        await enqueued_tasks_above_it_are_set_aside(peers)
        await tool_calls_of_a_minute_are_told_and_refuse_no_task(peers, database())
        await stored_bytes_are_counted_and_refuse_tasks(peers, database())
        await nobody_else_waits_for_who_holds_a_quota(peers, database())
        await set_quota(peers, "operator")
        assert await used(peers) == {}
        assert [one["code"] for one in await several(peers, 12) if "code" in one] == []
    await nothing_is_left_uncounted_by_a_stop(database())


async def several(peers: Peers, count: int, **options: Any) -> list[dict[str, Any]]:
    return await asyncio.gather(*(submit(peers, **options) for _ in range(count)))


async def only_an_operator_sets_it(peers: Peers) -> None:
    assert (await set_quota(peers, runs_per_day=1))["code"] == "role_missing"
    assert await used(peers) == {}
    status = await set_quota(peers, "operator", runs_per_day=10)
    assert "code" not in status, status["detail"]
    assert (status["set_by"], status["reason"]) == ("ann", "the free plan")
    [action] = [one for one in peers.actions if one.action.startswith("quota")]
    assert (action.action, action.actor, action.reason) == ("quota.set", "ann", "the free plan")
    assert action.detail["quota"] == {"runs_per_day": 10}


async def runs_of_a_day_end_at_the_limit(peers: Peers) -> None:
    """Of forty at once, at two replicas, exactly ten are accepted; a repeated key is answered whatever the quota."""
    kept = await submit(peers, idempotency_key="kept")
    answers = await several(peers, 40)
    refused = [one for one in answers if "code" in one]
    assert len(answers) - len(refused) == 9
    assert {one["code"] for one in refused} == {"quota_exceeded"}
    assert "10 of 10 runs per day; it frees at " in refused[0]["detail"]
    assert 0 < refused[0]["retry_after_s"] <= 86_400
    assert await used(peers) == {"runs_per_day": 10}
    for _ in range(8):  # so that each of both replicas is asked
        again = await submit(peers, idempotency_key="kept")
        assert (again["run_id"], again["duplicate"]) == (kept["run_id"], True)
    assert await used(peers) == {"runs_per_day": 10}


async def a_repeat_takes_nobodys_place(peers: Peers) -> None:
    """One place is left, and tasks that were accepted before come in front of a new one, in the same batches."""
    await set_quota(peers, "operator", runs_per_day=11)
    repeats = [submit(peers, idempotency_key="kept") for _ in range(40)]
    new = [submit(peers, idempotency_key="eleventh") for _ in range(2)]
    answers = await asyncio.gather(*repeats, *new)
    assert [one for one in answers if "code" in one] == []
    assert len({one["run_id"] for one in answers}) == 2
    assert await used(peers) == {"runs_per_day": 11}
    assert (await submit(peers))["code"] == "quota_exceeded"


async def runs_that_have_not_ended_end_at_the_limit(peers: Peers) -> None:
    await set_quota(peers, "operator", unfinished_runs=4)
    await until_used(peers, 0)
    peers.answer_tools = False
    peers.requests.clear()
    answers = await several(peers, 12)
    refused = [one for one in answers if "code" in one]
    assert len(refused) == 8
    assert "used 4 of 4 unfinished runs; it frees with each run that ends" in refused[0]["detail"]
    await peers.until(lambda: len({request.run_id for request in peers.requests}) == 4)
    assert await used(peers) == {"unfinished_runs": 4}
    await peers.finish(peers.requests[0])
    await until_used(peers, 3)
    peers.answer_tools = True
    assert "code" not in await submit(peers)
    for request in peers.requests[1:4]:
        await peers.finish(request)
    await until_used(peers, 0)


async def until_used(peers: Peers, runs: int) -> None:
    for _ in range(2_400):
        if (await used(peers))["unfinished_runs"] == runs:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


async def yesterday_counts_no_more(peers: Peers, dsn: str) -> None:
    """Runs are counted by the day also while the quota has no limit of them, and a day that is over is forgotten."""
    await set_quota(peers, "operator", runs_per_day=16)
    assert await used(peers) == {"runs_per_day": 16}
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("UPDATE runs.project_quota SET day = day - 1")
    finally:
        await connection.close()
    assert await used(peers) == {"runs_per_day": 0}
    assert "code" not in await submit(peers)
    assert await used(peers) == {"runs_per_day": 1}


async def enqueued_tasks_above_it_are_set_aside(peers: Peers) -> None:
    """None stays at the broker, where it would hold up those of other projects; sent again it is a task like any."""
    await set_quota(peers, "operator", runs_per_day=1)
    js = peers.nc.jetstream()
    await js.publish("task.enqueue.anonymous", b'{"network": "solo", "user_message": "enqueued"}')
    letter = await the_letter(peers)
    assert letter.reason.startswith("quota_exceeded: project default has used 1 of 1 runs per day; it frees at ")
    await until_nothing_is_given_back(js)
    await set_quota(peers, "operator", runs_per_day=2)
    number, reason = letter.dead_letter_id, "the quota was raised"
    settled = SettleDeadLetter(project=PROJECT, dead_letter_id=number, verdict="requeue", actor="ann", reason=reason)
    await peers.ask(rpc.SETTLE_DEAD_LETTER, settled)
    for _ in range(2_400):
        if await used(peers) == {"runs_per_day": 2}:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


async def tool_calls_of_a_minute_are_told_and_refuse_no_task(peers: Peers, dsn: str) -> None:
    """The tool-access service counts them; those of a minute that is over are none."""
    status = await set_quota(peers, "operator", tool_calls_per_minute=5)
    assert [(use["name"], use["limit"], use["used"]) for use in status["uses"]] == [("tool_calls_per_minute", 5, 0)]
    assert peers.actions[-1].detail["quota"] == {"tool_calls_per_minute": 5}
    connection = await asyncpg.connect(dsn)
    try:
        for past, told in ((1, 0), (-1, 0), (0, 5)):
            while True:
                minute = await connection.fetchval(MINUTE)
                await connection.execute(CALLS_COUNTED, PROJECT, minute - past)
                found = await used(peers)
                if await connection.fetchval(MINUTE) == minute:
                    break
            assert found == {"tool_calls_per_minute": told}
    finally:
        await connection.close()
    assert "code" not in await submit(peers)


async def stored_bytes_are_counted_and_refuse_tasks(peers: Peers, dsn: str) -> None:
    """Both replicas add what they have written; blobs are measured; a task of no project with room is refused."""
    connection = await asyncpg.connect(dsn)
    try:
        for _ in range(2_400):
            counted = await connection.fetchval(STORED, PROJECT)
            if counted == await connection.fetchval(WRITTEN, PROJECT):
                break
            await asyncio.sleep(0.05)
        assert counted == await connection.fetchval(WRITTEN, PROJECT) > 10_000
        await connection.execute(BLOB, PROJECT)
        status = await set_quota(peers, "operator", stored_bytes=counted)
        assert [(use["name"], use["used"]) for use in status["uses"]] == [("stored_bytes", counted + 1_000)]
        refused = await submit(peers)
        assert (refused["code"], refused["retry_after_s"]) == ("quota_exceeded", 3_600)
        assert (
            f"has used {counted + 1_000} of {counted} stored bytes; it frees when runs are pruned" in refused["detail"]
        )
        await set_quota(peers, "operator", stored_bytes=counted + 1_000_000)
        assert "code" not in await submit(peers)
    finally:
        await connection.close()


async def nothing_is_left_uncounted_by_a_stop(dsn: str) -> None:
    """Both replicas were asked to stop right after they had stored events."""
    connection = await asyncpg.connect(dsn)
    try:
        assert await connection.fetchval(STORED, PROJECT) == await connection.fetchval(WRITTEN, PROJECT)
    finally:
        await connection.close()


async def until_nothing_is_given_back(js: Any) -> None:
    for _ in range(2_400):
        if not (await js.consumer_info("TASKS", streams.TASKS_CONSUMER.durable)).num_ack_pending:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


async def the_letter(peers: Peers) -> DeadLetter:
    for _ in range(2_400):
        page = await peers.ask(rpc.LIST_DEAD_LETTERS, ListDeadLetters(project=PROJECT))
        assert isinstance(page, DeadLetterPage)
        if page.letters:
            [letter] = page.letters
            return letter
        await asyncio.sleep(0.05)
    raise TimeoutError


async def nobody_else_waits_for_who_holds_a_quota(peers: Peers, dsn: str) -> None:
    """A replica stands still with the quota of `default`: others' tasks are accepted, whether they have one or not."""
    await set_quota(peers, "operator", runs_per_day=50)
    kept = await submit(peers, idempotency_key="held")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "INSERT INTO gateway.principal (caller, project) VALUES ('bob', 'free'), ('eve', 'limited')"
        )
        for project in ("free", "limited"):
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project=project, actor="test", spec=NETWORK))
        await set_quota(peers, "operator", project="limited", runs_per_day=50)
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM runs.project_quota WHERE project = $1 FOR UPDATE", PROJECT)
            answers = asyncio.gather(*(submit(peers, subject) for subject in 4 * SUBJECTS))
            for subject, answer in zip(4 * SUBJECTS, await answers, strict=True):
                expected = "another replica holds the quota of project default" if subject == "task.submit" else ""
                assert answer.get("detail", "").startswith(expected), answer
                assert ("code" in answer) is bool(expected), answer
            again = await submit(peers, idempotency_key="held")
            assert (again["run_id"], again["duplicate"]) == (kept["run_id"], True)
        for _ in range(8):  # each of both replicas finds it free again
            assert "code" not in await submit(peers)
    finally:
        await connection.close()
