"""Who may settle a gate that is no approval: the orchestrator looks at the roles of whoever speaks."""

import json
import uuid
from typing import Any

import asyncpg
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.gate_delegations import DelegateGate
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


VOTED = "UPDATE runs.gate SET approval_id = $1 WHERE gate_id = $1"


async def test_a_gate_is_handed_to_whom_may_decide_there_and_to_nobody_else(database: Any, nats_server: Any) -> None:
    async with connected(nats_server.url()) as nc, orchestrator(database("orchestrator"), nats_server.url()):
        peers, dsn = Peers(nc, lambda _: respond("done")), database("orchestrator")
        await peers.start()
        try:
            await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
            task = json.dumps({"network": "solo", "user_message": "hi"}).encode()
            run_id = json.loads((await peers.raw("task.submit", task)).data)["run_id"]
            held, doubt, approval = [
                await opened(dsn, run_id, kind) for kind in ("paused", "unknown_effect", "approval")
            ]
            connection = await asyncpg.connect(dsn)
            await connection.execute(VOTED, approval)
            await connection.close()

            async def handed(gate: uuid.UUID, to: str, *roles: str, **more: Any) -> str:
                fields = {"project": "default", "actor": "paul", "reason": "she knows", "roles": roles} | more
                asked = DelegateGate.model_validate({"gate_id": gate, "to": to, **fields})
                reply = await peers.raw(rpc.DELEGATE_GATE.subject, asked.model_dump_json().encode())
                return (reply.headers or {}).get(rpc.PROBLEM_HEADER) or str(json.loads(reply.data)["assigned_to"])

            may_not = "delegate_may_not_decide"
            assert await handed(held, "mia", "approver") == "verdict_invalid", "only its switch opens it"
            assert await handed(approval, "mia", "operator") == "role_missing"
            assert await handed(approval, "role:operator", "approver") == may_not
            assert await handed(approval, "mia", "approver", known_roles=("viewer",)) == may_not
            assert await handed(approval, "anonymous", "approver") == may_not, "who asked for it does not decide"
            assert await handed(approval, "mia", "approver", project="other") == "gate_not_found"
            assert not [one for one in peers.actions if one.action == "gate.delegated"]
            assert await handed(approval, "role:approver", "approver") == "role:approver"
            assert await handed(approval, "mia", "approver", known_roles=("approver",)) == "mia"
            assert await handed(doubt, "omar", "operator") == "omar", "of whom no key is known"
            entries = [(one.actor, one.detail["to"]) for one in peers.actions if one.action == "gate.delegated"]
            assert entries == [("paul", "role:approver"), ("paul", "mia"), ("paul", "omar")]
            for names, found in ((("mia", "role:operator"), [approval]), (("mia", "omar"), [doubt, approval])):
                page = await peers.ask(rpc.LIST_GATES, ListGates(project="default", assigned_to=names))
                assert [gate.gate_id for gate in page.gates] == found
            one = (await peers.ask(rpc.LIST_GATES, ListGates(project="default", gate_id=approval))).gates[0]
            assert (one.assigned_by, one.assigned_reason, one.assigned_at is None) == ("paul", "she knows", False)
        finally:
            await peers.stop()


CLOSE = (
    "INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at,"
    " expires_at, closed_at, closed_by, verdict, tool, rule) VALUES ($1, $2, $3, $4, 'approval', $5, '', $6, now(),"
    " now(), now() + $7 * interval '1 second', 'eve', $5, $8, $9)"
)


async def closed(dsn: str, *gates: tuple[str, str, str, str, str]) -> list[uuid.UUID]:
    """Store closed gates, each a second after the one before; return their ids, the last first."""
    made = [uuid.uuid4() for _ in gates]
    connection = await asyncpg.connect(dsn)
    try:
        for second, (gate_id, (project, network, status, tool, rule)) in enumerate(zip(made, gates, strict=True)):
            detail = json.dumps({"tool": tool, "rule": rule})
            await connection.execute(CLOSE, gate_id, uuid.uuid4(), project, network, status, detail, second, tool, rule)
    finally:
        await connection.close()
    return made[::-1]


async def test_closed_gates_are_listed_the_last_first_and_those_alike_by_tool_and_rule(
    database: Any, nats_server: Any
) -> None:
    async with connected(nats_server.url()) as nc, orchestrator(database("orchestrator"), nats_server.url()):
        peers = Peers(nc, lambda _: respond("done"))
        dsn = database("orchestrator")

        async def listed(**asked: Any) -> tuple[list[uuid.UUID], uuid.UUID | None]:
            page = await peers.ask(
                rpc.LIST_GATES, ListGates(**{"project": "p", "status": None, "newest": True} | asked)
            )
            return [gate.gate_id for gate in page.gates], page.next_after

        await opened(dsn, str(uuid.uuid4()), "approval")
        other, fourth, third, second, first = await closed(
            dsn,
            ("p", "shop", "approved", "refund", "large"),
            ("p", "shop", "denied", "refund", "large"),
            ("p", "desk", "approved", "mail", "large"),
            ("p", "desk", "void", "refund", "other"),
            ("q", "shop", "approved", "refund", "large"),
        )
        assert await listed() == ([fourth, third, second, first], None)
        assert await listed(limit=3) == ([fourth, third, second], second)
        assert await listed(limit=3, after=second) == ([first], None)
        assert await listed(status="approved") == ([third, first], None)
        assert await listed(network="shop") == ([second, first], None)
        assert await listed(rule="large", network="desk") == ([third], None)
        assert await listed(tool="refund", rule="large") == ([second, first], None), "those alike"
        assert await listed(tool="refund", rule="large", limit=1) == ([second], second)
        assert await listed(tool="refund", rule="large", after=second) == ([first], None)
        assert await listed(project="q", tool="refund") == ([other], None)
        assert await listed(newest=False, tool="refund", network="shop") == ([first, second], None), "oldest first"
        assert await listed(newest=False, rule="nobody's") == ([], None)


ASKED = (
    "INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, approval_id,"
    " opened_at, expires_at) VALUES ($1, $2, 'default', 'solo', 'approval', 'pending', '',"
    " json_build_object('quorum', $3::int), $1, now(), now() + interval '1 day')"
)
VOTE = "INSERT INTO tas.approval_vote VALUES ($1, $2, $3, '', '', now())"


async def asked_gate(dsn: str, run_id: uuid.UUID, quorum: int, *votes: tuple[str, str]) -> uuid.UUID:
    """Open an approval in a run; its votes are stored, and the run has not heard of them yet."""
    gate_id = uuid.uuid4()
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET session_replication_role = replica")  # there is no call that the approval is of
        await connection.execute(ASKED, gate_id, run_id, quorum)
        for actor, verdict in votes:
            await connection.execute(VOTE, gate_id, actor, verdict)
    finally:
        await connection.close()
    return gate_id


async def test_nobody_is_asked_about_what_votes_have_decided_already(database: Any, nats_server: Any) -> None:
    async with connected(nats_server.url()) as nc, orchestrator(database("orchestrator"), nats_server.url()):
        peers, dsn, run_id = Peers(nc, lambda _: respond("done")), database(), uuid.uuid4()
        decided = [
            await asked_gate(dsn, run_id, 1, ("mia", "edited")),
            await asked_gate(dsn, run_id, 2, ("mia", "edited"), ("paul", "approved")),
            await asked_gate(dsn, run_id, 2, ("mia", "approved"), ("mia", "denied")),
        ]
        open_gates = [
            await asked_gate(dsn, run_id, 1),
            await asked_gate(dsn, run_id, 2, ("mia", "edited"), ("mia", "approved")),
        ]
        for at in ({"run_id": run_id}, {"root_run_id": run_id}, {}):
            for paused, found in ((False, open_gates), (True, decided + open_gates)):
                asked = ListGates.model_validate({"project": "default", "paused": paused} | at)
                assert [gate.gate_id for gate in (await peers.ask(rpc.LIST_GATES, asked)).gates] == found
