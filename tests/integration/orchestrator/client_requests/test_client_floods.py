"""A flood of one client's requests over NATS: what finds no room is refused, and others are answered beside it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond

from towpath_contracts import rpc, subjects
from towpath_contracts.networks.spec import PublishNetwork

FLOOD = 3_000
TASK = json.dumps({"network": "solo", "user_message": "hi"}).encode()


@pytest.fixture
async def peers(database: Any, nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda _request: respond("done"))
        await found.start()
        async with orchestrator(database("orchestrator"), nats_server.url()):
            await found.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="x", spec=NETWORK))
            yield found
        await found.stop()


class Flood:
    """Requests that are published without waiting; what they are answered, and when which of them was."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.codes: Counter[str] = Counter()
        self._inbox = ""

    async def begin(self, subject: str, body: bytes, count: int = FLOOD) -> None:
        if not self._inbox:
            self._inbox = self._peers.nc.new_inbox()
            await self._peers.nc.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        for place in range(count):
            await self._peers.nc.publish(subject, body, reply=f"{self._inbox}.{place}")

    async def _on_answer(self, message: Msg) -> None:
        self.codes[(message.headers or {}).get(rpc.PROBLEM_HEADER, "answered")] += 1


@pytest.mark.parametrize("verb", ["get", "events", "cancel"])
async def test_a_flood_of_requests_is_refused_where_it_finds_no_room_and_another_caller_is_answered(
    database: Any, peers: Peers, verb: str
) -> None:
    connection = await asyncpg.connect(database())
    await connection.execute("INSERT INTO gateway.principal (caller, project) VALUES ('bob', 'default')")
    await connection.close()
    accepted = json.loads((await peers.raw("task.submit.bob", TASK)).data)
    flood = Flood(peers)
    await flood.begin(f"task.{verb}.anonymous", json.dumps({"run_id": str(uuid4())}).encode())
    own = await peers.raw("task.get.bob", json.dumps({"run_id": accepted["run_id"]}).encode())
    assert json.loads(own.data)["caller"] == "bob"
    await peers.until(lambda: flood.codes.total() == FLOOD)
    assert set(flood.codes) == {"run_not_found", "overloaded"}
    assert flood.codes["overloaded"] > FLOOD / 2, "it was not all worked off, one after the other"


async def test_three_hundred_requests_of_one_caller_that_wait_for_a_run_are_all_answered(peers: Peers) -> None:
    accepted = json.loads((await peers.raw(subjects.TASK_SUBMIT_ANONYMOUS, TASK)).data)
    view: dict[str, Any] = {}
    while view.get("status") != "completed":
        asked = json.dumps({"run_id": accepted["run_id"], "wait_ms": 1_000}).encode()
        view = json.loads((await peers.raw("task.get.anonymous", asked)).data)
    page = json.dumps({"run_id": accepted["run_id"], "after": view["seq"] - 1, "wait_ms": 1_000}).encode()
    found = await asyncio.gather(*(peers.raw("task.events.anonymous", page) for _ in range(300)))
    assert {json.loads(one.data)["seq"] for one in found} == {view["seq"]}
