"""A project sees nothing of another: every subject that a client or the gateway asks."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.support.orchestrator.orchestrator_peers import ECHO, NETWORK, Peers, connected, orchestrator, respond, use

from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.canonical import digest
from towpath_contracts.networks.spec import ListNetworks, PublishNetwork
from towpath_contracts.runs.views import CancelRun, GetEvents, GetRun, ListGates, ListRuns, PreviewPrompt, ResolveGate
from towpath_contracts.tools.access import ToolVersionProposal
from towpath_contracts.tools.calls import GetBlobChunk


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda request: use("x") if request.step < 2 else respond("done"))
        await found.start()
        yield found
        await found.stop()


async def refused(peers: Peers, subject: str, body: bytes) -> str:
    reply = await peers.raw(subject, body)
    assert reply.headers is not None, reply.data
    return str(reply.headers[rpc.PROBLEM_HEADER])


async def add_caller(dsn: str, caller: str, project: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("INSERT INTO gateway.principal (caller, project) VALUES ($1, $2)", caller, project)
    finally:
        await connection.close()


def foreign(run_id: str) -> list[tuple[rpc.RpcMethod, Message, str]]:
    mine = {"project": "default", "run_id": run_id}
    return [
        (rpc.GET_RUN, GetRun(**mine), "run_not_found"),
        (rpc.EVENTS, GetEvents(**mine), "run_not_found"),
        (rpc.CANCEL_RUN, CancelRun(**mine, actor="eve"), "run_not_found"),
        (rpc.GET_NETWORK, PreviewPrompt(project="default", network="solo"), "network_not_found"),
        (rpc.PREVIEW_PROMPT, PreviewPrompt(project="default", network="solo"), "network_not_found"),
        (
            rpc.RESOLVE_GATE,
            ResolveGate(project="default", gate_id=run_id, verdict="approved", actor="eve"),
            "gate_not_found",
        ),
    ]


async def test_a_project_sees_nothing_of_another(database: Any, nats_server: Any, peers: Peers) -> None:
    await add_caller(database(), "bob", "p2")
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="p2", actor="bob", spec=NETWORK))
        peers.actions.clear()
        task = json.dumps({"network": "solo", "user_message": "hi"}).encode()
        assert await refused(peers, "task.submit", task) == "network_not_found"
        assert await refused(peers, "task.submit.mallory", task) == "caller_unknown"
        accepted = json.loads((await peers.raw("task.submit.bob", task)).data)
        run_id = accepted["run_id"]
        assert accepted["project"] == "p2"

        own = json.dumps({"run_id": run_id}).encode()
        for verb in ("get", "events", "cancel", "pause", "resume", "gate", "confidence"):
            assert await refused(peers, f"task.{verb}.anonymous", own) == "run_not_found"
        note = json.dumps({"run_id": run_id, "text": "Hurry."}).encode()
        assert await refused(peers, "task.note.anonymous", note) == "run_not_found"
        assert await refused(peers, "task.note.bob", own) == "request_invalid", "a note without a text"
        assert not peers.actions, "what is refused is no act"
        given = await peers.raw("task.note.bob", note)
        assert json.loads(given.data)["detail"] == "the model reads it with its next decision"
        (act,) = peers.actions
        assert (act.action, act.actor, act.reason, act.detail["by_key"]) == ("run.note_given", "bob", "Hurry.", "")
        assert json.loads((await peers.raw("task.get.bob", own)).data)["run_id"] == run_id
        sneaky = json.dumps({"run_id": run_id, "project": "p2"}).encode()
        assert await refused(peers, "task.get.anonymous", sneaky) == "request_invalid"

        for method, request, code in foreign(run_id):
            assert await refused(peers, method.subject, request.model_dump_json().encode()) == code, method
        assert not (await peers.ask(rpc.LIST_RUNS, ListRuns(project="default"))).runs
        assert not (await peers.ask(rpc.LIST_NETWORKS, ListNetworks(project="default"))).networks
        assert not (await peers.ask(rpc.LIST_GATES, ListGates(project="default", status=None))).gates
        assert [run.run_id.hex for run in (await peers.ask(rpc.LIST_RUNS, ListRuns(project="p2"))).runs] == [
            run_id.replace("-", "")
        ]


async def test_versions_of_a_network_are_listed_newest_first(database: Any, nats_server: Any, peers: Peers) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        for steps in (3, 4, 5):
            spec = {**NETWORK, "max_steps": steps}
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor=f"ann{steps}", spec=spec))
        listed = await peers.ask(rpc.LIST_NETWORKS, ListNetworks(project="default", name="solo", limit=2))
        assert [(one.version, one.published_by, one.current) for one in listed.networks] == [
            (3, "ann5", True),
            (2, "ann4", False),
        ]
        assert listed.next_before == 2
        older = await peers.ask(rpc.LIST_NETWORKS, ListNetworks(project="default", name="solo", before=2, limit=2))
        assert [one.version for one in older.networks] == [1] and older.next_before is None
        for project, name in (("p2", "solo"), ("default", "nobody")):
            asked = ListNetworks(project=project, name=name).model_dump_json().encode()
            assert await refused(peers, rpc.LIST_NETWORKS.subject, asked) == "network_not_found"


async def test_a_network_whose_tool_nobody_has_accepted_is_told_how_it_is_accepted(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    agent = {**NETWORK["agents"][0], "equipped_tools": ["mail.send", "mail.drop"]}
    ask = PublishNetwork(project="default", actor="ann", spec={**NETWORK, "agents": [agent]})
    peers.proposals = tuple(
        ToolVersionProposal(spec=ECHO.model_copy(update={"name": name}), version=4, digest="", status=status)
        for name, status in (("mail.send", "pending"), ("mail.drop", "refused"))
    )
    async with orchestrator(database("orchestrator"), nats_server.url()):
        reply = await peers.raw(rpc.PUBLISH_NETWORK.subject, ask.model_dump_json().encode())
    waits, lacks = (one["detail"] for one in json.loads(reply.data)["errors"])
    assert "mail.send, which waits until somebody accepts it" in waits
    assert waits.endswith("towpath tools accept mail.send --version 4")
    assert "mail.drop, which nobody registered" in lacks


async def test_a_run_reaches_only_the_blobs_of_its_own_project(database: Any, nats_server: Any, peers: Peers) -> None:
    await add_caller(database(), "bob", "p2")
    async with orchestrator(database("orchestrator"), nats_server.url()):
        for project in ("default", "p2"):
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project=project, actor="x", spec=NETWORK))
        plain = {"network": "solo", "user_message": "hi"}
        mine = json.loads((await peers.raw("task.submit", json.dumps(plain).encode())).data)["run_id"]
        script = [respond("secret")]
        task = json.dumps({**plain, "script": script}).encode()
        theirs = json.loads((await peers.raw("task.submit.bob", task)).data)["run_id"]
        name = digest(script)
        wanted = GetBlobChunk(digest=name, run_id=theirs)
        assert (await peers.ask(rpc.BLOB_GET_RUNS, wanted)).digest == name
        for run_id in (mine, None):
            body = GetBlobChunk(digest=name, run_id=run_id).model_dump_json().encode()
            assert await refused(peers, rpc.BLOB_GET_RUNS.subject, body) == "not_found"
