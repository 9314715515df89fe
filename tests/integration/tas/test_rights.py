"""Policies, tools, approvals and the audit of a real TAS process."""

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.support.tas.tas_caller import ARGS, OPEN, TOOLS, TasCaller, query, row, tool
from tests.support.tas.tas_running import Running, running, shared_tas, tas
from tests.support.waiting import eventually

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.access import AccessVerdict
from towpath_embedded.servers.nats import Nats

__all__ = ["shared_tas", "tas"]

ASK = """
kind: Policy
rules:
  - {name: look, tool: orders.find, effect: allow}
  - {name: small, tool: orders.refund, effect: allow, when: args.amount <= 100}
  - {name: large, tool: orders.refund, effect: require_approval, when: args.amount > 100, note: somebody looks}
"""
LARGE = {"order_id": "A-1", "amount": 500}


async def test_a_new_policy_holds_from_the_next_call_on(tas: Running) -> None:
    caller = tas.caller
    await caller.call("orders.find")
    applied = await caller.apply("kind: Policy\nrules: []")
    assert (applied.version, applied.changed) == (2, True)
    refused = await caller.put(caller.request("orders.find"))
    assert (await caller.fact(refused, "tool.denied"))["policy_version"] == 2
    await caller.apply(OPEN)
    await caller.call("orders.find")


async def test_an_equal_text_changes_nothing_and_a_dry_run_neither(tas: Running) -> None:
    caller = tas.caller
    again = await caller.apply(OPEN)
    assert (again.version, again.changed) == (1, False)
    dry = await caller.ask(rpc.APPLY_POLICY, project=caller.project, actor="x", text=ASK, dry_run=True)
    assert (dry.version, dry.changed, dry.rules) == (1, True, 3)
    view = await caller.ask(rpc.GET_POLICY, project=caller.project)
    assert (view.version, view.text, view.applied_by) == (1, OPEN, "tester")
    assert [rule["name"] for rule in view.rules] == ["everything"]


async def test_a_bad_policy_is_refused_with_every_problem_and_the_old_one_stays(tas: Running) -> None:
    with pytest.raises(ProblemError) as caught:
        await tas.caller.apply("kind: Policy\nrules:\n  - {name: a, effect: alow}\n  - {effect: deny, wen: x}\n")
    assert caught.value.problem.code == "policy_invalid"
    assert [error.pointer for error in caught.value.problem.errors] == [
        "/rules/0/effect",
        "/rules/1/wen",
        "/rules/1/name",
    ]
    await tas.caller.call("orders.find")


async def test_every_change_of_a_policy_is_in_the_audit(tas: Running) -> None:
    await tas.caller.apply(ASK)
    entries = await tas.caller.audit(phase="policy.applied")
    assert [(entry.actor, entry.policy_version) for entry in entries] == [("tester", 1), ("tester", 2)]
    assert entries[1].detail["added"] == ["large", "look", "small"]
    assert entries[1].detail["removed"] == ["everything"]


async def test_a_rule_for_a_tool_that_nobody_offers_is_warned_about(tas: Running) -> None:
    text = "kind: Policy\nrules:\n  - {name: typo, tool: order.find, effect: allow}"
    applied = await tas.caller.apply(text)
    found = "line 3: rule typo: no registered tool matches 'order.find'; did you mean 'orders.find'?"
    assert applied.warnings == (found,)
    with pytest.raises(ProblemError) as caught:
        await tas.caller.ask(
            rpc.APPLY_POLICY, project=tas.caller.project, actor="x", text=text + "\n", source="p.yaml", strict=True
        )
    assert [error.detail for error in caught.value.problem.errors] == [found]
    assert caught.value.problem.detail == f"p.yaml: /rules/0: {found}"


async def test_a_rule_for_an_agent_of_no_network_is_warned_about(tas: Running) -> None:
    billing = {"key": "billing", "agent_type": "writer", "equipped_tools": ["orders.find"]}
    spec = {"name": "support", "agents": [billing, {"key": "triage"}]}
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute("INSERT INTO runs.snapshot VALUES ($1, '{}')", tas.caller.project)
        await connection.execute(
            "INSERT INTO runs.network_version VALUES ($1, 'support', 1, $1, $2, now(), 'x')",
            *(tas.caller.project, json.dumps(spec)),
        )
    finally:
        await connection.close()
    applied = await tas.caller.apply(
        """kind: Policy
rules:
  - {name: one, who: {network: support, agent: biling}, tool: "orders.*", effect: allow}
  - {name: two, who: {network: suport}, tool: "orders.*", effect: allow}
  - {name: three, who: {agent: "b*", agent_type: reader}, tool: "orders.*", effect: allow}
  - {name: four, who: {agent: "b*", agent_type: writer}, tool: "orders.*", effect: allow}
  - {name: five, who: {agent: billing}, tool: orders.refund, effect: allow}
"""
    )
    found = "line 7: rule five: no agent that it names is equipped with a tool that matches 'orders.refund'"
    assert applied.hints == (found,)
    assert applied.warnings == (
        "line 3: rule one: no agent of support matches 'biling'; did you mean 'billing'?",
        "line 4: rule two: no published network matches 'suport'; did you mean 'support'?",
        "line 5: rule three: no agent that it names is of a type that matches 'reader'",
    )


async def test_a_rule_that_gave_no_right_for_long_is_hinted_at(tas: Running) -> None:
    policy = OPEN + '  - {name: forgotten, tool: "orders.tag", effect: allow}\n'
    await tas.caller.apply(policy)
    requests = [tas.caller.request("orders.find") for _ in range(100)]
    await asyncio.gather(*(tas.caller.put(request) for request in requests))
    await eventually(lambda: len(tas.caller.invocations) == 100)
    applied = await tas.caller.apply(policy + "  - {name: new, tool: orders.ship, effect: allow}\n")
    assert applied.hints == ("line 5: rule forgotten: gave no right in the last 100 decisions",)


async def test_a_dry_run_decides_like_the_real_thing_and_changes_nothing(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    fields = {"project": caller.project, "network": "support", "agent_key": "billing"}

    async def check(name: str, args: Any) -> AccessVerdict:
        verdict: AccessVerdict = await caller.ask(rpc.CHECK_ACCESS, **fields, tool=name, args=args)
        return verdict

    assert (await check("orders.refund", ARGS)).rule == "small"
    large = await check("orders.refund", LARGE)
    assert (large.verdict, large.rule, large.policy_version) == ("require_approval", "large", 2)
    assert [(one.rule, one.matched) for one in large.trace] == [("small", False), ("large", True)]
    unknown = await check("orders.nope", {})
    assert (unknown.verdict, unknown.violation_type) == ("deny", "tool_unknown")
    assert await query(tas.dsn, "SELECT FROM tas.tool_call WHERE project = $1", caller.project) == []


async def test_the_permissions_of_an_agent(tas: Running) -> None:
    await tas.caller.apply(ASK)
    found = await tas.caller.ask(
        rpc.GET_PERMISSIONS, project=tas.caller.project, network="support", agent_key="billing"
    )
    seen = {one.tool: (one.verdict, one.conditional) for one in found.permissions}
    assert seen == {"orders.find": ("allow", False), "orders.refund": ("allow", True)}


async def test_tools_are_described_with_their_versions(tas: Running) -> None:
    caller = tas.caller
    changed = tool("orders.find", "pure", operation="read", description="finds orders")
    standing = (await caller.register(changed)).standings[0]
    assert (standing.version, standing.status) == (2, "accepted")
    assert (await caller.register(changed)).standings[0].status == "unchanged"
    found = await caller.ask(rpc.DESCRIBE_TOOLS, project=caller.project, names=["orders.find", "nothing"])
    assert [one.description for one in found.tools] == ["finds orders"]
    assert found.versions == {"orders.find": 2}
    everything = await caller.ask(rpc.DESCRIBE_TOOLS, project=caller.project)
    assert {one.name for one in everything.tools if not one.internal} == {one.name for one in TOOLS}
    other = await caller.ask(rpc.DESCRIBE_TOOLS, project="other")
    assert all(one.internal for one in other.tools)


async def test_a_schema_that_can_not_be_checked_is_refused_at_the_door(tas: Running) -> None:
    with pytest.raises(ProblemError, match="request_invalid"):
        await tas.caller.register(tool("orders.bad", "pure", parameters={"type": "objekt"}))


async def test_a_call_waits_for_a_person_and_runs_once_approved(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    asked = await caller.fact(request, "approval.required")
    assert (asked["rule"], asked["reason"], asked["args"]) == ("large", "somebody looks", LARGE)
    await caller.again(request)
    assert await caller.fact(request, "approval.required", times=2) == asked
    await resolve(caller, asked, "approved")
    resolved = await gate_resolved(caller, request.run_id)
    assert (resolved["verdict"], resolved["by"]) == ("approved", "paula")
    await caller.again(request)
    invocation = await caller.dispatched(request)
    assert (await caller.claim(invocation)).granted
    stored = await query(tas.dsn, "SELECT status FROM tas.approval WHERE run_id = $1", request.run_id)
    assert [one["status"] for one in stored] == ["consumed"]
    phases = [entry.phase for entry in await caller.audit(run_id=request.run_id)]
    assert phases == ["decision", "approval.approved", "approval.consumed", "claim"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"roles": []}, "role_missing"),
        ({"actor": "anonymous"}, "requester_may_not_approve"),
        ({"verdict": "denied", "reason": ""}, "reason_required"),
        ({"digest": "sha256:other"}, "digest_changed"),
        ({"verdict": "retry"}, "verdict_invalid"),
        ({"project": "other"}, "gate_not_found"),
        ({"approval_id": str(uuid.uuid4())}, "gate_not_found"),
    ],
)
async def test_a_word_that_does_not_count_is_refused(tas: Running, change: dict[str, Any], code: str) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    asked = await caller.fact(request, "approval.required")
    with pytest.raises(ProblemError, match=code):
        await resolve(caller, asked, **{"verdict": "approved", **change})
    await caller.again(request)
    await caller.fact(request, "approval.required", times=2)
    assert request.execution_id not in caller.invocations


async def test_of_two_people_at_once_one_counts(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    asked = await caller.fact(request, "approval.required")
    words = [resolve(caller, asked, verdict, actor=f"p{n}") for n, verdict in enumerate(["approved", "denied"] * 3)]
    answers = await asyncio.gather(*words, return_exceptions=True)
    refused = [answer.problem.code for answer in answers if isinstance(answer, ProblemError)]
    assert refused == ["gate_settled"] * 5


async def test_a_denied_approval_tells_the_model_why(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    await resolve(caller, await caller.fact(request, "approval.required"), "denied", reason="not this customer")
    await caller.again(request)
    denial = (await caller.fact(request, "tool.denied"))["denial"]
    assert (denial["violation_type"], denial["reason"]) == ("approval_denied", "not this customer")


async def test_an_edited_rule_voids_an_approval_and_asks_again(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    first = await caller.fact(request, "approval.required")
    await resolve(caller, first, "approved")
    await caller.apply(ASK.replace("args.amount > 100", "args.amount > 50"))
    await caller.again(request)
    second = await caller.fact(request, "approval.required", times=2)
    assert second["approval_id"] != first["approval_id"]
    (change,) = second["changes"]
    assert change.startswith("rules.large: sha256:"), "the rule that decides has another content"
    assert request.execution_id not in caller.invocations
    await resolve(caller, second, "approved")
    await caller.again(request)
    await caller.dispatched(request)


async def test_an_unrelated_edit_leaves_an_approval_alone(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    await resolve(caller, await caller.fact(request, "approval.required"), "approved")
    await caller.apply(ASK + "  - {name: more, tool: orders.ship, effect: allow}\n")
    await caller.again(request)
    await caller.dispatched(request)


async def test_an_approval_expires_as_denied(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    await caller.fact(request, "approval.required")
    await query(tas.dsn, "UPDATE tas.approval SET expires_at = now() WHERE run_id = $1", request.run_id)
    await caller.again(request)
    assert (await caller.fact(request, "tool.denied"))["denial"]["violation_type"] == "approval_expired"
    assert (await gate_resolved(caller, request.run_id))["verdict"] == "expired"


async def test_a_fence_voids_a_call_that_waits_for_a_person(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(ASK)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    asked = await caller.fact(request, "approval.required")
    await caller.ask(rpc.RAISE_FENCE, run_id=request.run_id, project=caller.project, fence=1)
    with pytest.raises(ProblemError, match="gate_settled"):
        await resolve(caller, asked, "approved")
    assert (await row(tas.dsn, request.execution_id))["status"] == "void"


async def test_the_audit_is_searched_and_paged_within_a_project(tas: Running) -> None:
    caller = tas.caller
    for _ in range(5):
        await caller.call("orders.find")
    denied = await caller.put(caller.request("orders.nope", agent_key="other"))
    await caller.fact(denied, "tool.denied")
    page = await caller.ask(rpc.AUDIT_QUERY, project=caller.project, phase="decision", limit=4)
    assert (len(page.entries), page.total) == (4, 6)
    rest = await caller.ask(rpc.AUDIT_QUERY, project=caller.project, phase="decision", limit=4, before=page.next_before)
    assert (len(rest.entries), rest.next_before) == (2, None)
    assert [one.execution_id for one in await caller.audit(verdict="deny")] == [denied.execution_id]
    assert [one.execution_id for one in await caller.audit(agent_key="other")] == [denied.execution_id]
    assert len(await caller.audit(tool="orders.find")) == 5 + 1  # and its registration
    now = datetime.now(UTC)
    assert await caller.audit(since=now + timedelta(hours=1)) == ()
    assert len(await caller.audit(until=now + timedelta(hours=1), phase="decision")) == 6
    other = await caller.ask(rpc.AUDIT_QUERY, project="other")
    assert other.entries == ()


async def test_the_service_can_not_rewrite_its_audit(tas: Running, shared_tas: Any) -> None:
    connection = await asyncpg.connect(tas.dsn)
    try:
        await connection.execute("SET ROLE towpath_tas")
        for statement in (
            "UPDATE tas.audit_record SET verdict = 'allow'",
            "DELETE FROM tas.audit_record",
            "TRUNCATE tas.audit_record",
            "DELETE FROM tas.tool_call",
            "UPDATE tas.policy_version SET text = ''",
            "DELETE FROM tas.fence",
            "SELECT * FROM runs.run",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_policy_file_is_followed_and_a_bad_one_changes_nothing(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    file = folder / "policy.yaml"
    file.write_text(OPEN)
    async with running(nats_server, database, folder, policy_file=str(file)) as tas:
        caller = tas.caller
        await caller.register()
        await caller.call("orders.find")
        file.write_text("kind: Policy\nrules: [{name: a, effect: x}]\n")
        await eventually(lambda: "policy problem" in tas.service.log.read_text())
        await caller.call("orders.find")
        file.write_text("kind: Policy\nrules: []\n")
        await eventually(lambda: '"version": 2' in tas.service.log.read_text())
        refused = await caller.put(caller.request("orders.find"))
        await caller.fact(refused, "tool.denied")
        assert {entry.actor for entry in await caller.audit(phase="policy.applied")} == {"file"}


async def resolve(caller: TasCaller, asked: dict[str, Any], verdict: str, **changes: Any) -> Any:
    """Vote on an approval."""
    fields = {
        "project": caller.project,
        "gate_id": str(uuid.uuid4()),
        "approval_id": asked["approval_id"],
        "verdict": verdict,
        "reason": "checked",
        "actor": "paula",
        "roles": ["approver"],
        "digest": asked["digest"],
    }
    return await caller.ask(rpc.RESOLVE_APPROVAL, **{**fields, **changes})


async def gate_resolved(caller: TasCaller, run_id: uuid.UUID) -> dict[str, Any]:
    """Wait until the run was told that its gate is settled."""

    def found() -> list[dict[str, Any]]:
        return [fact for fact in caller.run_facts.get(run_id, []) if fact["type"] == "gate.resolved"]

    await eventually(lambda: found() != [])
    return found()[0]
