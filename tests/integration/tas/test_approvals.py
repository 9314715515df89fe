"""Approvals in a real service: several people, changed arguments, drift, expiry, replicas and restarts."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.tas.tas_caller import TOOLS, TasCaller, query, row, settled, tool
from tests.support.tas.tas_running import Running, audit_holds, running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.servers.nats import Nats

__all__ = ["audit_holds", "shared_tas", "tas"]

PEOPLE = """
kind: Policy
rules:
  - {{name: small, tool: orders.refund, effect: allow, when: args.amount <= 100}}
  - {{name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100, {more}}}
  - {{name: never, tool: orders.refund, effect: deny, when: args.amount > 1000}}
"""
LARGE = {"order_id": "A-1", "amount": 500}


def policy(more: str = "note: somebody looks") -> str:
    return PEOPLE.format(more=more)


async def vote(caller: TasCaller, asked: dict[str, Any], verdict: str, actor: str = "paula", **changes: Any) -> str:
    """Vote on an approval; returns its progress."""
    fields = {
        "project": caller.project,
        "gate_id": str(uuid.uuid4()),
        "approval_id": asked["approval_id"],
        "verdict": verdict,
        "reason": "checked",
        "actor": actor,
        "roles": ["approver"],
        "digest": asked["digest"],
    }
    done = await caller.ask(rpc.RESOLVE_APPROVAL, **{**fields, **changes})
    return str(done.detail.partition(": ")[2])


async def make_key(tas: Running, caller: str, roles: tuple[str, ...] = ("approver",)) -> dict[str, str]:
    """Make a key of *caller* in the test's project, as the gateway would; returns what a vote with it says."""
    key = {"key_prefix": f"key-of-{caller}-{tas.caller.project}"}
    await query(
        tas.dsn,
        "INSERT INTO gateway.principal (caller, project) VALUES ($1, $2)"
        " ON CONFLICT (caller) DO UPDATE SET project = excluded.project",
        *(caller, tas.caller.project),
    )
    await query(
        tas.dsn,
        "INSERT INTO gateway.api_key (prefix, secret_digest, caller, scopes, roles, created_by)"
        " VALUES ($1, sha256(convert_to($1, 'UTF8')), $2, '{gates:resolve}', $3, 'create-key')",
        *(key["key_prefix"], caller, list(roles)),
    )
    return key


async def waiting(tas: Running, more: str = "note: somebody looks") -> tuple[Any, dict[str, Any]]:
    """Apply the policy and ask for a refund that needs people."""
    await tas.caller.apply(policy(more))
    request = await tas.caller.put(tas.caller.request("orders.refund", args=LARGE))
    return request, await tas.caller.fact(request, "approval.required")


async def refused(code: str, word: Any) -> None:
    with pytest.raises(ProblemError, match=code):
        await word


async def test_a_call_that_waits_brings_the_words_of_its_tool(tas: Running) -> None:
    words = "Refund {amount} of {order_id}"
    await tas.caller.register(tool("orders.refund", "irreversible", operation="write", summary=words))
    _, asked = await waiting(tas)
    assert asked["summary"] == words


async def test_one_yes_of_two_lets_nothing_through_and_the_second_one_does(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    assert asked["quorum"] == 2
    assert await vote(tas.caller, asked, "approved") == "approved, 1 of 2"
    assert await vote(tas.caller, asked, "approved") == "approved, 1 of 2", "nobody counts twice"
    await refused("requester_may_not_approve", vote(tas.caller, asked, "approved", "anonymous"))
    await tas.caller.again(request)
    await tas.caller.fact(request, "approval.required", times=2)
    assert request.execution_id not in tas.caller.invocations
    assert await vote(tas.caller, asked, "approved", "peter") == "approved, 2 of 2"
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    entries = await tas.caller.audit(execution_id=request.execution_id)
    listed = [(one.phase, one.actor, one.detail.get("votes")) for one in entries if one.phase.startswith("approval.")]
    assert listed == [
        ("approval.vote", "paula", "1 of 2"),
        ("approval.approved", "peter", "2 of 2"),
        ("approval.consumed", "", None),
    ]


async def test_one_no_denies_whatever_others_decided(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 3")
    await vote(tas.caller, asked, "approved", "peter")
    assert await vote(tas.caller, asked, "denied", reason="not him") == "denied, 1 of 3"
    await refused("gate_settled", vote(tas.caller, asked, "approved", "mary"))
    await tas.caller.again(request)
    assert (await tas.caller.fact(request, "tool.denied"))["denial"]["reason"] == "not him"


async def test_many_people_at_two_replicas_make_one_quorum_and_one_call(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 3")
    with tas.start() as second:
        await second.wait_ready()
        keys = {actor: await make_key(tas, actor) for actor in ("p0", "p1", "p2", "p3", "p4")}
        people = [f"p{number % 5}" for number in range(15)]
        words = await asyncio.gather(
            *(vote(tas.caller, asked, "approved", actor, **keys[actor]) for actor in people), return_exceptions=True
        )
        for _ in range(4):
            await tas.caller.again(request)
        await tas.caller.dispatched(request)
        await tas.caller.quiet()
    counted = {word for word in words if isinstance(word, str)}
    assert counted == {"approved, 1 of 3", "approved, 2 of 3", "approved, 3 of 3"}
    for word in words:
        assert isinstance(word, str) or (isinstance(word, ProblemError) and word.problem.code == "gate_settled")
    of_this = asked["approval_id"]
    votes = await query(tas.dsn, "SELECT actor, key_prefix FROM tas.approval_vote WHERE approval_id = $1", of_this)
    assert all(vote["key_prefix"] == keys[vote["actor"]]["key_prefix"] for vote in votes)
    assert len(votes) == len({vote["actor"] for vote in votes}) == 3
    assert {invocation.attempt for invocation in tas.caller.invocations[request.execution_id]} == {1}
    entries = await tas.caller.audit(execution_id=request.execution_id)
    assert {vote["actor"]: vote["key_prefix"] for vote in votes} == {
        entry.actor: entry.detail["by_key"]
        for entry in entries
        if entry.phase in ("approval.vote", "approval.approved")
    }
    phases = [entry.phase for entry in entries]
    assert (phases.count("approval.vote"), phases.count("approval.approved")) == (2, 1)
    assert phases.count("approval.consumed") == 1, "used once"


async def test_an_edited_call_runs_as_edited_and_everybody_is_informed(tas: Running) -> None:
    caller = tas.caller
    request, asked = await waiting(tas)
    args = {"order_id": "A-1", "amount": 150}
    assert await vote(caller, asked, "edit", args=args, reason="half") == "approved"
    assert await vote(caller, asked, "edit", args=args, reason="half") == "approved", "said again: the answer was lost"
    fresh = await caller.fact(request, "approval.required", times=2)
    assert (fresh["changes"], fresh["edited_by"]) == (["arguments.amount: 500 → 150"], "paula")
    assert fresh["diff"] == [{"field": "arguments.amount", "before": 500, "after": 150}]
    await caller.again(request)
    invocation = await caller.dispatched(request)
    assert invocation.args == args
    claim_id = uuid.uuid4()
    assert (await caller.claim(invocation, claim_id)).granted, "its ticket is for what it carries"
    await caller.again(request)
    await caller.report(invocation, claim_id)
    found = await caller.fact(request, "tool.finished")
    assert (found["status"], found["executed_args"], found["edited_by"]) == ("succeeded", args, "paula")
    stored = await row(tas.dsn, request.execution_id)
    assert stored["asked_digest"] == asked["args_digest"] != stored["args_digest"]
    assert (stored["asked_args"], stored["edited_by"]) == ('{"amount":500,"order_id":"A-1"}', "paula")
    (entry,) = await caller.audit(execution_id=request.execution_id, phase="approval.edited")
    assert entry.detail["changes"] == fresh["diff"] and entry.detail["before"]["args_digest"] == asked["args_digest"]
    await caller.again(request)
    assert await caller.fact(request, "tool.finished", times=2) == found
    await caller.again(request, args={"order_id": "A-1", "amount": 151})
    assert "arguments" in (await caller.fact(request, "execution.conflict"))["message"]


async def test_an_edit_is_refused_whole_where_the_call_would_be(tas: Running) -> None:
    caller = tas.caller
    request, asked = await waiting(tas)
    for args, found in (
        ({"order_id": "A-1", "amount": 5_000}, "denied by rule never"),
        ({"order_id": 7, "amount": 150}, "not valid"),
        (LARGE, "already"),
        (None, "all arguments"),
    ):
        with pytest.raises(ProblemError, match=found) as caught:
            await vote(caller, asked, "edit", args=args)
        assert caught.value.problem.code == "edit_refused"
        places = [fault.pointer for fault in caught.value.problem.errors]
        assert places == (["/args/order_id"] if found == "not valid" else []), "the field that is to be mended"
    small = {"order_id": "A-1", "amount": 150}
    await refused("requester_may_not_approve", vote(caller, asked, "edit", "anonymous", args=small))
    await refused("role_missing", vote(caller, asked, "edit", args=small, roles=["viewer"]))
    await refused("digest_changed", vote(caller, asked, "edit", args=small, digest="sha256:other"))
    assert (await row(tas.dsn, request.execution_id))["args"] == '{"amount":500,"order_id":"A-1"}'
    assert await vote(caller, asked, "approved") == "approved"


async def test_an_editor_is_never_the_only_one_of_a_quorum(tas: Running) -> None:
    caller = tas.caller
    request, asked = await waiting(tas, "quorum: 2")
    assert await vote(caller, asked, "edit", args={"order_id": "A-1", "amount": 50}) == "approved, 1 of 2"
    fresh = await caller.fact(request, "approval.required", times=2)
    assert await vote(caller, fresh, "approved") == "approved, 1 of 2", "the editor has said so already"
    await caller.again(request)
    await caller.fact(request, "approval.required", times=3)
    assert request.execution_id not in caller.invocations, "though a rule would allow the smaller call to the agent"
    await refused("gate_settled", vote(caller, asked, "approved", "peter"))
    assert await vote(caller, fresh, "approved", "peter") == "approved, 2 of 2"
    await caller.again(request)
    assert (await caller.dispatched(request)).args["amount"] == 50


async def test_what_nobody_answers_goes_to_the_policy_admins_once_and_then_is_denied(tas: Running) -> None:
    caller = tas.caller
    expire = "UPDATE tas.approval SET expires_at = now() WHERE run_id = $1 AND status = 'pending'"
    request, asked = await waiting(tas, "on_expiry: escalate")
    await query(tas.dsn, expire, request.run_id)
    await refused("gate_settled", vote(caller, asked, "approved"))
    await caller.again(request)
    higher = await caller.fact(request, "approval.required", times=2)
    assert (higher["role"], higher["on_expiry"], higher["revision"]) == ("policy_admin", "deny", 0)
    assert "nobody decided by" in higher["reason"]
    await refused("role_missing", vote(caller, higher, "approved"))
    await query(tas.dsn, expire, request.run_id)
    await caller.again(request)
    assert (await caller.fact(request, "tool.denied"))["denial"]["violation_type"] == "approval_expired"
    other, asked = await waiting(tas, "on_expiry: escalate")
    await query(tas.dsn, expire, other.run_id)
    await caller.again(other)
    higher = await caller.fact(other, "approval.required", times=2)
    assert await vote(caller, higher, "approved", roles=["policy_admin"]) == "approved"
    await caller.again(other)
    await caller.dispatched(other)


async def test_a_call_that_does_not_hold_still_is_decided_by_hand_and_then_not_at_all(tas: Running) -> None:
    caller = tas.caller
    request, asked = await waiting(tas, "expires_s: 1000")
    for number in range(1, 5):
        await vote(caller, asked, "approved", f"p{number}")
        await caller.apply(policy(f"expires_s: {1000 + number}"))
        await caller.again(request)
        asked = await caller.fact(request, "approval.required", times=number + 1)
        assert asked["revision"] == number and asked["changes"][0].startswith("rules.large: ")
        assert asked["gate_type"] == ("manual" if number == 4 else "approval")
    await refused("revisions_used_up", vote(caller, asked, "edit", args={"order_id": "A-1", "amount": 101}))
    await vote(caller, asked, "approved")
    await caller.apply(policy("expires_s: 2000"))
    await caller.again(request)
    denial = (await caller.fact(request, "tool.denied"))["denial"]
    assert "changed 4 times" in denial["reason"]
    assert request.execution_id not in caller.invocations


async def test_a_changed_tool_is_shown_before_it_runs(tas: Running) -> None:
    caller = tas.caller
    request, asked = await waiting(tas)
    await vote(caller, asked, "approved")
    others = [spec for spec in TOOLS if spec.name != "orders.refund"]
    await caller.register(*others, tool("orders.refund", "irreversible", operation="write", description="pays twice"))
    await caller.again(request)
    fresh = await caller.fact(request, "approval.required", times=2)
    assert [change["field"] for change in fresh["diff"]] == ["tool_version"]
    assert request.execution_id not in caller.invocations
    await vote(caller, fresh, "approved")
    await caller.again(request)
    await caller.dispatched(request)
    entries = await caller.audit(execution_id=request.execution_id)
    judged = [(one.phase, one.tool_version) for one in entries if one.phase in {"decision", "approval.consumed"}]
    assert judged == [("decision", 1), ("decision", 2), ("approval.consumed", 2)]


async def test_what_people_decided_outlives_the_service_and_counts_once(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        caller = tas.caller
        await caller.set_up()
        request, asked = await waiting(tas, "quorum: 2")
        await vote(caller, asked, "approved")
        tas.service.kill()
        with tas.start() as second:
            await second.wait_ready()
            assert await vote(caller, asked, "approved") == "approved, 1 of 2"
            assert await vote(caller, asked, "approved", "peter") == "approved, 2 of 2"
            second.kill()
        with tas.start() as third:
            await third.wait_ready()
            await caller.again(request)
            await caller.dispatched(request)
            await caller.again(request)
            await caller.quiet()
            await settled(tas.dsn, request.execution_id, "permitted")
            await refused("gate_settled", vote(caller, asked, "approved", "mary"))
    phases = [str(entry["phase"]) for entry in await query(database(), "SELECT phase FROM tas.audit_entry")]
    assert phases.count("approval.consumed") == 1
