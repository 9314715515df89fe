"""Who gets room: slow runs, waiting runs and floods leave it to others."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use
from tests.support.orchestrator.run_ids import NEW_RUN_ID

from towpath_contracts import rpc
from towpath_contracts.facts import ApprovalRequiredFact
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import GetRun
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.calls import ToolRequest
from towpath_fabric.clock import wall


class SlowPeers(Peers):
    """Keeps the calls of the network `slow` until they are let go."""

    async def _tool(self, message: Msg) -> None:
        request = ToolRequest.model_validate_json(message.data)
        if request.network == "slow":
            self.requests.append(request)
        else:
            await self.finish(request)

    def held(self) -> set[Any]:
        return {request.run_id for request in self.requests}


def one_call(request: Any) -> dict[str, Any]:
    return use("go") if request.step == 1 else respond("done")


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[SlowPeers]:
    async with connected(nats_server.url()) as nc:
        found = SlowPeers(nc, one_call)
        await found.start()
        yield found
        await found.stop()


async def publish(peers: Peers) -> None:
    for name in ("solo", "slow"):
        spec = {**NETWORK, "name": name}
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=spec))


async def submit(peers: Peers, network: str, caller: str = "") -> dict[str, Any]:
    task = SubmitTask(network=network, user_message="hello")
    reply = await peers.raw(f"task.submit{caller}", task.model_dump_json().encode())
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


async def ended(peers: Peers, run_id: str) -> str:
    while True:
        view = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run_id, wait_ms=5_000))
        if view.ended_at is not None:
            return str(view.status)


async def test_runs_of_a_slow_network_leave_room_for_others(database: Any, nats_server: Any, peers: SlowPeers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url(), TOWPATH_MAX_ACTIVE_RUNS="10"):
        await publish(peers)
        slow = [(await submit(peers, "slow"))["run_id"] for _ in range(20)]
        await peers.until(lambda: len(peers.held()) == 8)
        quick = [(await submit(peers, "solo"))["run_id"] for _ in range(5)]
        async with asyncio.timeout(60):
            assert {await ended(peers, run_id) for run_id in quick} == {"completed"}
        assert len(peers.held()) == 8
        done: set[Any] = set()
        async with asyncio.timeout(60):
            while len(done) < len(slow):
                for request in [r for r in peers.requests if r.execution_id not in done]:
                    done.add(request.execution_id)
                    await peers.finish(request)
                await asyncio.sleep(0.05)
            assert {await ended(peers, run_id) for run_id in slow} == {"completed"}


async def test_a_run_that_waits_for_a_person_holds_no_room(database: Any, nats_server: Any, peers: SlowPeers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url(), TOWPATH_MAX_ACTIVE_RUNS="1"):
        await publish(peers)
        await submit(peers, "slow")
        await peers.until(lambda: len(peers.held()) == 1)
        other = await submit(peers, "solo")
        assert other["status"] == "queued"
        [request] = peers.requests
        fact = ApprovalRequiredFact(
            run_id=request.run_id,
            execution_id=request.execution_id,
            approval_id=uuid4(),
            tool=request.tool,
            args=request.args,
            args_digest="sha256:" + "1" * 64,
            digest="sha256:" + "0" * 64,
            rule="ask",
            reason="a person must see it",
            expires_at=wall() + timedelta(hours=1),
        )
        await peers.send("tas", fact.run_id, fact.model_dump_json().encode())
        async with asyncio.timeout(60):
            assert await ended(peers, other["run_id"]) == "completed"


async def test_a_long_queue_hides_nobody_behind_it(database: Any, nats_server: Any, peers: SlowPeers) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url(), TOWPATH_MAX_ACTIVE_RUNS="5"):
        await publish(peers)
        for _ in range(4):
            await submit(peers, "slow")
        await peers.until(lambda: len(peers.held()) == 4)
        first = await submit(peers, "slow")
        assert first["status"] == "queued"
        connection = await asyncpg.connect(database())
        try:  # as many as nobody could submit in a test
            columns = (
                "project, kind, network, version, snapshot_digest, status, seq, caller, agent_key, step, max_steps"
            )
            await connection.execute(
                f"INSERT INTO runs.run (run_id, {columns}, user_message, labels, created_at, updated_at)"
                f" SELECT {NEW_RUN_ID}, {columns}, user_message, labels, created_at, updated_at"
                " FROM runs.run, generate_series(1, 30000) WHERE run_id = $1",
                UUID(first["run_id"]),
            )
        finally:
            await connection.close()
        quick = await submit(peers, "solo")
        async with asyncio.timeout(60):
            assert await ended(peers, quick["run_id"]) == "completed"


async def test_tasks_beyond_what_can_be_held_are_refused_and_the_rest_completes(
    database: Any, nats_server: Any, peers: SlowPeers
) -> None:
    limits = {"TOWPATH_MAX_WAITING_SUBMITS": "20", "TOWPATH_MAX_ACTIVE_RUNS": "10"}
    async with orchestrator(database("orchestrator"), nats_server.url(), **limits):
        await publish(peers)
        answers = await asyncio.gather(*(submit(peers, "solo") for _ in range(600)))
        accepted = [answer["run_id"] for answer in answers if "run_id" in answer and "code" not in answer]
        refused = [answer for answer in answers if "code" in answer]
        assert len(accepted) + len(refused) == 600
        assert refused, "the flood never went over the limit"
        assert {(r["code"], r["retryable"], r["retry_after_s"]) for r in refused} == {("overloaded", True, 1)}
        async with asyncio.timeout(90):
            assert {await ended(peers, run_id) for run_id in accepted} == {"completed"}


async def test_a_flood_of_one_caller_leaves_every_second_place_to_another(
    database: Any, nats_server: Any, peers: SlowPeers
) -> None:
    """One submits 120, then another 10: the other's are among the next 22 that begin, by their logs.

    Several begin in one instant, so that which of these came first is not written; `test_turns.py` counts one by one.
    """
    owner = await asyncpg.connect(database())
    await owner.execute(
        "INSERT INTO gateway.principal (caller, project) VALUES ('flood', 'default'), ('other', 'default')"
    )
    limits = {"TOWPATH_MAX_ACTIVE_RUNS": "6", "TOWPATH_MAX_ACTIVE_SHARE": "1"}
    begun = (
        "SELECT r.caller FROM runs.run r JOIN runs.run_event e ON e.run_id = r.run_id AND e.type = 'run_started'"
        " ORDER BY e.at, r.caller DESC"
    )
    try:
        async with orchestrator(database("orchestrator"), nats_server.url(), **limits):
            await publish(peers)
            await asyncio.gather(*(submit(peers, "slow", ".flood") for _ in range(120)))
            await peers.until(lambda: len(peers.held()) == 6)
            await asyncio.gather(*(submit(peers, "slow", ".other") for _ in range(10)))
            done: set[Any] = set()
            while len(done) < 24:
                await peers.until(lambda: any(one.execution_id not in done for one in peers.requests))
                request = next(one for one in peers.requests if one.execution_id not in done)
                done.add(request.execution_id)
                await peers.finish(request)
            await peers.until(lambda: len(peers.held()) >= 30)
            order = [row["caller"] for row in await owner.fetch(begun)]
    finally:
        await owner.close()
    assert order[:6] == ["flood"] * 6
    assert order[6:28].count("other") == 10


async def test_whoever_fills_the_queue_leaves_a_part_of_it_to_others(
    database: Any, nats_server: Any, peers: SlowPeers
) -> None:
    """Of 20 places one caller has 16, however often it tries, here as counted in Postgres; another is let in."""
    owner = await asyncpg.connect(database())
    await owner.execute(
        "INSERT INTO gateway.principal (caller, project) VALUES ('flood', 'default'), ('other', 'default')"
    )
    limits = {"TOWPATH_MAX_ACTIVE_RUNS": "1", "TOWPATH_MAX_QUEUED_RUNS": "20"}
    try:
        async with orchestrator(database("orchestrator"), nats_server.url(), **limits):
            await publish(peers)
            await submit(peers, "slow", ".flood")
            await peers.until(lambda: len(peers.held()) == 1)
            answers: list[dict[str, Any]] = []
            for _ in range(3):
                answers += await asyncio.gather(*(submit(peers, "slow", ".flood") for _ in range(40)))
                await asyncio.sleep(0.4)  # the queue is counted meanwhile
            refused = [answer for answer in answers if "code" in answer]
            assert {answer["code"] for answer in refused} == {"overloaded"}
            assert 8 <= len(answers) - len(refused) <= 16
            others = await asyncio.gather(*(submit(peers, "slow", ".other") for _ in range(4)))
            assert [answer["status"] for answer in others] == ["queued"] * 4
    finally:
        await owner.close()
