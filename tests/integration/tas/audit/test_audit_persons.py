"""What a person at psql says in other people's name, or takes away for a moment: the log's entries don't fit then."""

import asyncio
import uuid
from typing import Any

import pytest
from tests.integration.tas.audit.test_audit_grounds import faults, forge, sealed_so_far
from tests.integration.tas.test_approvals import LARGE, make_key, policy, vote, waiting
from tests.integration.tas.test_switches import orchestrator, switch
from tests.support.tas.audit_bundle import exported
from tests.support.tas.tas_caller import query
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_fabric.ids import new_run_id
from towpath_tas.core.tools.registry import spec_digest

__all__ = ["shared_tas", "tas"]

HOUR_AGO = "clock_timestamp() - interval '1 hour'"


async def approved(tas: Running, actor: str, **key: Any) -> Any:
    """Have one call approved by *actor* and sent."""
    request, asked = await waiting(tas)
    assert await vote(tas.caller, asked, "approved", actor, **key) == "approved"
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    return uuid.UUID(asked["approval_id"])


async def test_a_vote_by_a_key_that_the_log_knows_is_no_fault(tas: Running) -> None:
    await approved(tas, "mia", **await make_key(tas, "mia"))
    assert await faults(tas) == []
    assert await faults(tas, since=await sealed_so_far(tas)) == []


@pytest.mark.parametrize("actor", ["mia", "noa"])
async def test_a_vote_by_a_key_that_was_made_beside_the_log_or_for_somebody_else_is_told(
    tas: Running, actor: str
) -> None:
    key = await make_key(tas, "noa") if actor == "mia" else {"key_prefix": "made-by-hand"}
    await approved(tas, actor, **key)
    assert await faults(tas) == [("key_unmade", "approval.approved", "approved")]


async def test_votes_that_no_entry_tells_of_are_told(tas: Running) -> None:
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "approved")
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    await forge(tas, asked, "ceo")
    assert await faults(tas) == [], "its entry could still come"
    await query(tas.dsn, f"UPDATE tas.approval_vote SET at = {HOUR_AGO} WHERE actor = 'ceo'")
    assert await faults(tas) == [("vote_without_entry", "approval.consumed", "allow")]


async def test_the_reason_of_an_edit_is_compared(tas: Running) -> None:
    _, asked = await waiting(tas)
    await vote(tas.caller, asked, "edit", args={**LARGE, "amount": 200})
    assert await faults(tas) == []
    await query(tas.dsn, "UPDATE tas.approval_vote SET reason = 'told to' WHERE verdict = 'edited'")
    assert ("stored_changed", "approval.edited", "edited") in await faults(tas)


async def test_a_call_that_was_let_go_while_a_pause_held_it_is_told(tas: Running) -> None:
    caller, project = tas.caller, tas.caller.project
    async with orchestrator(caller):
        await switch(caller, "pause", name="orders.ref*")
        await sealed_so_far(tas)
        kept = await query(tas.dsn, "DELETE FROM tas.switch WHERE project = $1 RETURNING *", project)
        await query(
            tas.dsn, "UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1", project
        )
        request = await caller.put(caller.request("orders.refund"))
        await caller.dispatched(request)
        other = await caller.put(caller.request("orders.find"))
        await caller.dispatched(other)
        await query(tas.dsn, "INSERT INTO tas.switch VALUES ($1, $2, $3, $4, $5, $6, $7)", *kept[0].values())
        assert await faults(tas) == [("call_under_pause", "decision", "allow")]
        await switch(caller, "resume", name="orders.ref*")
        assert await faults(tas) == [("call_under_pause", "decision", "allow")], "also once the pause is over"
        await caller.put(caller.request("orders.refund"))
        await sealed_so_far(tas)
        assert len(await faults(tas)) == 1


async def test_a_role_that_a_key_was_given_beside_the_log_is_told(tas: Running) -> None:
    key = await make_key(tas, "mia", roles=())
    await query(tas.dsn, "UPDATE gateway.api_key SET roles = '{approver}' WHERE prefix = $1", key["key_prefix"])
    await approved(tas, "mia", **key)
    assert await faults(tas) == [("key_without_right", "approval.approved", "approved")]


@pytest.mark.parametrize(("told", "code"), [({"key_commitment": "00"}, "key_unmade"), ({"key_commitment": ""}, None)])
async def test_a_key_with_another_secret_is_told(tas: Running, told: dict[str, str], code: str | None) -> None:
    await approved(tas, "mia", **await make_key(tas, "mia"), **told)
    assert await faults(tas) == ([(code, "approval.approved", "approved")] if code else [])


async def test_whoever_changes_what_is_decided_is_held_against_the_key(tas: Running) -> None:
    """All five commands name the key that they came with, and this one may only vote."""
    caller = tas.caller
    by_mia = {"actor": "mia", **await make_key(tas, "mia", roles=("policy_admin", "operator"))}
    about = {"project": caller.project, **by_mia}
    tool = {**about, "name": "orders.refund", "version": 1}
    await caller.ask(rpc.APPLY_POLICY, **about, text=policy())
    rule = {"name": "r", "tool": "orders.find", "effect": "allow"}
    await caller.ask(rpc.CHANGE_RULE, **about, name="r", rule=rule)
    await caller.ask(rpc.ROLL_BACK_POLICY, **about, version=1)
    await caller.ask(rpc.DECIDE_PROPOSAL, **tool, accept=False, withdraw=True)
    await caller.ask(rpc.DECIDE_PROPOSAL, **tool, accept=True)
    async with orchestrator(caller):
        await switch(caller, "pause", **by_mia)
        await switch(caller, "resume", **by_mia)
    phases = (*["policy.applied"] * 3, "tool.withdrawn", "tool.reinstated", "switch.paused", "switch.resumed")
    told = [("key_without_right", phase, phase.partition(".")[2]) for phase in phases]
    assert await faults(tas) == told
    await query(tas.dsn, "DELETE FROM gateway.api_key WHERE prefix = $1", by_mia["key_prefix"])
    assert await faults(tas) == told, "the log still has who made it"


async def test_what_people_do_to_runs_networks_and_limits_is_held_against_the_key(tas: Running) -> None:
    """This key may only vote; the last of these is asked for over NATS, without a key."""
    key = await make_key(tas, "mia", roles=("policy_admin",))
    actions = ("run.cancel_requested", "run.forked", "network.published", "budget.set", "dead_letter.requeued")
    for action in actions:
        about = {"project": tas.caller.project, "action": action, "actor": "mia", "reason": "r"}
        await tas.caller.ask(rpc.RECORD_ACTION, **about, detail={"by_key": key["key_prefix"]})
    assert await faults(tas) == [("key_without_right", action, "initiated") for action in actions]
    await tas.caller.ask(rpc.RECORD_ACTION, **about, detail={"by_key": "", "by_commitment": ""})
    assert len(await faults(tas)) == len(actions)


async def test_a_request_that_is_sent_again_has_one_entry_of_its_run(tas: Running) -> None:
    run_id, project = new_run_id(), tas.caller.project
    about = {"project": project, "action": "run.cancel_requested", "run_id": run_id, "once": True}
    again = [tas.caller.ask(rpc.RECORD_ACTION, **about, actor="mia") for _ in range(8)]
    await asyncio.gather(*again, tas.caller.ask(rpc.RECORD_ACTION, **about, actor="noa"))
    await tas.caller.ask(rpc.RECORD_ACTION, **about | {"run_id": new_run_id()}, actor="mia")
    told = (
        "SELECT actor, run_id = $2 AS same FROM tas.audit_record WHERE project = $1 AND phase = 'run.cancel_requested'"
    )
    found = [(row["actor"], row["same"]) for row in await query(tas.dsn, told, project, run_id)]
    assert sorted(found) == [("mia", False), ("mia", True), ("noa", True)]


async def test_a_run_that_seems_to_be_somebody_elses_is_told(tas: Running) -> None:
    request = await tas.caller.call("orders.refund")
    async with exported(tas.dsn, tas.caller.project) as (connection, bundles):
        assert (await bundles.report()).faults == []
        await connection.execute("UPDATE runs.run SET caller = 'zed' WHERE run_id = $1", request.run_id)
        assert [fault.code for fault in (await bundles.report()).faults] == ["requester_changed"]


async def test_a_withdrawn_tool_that_is_taken_in_for_a_moment_is_told(tas: Running) -> None:
    caller = tas.caller
    about = {"project": caller.project, "name": "orders.refund", "actor": "paula", "version": 1}
    await caller.ask(rpc.DECIDE_PROPOSAL, **about, accept=False, withdraw=True)
    put = "UPDATE tas.tool SET withdrawn = $2 WHERE project = $1 AND name = 'orders.refund'"
    moved = "UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1"
    for withdrawn in (False, True):
        await query(tas.dsn, put, caller.project, withdrawn)
        await query(tas.dsn, moved, caller.project)
        if not withdrawn:
            await caller.call("orders.refund")
    assert await faults(tas) == [("tool_not_in_force", "decision", "allow")]


async def test_a_tool_that_was_withdrawn_and_reinstated_is_in_force(tas: Running) -> None:
    caller = tas.caller
    about = {"project": caller.project, "name": "orders.refund", "actor": "paula", "version": 1}
    await caller.call("orders.refund")
    await caller.ask(rpc.DECIDE_PROPOSAL, **about, accept=False, withdraw=True)
    await caller.ask(rpc.DECIDE_PROPOSAL, **about, accept=True)
    await caller.call("orders.refund")
    assert await faults(tas) == []
    assert await faults(tas, since=await sealed_so_far(tas)) == []


PUT_SPEC = "UPDATE tas.tool SET spec = $2::json, digest = $3 WHERE project = $1 AND name = 'orders.refund'"
MOVED = "UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1"


async def put_spec(tas: Running, text: str, digest: str) -> None:
    await query(tas.dsn, PUT_SPEC, tas.caller.project, text, digest)
    await query(tas.dsn, MOVED, tas.caller.project)


async def test_a_definition_that_was_rewritten_is_nobodys_tool_and_for_a_moment_it_is_told(tas: Running) -> None:
    caller = tas.caller
    await caller.call("orders.refund")
    since = await sealed_so_far(tas)
    stored = "SELECT spec::text AS spec, digest FROM tas.tool WHERE project = $1 AND name = 'orders.refund'"
    (row,) = await query(tas.dsn, stored, caller.project)
    other = ToolSpec.model_validate_json(row["spec"]).model_copy(update={"description": "Pays anybody."})
    await put_spec(tas, other.model_dump_json(), "sha256:00")
    denied = await caller.fact(await caller.put(caller.request("orders.refund")), "tool.denied")
    assert denied["denial"]["violation_type"] == "tool_unknown"
    await put_spec(tas, other.model_dump_json(), spec_digest(other))
    await caller.call("orders.refund")
    await put_spec(tas, row["spec"], row["digest"])
    await caller.call("orders.refund")
    assert await faults(tas) == [("tool_not_in_force", "decision", "allow")]
    assert await faults(tas, since=since) == [], "without the entry that registered it that can't be told"


@pytest.mark.parametrize("value", ["20000-01-01", "0044-03-15 BC"])
async def test_a_time_that_nobody_writes_is_told_and_is_no_error_of_the_service(tas: Running, value: str) -> None:
    await approved(tas, "mia")
    await query(tas.dsn, f"UPDATE tas.approval_vote SET at = '{value}'")
    try:
        with pytest.raises(ProblemError, match="nobody writes"):
            await faults(tas)
    finally:
        await query(tas.dsn, "UPDATE tas.approval_vote SET at = clock_timestamp()")
