"""Clients of the broker hear the events of their own runs as they come, with the rights that a deployment gives."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, orchestrator, respond, use
from tests.support.waiting import all_sent, eventually

from towpath_contracts import rpc
from towpath_contracts.authority import USERS, NatsUserRights, client_rights
from towpath_contracts.events.log import TransitionEvents
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.servers.nats import Nats

PEER = "peer"
CLIENTS = ("alice", "bob", "anonymous")
PLAN = {"steps": [{"id": "one", "type": "agent", "agent": {"agent_key": "a", "prompt": "hi"}}]}


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Nats]:
    """A broker with the rights of services and clients, and a peer that plays decider and tool-access service."""
    peer = NatsUserRights(publish=(">",), subscribe=(">",))
    found = Nats(folder / "nats", users={**USERS, **{name: client_rights(name) for name in CLIENTS}, PEER: peer})
    await found.start()
    yield found
    await found.stop()


class Listener:
    """A client of the broker: what it hears, by run, and what the broker refuses it."""

    def __init__(self) -> None:
        self.nc: Client = Client()
        self.heard: dict[str, list[Any]] = defaultdict(list)
        self.messages: list[Msg] = []
        self.refused: list[str] = []

    async def connect(self, server: Nats, user: str) -> None:
        self.nc = await nats.connect(server.url(user), error_cb=self._note)

    async def listen(self, subject: str) -> Any:
        subscription = await self.nc.subscribe(subject, cb=self._hear)
        await all_sent(self.nc)
        return subscription

    async def ask(self, verb: str, caller: str, **request: Any) -> Any:
        reply = await self.nc.request(f"task.{verb}.{caller}", json.dumps(request).encode(), timeout=20)
        assert rpc.PROBLEM_HEADER not in (reply.headers or {}), reply.data
        return json.loads(reply.data)

    async def log(self, run_id: str, after: int = 0) -> Any:
        return (await self.ask("events", "alice", run_id=run_id, after=after))["entries"]

    def types(self, run_id: str) -> list[str]:
        return [entry["event"]["type"] for entry in self.heard[run_id]]

    async def _hear(self, message: Msg) -> None:
        self.messages.append(message)
        said = json.loads(message.data)
        assert message.subject.rpartition(".")[2] == said["run_id"]
        self.heard[said["run_id"]] += said["entries"]

    async def _note(self, error: Exception) -> None:
        self.refused.append(str(error))


async def test_a_client_hears_the_events_of_its_own_runs_and_of_nobody_elses(database: Any, server: Nats) -> None:
    owner = await asyncpg.connect(database())
    callers = [(name, "default") for name in ("alice", "bob")]
    await owner.executemany("INSERT INTO gateway.principal (caller, project) VALUES ($1, $2)", callers)
    await owner.close()
    alice, bob, nobody = Listener(), Listener(), Listener()
    login = {"TOWPATH_NATS_USER": "orchestrator", "TOWPATH_NATS_PASSWORD": server.password("orchestrator")}
    nc = await nats.connect(server.url(PEER))
    peers = Peers(nc, lambda request: respond("ok") if peers.answer_tools or request.step > 1 else use("x"))
    await peers.start()
    try:
        async with orchestrator(database("orchestrator"), server.url(), **login):
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="ann", spec=NETWORK))
            for listener, user in ((alice, "alice"), (bob, "bob"), (nobody, "anonymous")):
                await listener.connect(server, user)
            await bob.listen("task.live.bob.*")
            for listener in (bob, nobody):
                for subject in ("task.live.alice.*", "task.live.*.*", "task.live.>", "run.event.*"):
                    await listener.listen(subject)
                await eventually(lambda listener=listener: len(listener.refused) == 4)  # type: ignore[misc]
            await nobody.listen("task.live.anonymous.*")

            everything = await alice.listen("task.live.alice.*")
            await _hears_a_tree(alice)
            peers.answer_tools = False
            run_id = (await alice.ask("submit", "alice", network="solo", user_message="slow"))["run_id"]
            await eventually(lambda: len(peers.requests) == 1 and "decision_received" in alice.types(run_id))
            await everything.unsubscribe()
            await all_sent(alice.nc)
            known = alice.heard[run_id][-1]["seq"]
            await alice.ask("note", "alice", run_id=run_id, text="Hurry.")  # told to nobody
            await alice.listen(f"task.live.alice.{run_id}")
            peers.answer_tools = True
            await peers.finish(peers.requests[-1])
            await eventually(lambda: "run_finished" in alice.types(run_id))
            after = [entry["seq"] for entry in alice.heard[run_id] if entry["seq"] > known]
            assert after[0] > known + 1, "the gap shows in the sequence"
            missed = [entry for entry in await alice.log(run_id, known) if entry["seq"] < after[0]]
            assert [entry["seq"] for entry in missed] == list(range(known + 1, after[0]))
            whole = sorted([*alice.heard[run_id], *missed], key=lambda entry: entry["seq"])
            assert whole == await alice.log(run_id)

            theirs = (await bob.ask("submit", "bob", network="solo", user_message="quick"))["run_id"]
            await eventually(lambda: "run_finished" in bob.types(theirs))
            own = (await nobody.ask("submit", "anonymous", network="solo", user_message="quick"))["run_id"]
            ended = await nobody.ask("get", "anonymous", run_id=own, wait_ms=20_000)
            assert ended["status"] == "completed"
            for listener in (alice, bob, nobody):
                await all_sent(listener.nc)
            assert set(bob.heard) == {theirs} and theirs not in alice.heard and not nobody.heard
    finally:
        await peers.stop()
        for listener in (alice, bob, nobody):
            await listener.nc.close()
        await nc.close()


async def _hears_a_tree(alice: Listener) -> None:
    """The run above and the one below it, each in order and as the pages have it."""
    task = {"network": "solo", "plan": {"plan": PLAN}}
    root = (await alice.ask("submit", "alice", **task))["run_id"]
    await eventually(lambda: "run_finished" in alice.types(root))
    (child,) = {entry["event"]["child_id"] for entry in alice.heard[root] if entry["event"]["type"] == "child_started"}
    assert set(alice.heard) == {root, child}
    for run_id in (root, child):
        entries = alice.heard[run_id]
        assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
        assert entries == await alice.log(run_id)
    for message in alice.messages:
        TransitionEvents.model_validate_json(message.data)
