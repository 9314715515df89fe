"""Who may settle a gate that is no approval: the orchestrator looks at the roles of whoever speaks."""

import json
import uuid
from typing import Any

import asyncpg
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import ActionDone, ListGates, ResolveGate
from towpath_contracts.tools.access import SettleCall

OPEN = (
    "INSERT INTO runs.gate"
    " (gate_id, run_id, project, network, gate_type, status, reason, detail, execution_id, opened_at, expires_at)"
    " VALUES ($1, $2, 'default', 'solo', $4, 'pending', 'nobody knows', '{}', $3, now(),"
    " now() + interval '1 day')"
)


async def said(peers: Peers, gate_id: uuid.UUID, *roles: str) -> str:
    vote = ResolveGate(project="default", gate_id=gate_id, verdict="happened", actor="eve", reason="seen", roles=roles)
    reply = await peers.raw(rpc.RESOLVE_GATE.subject, vote.model_dump_json().encode())
    return (reply.headers or {}).get(rpc.PROBLEM_HEADER) or str(json.loads(reply.data)["detail"])


async def opened(dsn: str, run_id: str, gate_type: str) -> uuid.UUID:
    gate_id = uuid.uuid4()
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(OPEN, gate_id, uuid.UUID(run_id), uuid.uuid4(), gate_type)
    finally:
        await connection.close()
    return gate_id


async def test_only_operators_and_approvers_settle_what_nobody_knows(database: Any, nats_server: Any) -> None:
    async with connected(nats_server.url()) as nc, orchestrator(database("orchestrator"), nats_server.url()):
        peers = Peers(nc, lambda request: use("x") if request.step < 2 else respond("done"))
        peers.answer_tools = False
        settled: list[SettleCall] = []

        async def settle(message: Msg) -> None:
            settled.append(SettleCall.model_validate_json(message.data))
            await message.respond(ActionDone().model_dump_json().encode())

        await nc.subscribe(rpc.SETTLE_CALL.subject, cb=settle)
        await peers.start()
        try:
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
            task = json.dumps({"network": "solo", "user_message": "hi"}).encode()
            run_id = json.loads((await peers.raw("task.submit", task)).data)["run_id"]
            held = await opened(database("orchestrator"), run_id, "paused")
            gate_id = await opened(database("orchestrator"), run_id, "unknown_effect")
            for roles in ((), ("viewer",), ("auditor",), ("policy_admin",), ("viewer", "auditor", "policy_admin")):
                assert await said(peers, gate_id, *roles) == "role_missing", roles
            assert settled == [], "a word that does not count reaches nobody"
            for role in ("operator", "approver"):
                assert await said(peers, gate_id, role) == f"gate {gate_id}: happened"
            assert [word.actor for word in settled] == ["eve", "eve"]
            assert await said(peers, held, "operator", "approver") == "verdict_invalid", "only its switch opens it"
            for paused, found in ((True, [held, gate_id]), (False, [gate_id])):
                page = await peers.ask(rpc.LIST_GATES, ListGates(project="default", paused=paused))
                assert [gate.gate_id for gate in page.gates] == found
                assert page.next_after is None
            first = await peers.ask(rpc.LIST_GATES, ListGates(project="default", limit=1))
            assert ([gate.gate_id for gate in first.gates], first.next_after) == ([held], held)
            rest = await peers.ask(rpc.LIST_GATES, ListGates(project="default", limit=1, after=held))
            assert ([gate.gate_id for gate in rest.gates], rest.next_after) == ([gate_id], None)
        finally:
            await peers.stop()
