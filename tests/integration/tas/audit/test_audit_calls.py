"""What a person at psql makes of a call: other arguments, other rules, an outcome or a result that nobody reported."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
from tests.integration.tas.audit.test_audit_grounds import faults, sealed_so_far
from tests.integration.tas.test_approvals import LARGE, policy, vote, waiting
from tests.integration.tas.test_blobs import chunk
from tests.support.tas.audit_bundle import exported
from tests.support.tas.tas_caller import ARGS, query, settled
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_tas.core.policy.policy_file import rules_digest

__all__ = ["shared_tas", "tas"]

OTHER = canonical_json({**ARGS, "amount": 90})
SWAP = "UPDATE tas.tool_call SET args = $2, args_digest = $3, revision = revision + 1"
LOOSEN = (
    "UPDATE tas.permission_rule SET effect = 'allow', rule = replace(rule::text, 'require_approval', 'allow')::json"
    " WHERE project = $1 AND name = 'large'"
)
MOVED = "UPDATE tas.project_state SET registry_version = registry_version + 1 WHERE project = $1"


async def swap(tas: Running, execution_id: UUID, more: str = "") -> None:
    """Put other arguments, with their digest, in place of those of a call."""
    statement = f"{SWAP} {more} WHERE execution_id = $1"
    await query(tas.dsn, statement, execution_id, OTHER, digest_text(OTHER))


async def dead_letters(tas: Running, run_id: UUID) -> int:
    for _ in range(1_200):
        found = await query(tas.dsn, "SELECT FROM runs.dead_letter WHERE run_id = $1", run_id)
        if found:
            return len(found)
        await asyncio.sleep(0.05)
    return 0


@pytest.mark.parametrize("more", ["", ", asked_args = args, asked_digest = args_digest", ", args_digest = 'sha256:00'"])
async def test_a_call_whose_arguments_were_swapped_is_sent_no_more(tas: Running, more: str) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    await caller.dispatched(request)
    if "args_digest =" in more:
        await query(tas.dsn, "UPDATE tas.tool_call SET args = $2 WHERE execution_id = $1", request.execution_id, OTHER)
    else:
        await swap(tas, request.execution_id, f", attempt = 2 {more}")
    await caller.again(request)
    assert await dead_letters(tas, request.run_id) == 1
    assert [json.loads(one.model_dump_json())["args"] for one in caller.invocations[request.execution_id]] == [ARGS]
    assert await faults(tas) == [("stored_changed", "decision", "allow")]


async def test_a_call_that_seems_edited_and_approved_is_told_at_its_start(tas: Running) -> None:
    caller = tas.caller
    request = await caller.put(caller.request("orders.refund"))
    await caller.dispatched(request)
    bound = json.dumps({"args_digest": digest_text(OTHER)})
    (row,) = await query(
        tas.dsn,
        "INSERT INTO tas.approval (approval_id, run_id, execution_id, project, status, digest, bound, rule, reason,"
        " requested_by, expires_at, decided_by, decided_reason, edited_by) VALUES (gen_random_uuid(), $1, $2, $3,"
        " 'consumed', '', $4, '', '', $5, now(), 'mia', '', 'mia') RETURNING approval_id",
        *(request.run_id, request.execution_id, caller.project, bound, request.caller),
    )
    await swap(
        tas,
        request.execution_id,
        ", asked_args = args, asked_digest = args_digest, edited_by = 'mia', attempt = 2,"
        f" approval_id = '{row['approval_id']}'",
    )
    await caller.again(request)
    sent = await caller.dispatched(request, times=2)
    assert json.loads(sent.model_dump_json())["args"]["amount"] == 90
    since = await sealed_so_far(tas)
    answer = await caller.claim(sent)
    assert answer.granted
    await caller.report(sent, answer.claim_id)
    await settled(tas.dsn, request.execution_id, "succeeded")
    told = [("call_args_changed", "claim", "granted"), ("call_args_changed", "outcome", "succeeded")]
    sent_again = ("call_args_changed", "dispatch", "repeated")
    assert await faults(tas) == [sent_again, *told, ("stored_changed", "outcome", "succeeded")], "nobody edited it"
    assert await faults(tas, since=since) == told, "with the decision from before"


async def test_an_edit_by_a_person_is_no_fault_and_neither_is_a_bundle_that_begins_after_it(tas: Running) -> None:
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "edit", args={**LARGE, "amount": 200})
    since = await sealed_so_far(tas)
    await tas.caller.again(request)
    sent = await tas.caller.dispatched(request)
    answer = await tas.caller.claim(sent)
    await tas.caller.report(sent, answer.claim_id)
    await settled(tas.dsn, request.execution_id, "succeeded")
    assert await faults(tas) == []
    assert await faults(tas, since=since) == []


async def test_rules_that_were_changed_in_the_table_permit_nothing_until_a_policy_is_applied(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(policy())
    await query(tas.dsn, LOOSEN, caller.project)
    await query(tas.dsn, MOVED, caller.project)
    for args in (ARGS, LARGE):
        request = await caller.put(caller.request("orders.refund", args=args))
        denied = await caller.fact(request, "tool.denied")
        assert denied["denial"]["violation_type"] == "rules_changed"
    await caller.apply(policy("note: applied again"))
    await caller.dispatched(await caller.put(caller.request("orders.refund")))


async def test_rules_that_were_changed_for_a_moment_are_told_by_what_was_decided_then(tas: Running) -> None:
    caller = tas.caller
    project = caller.project
    await caller.apply(policy())
    kept = await query(tas.dsn, "SELECT * FROM tas.permission_rule WHERE project = $1 ORDER BY version, place", project)
    applied = await query(tas.dsn, "SELECT * FROM tas.policy_version WHERE project = $1", project)
    since = await sealed_so_far(tas)
    await query(tas.dsn, LOOSEN, project)
    await restate(tas, project)
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    await caller.dispatched(request)
    for row in kept:
        await query(
            tas.dsn,
            "UPDATE tas.permission_rule SET effect = $4, rule = $5::json"
            " WHERE project = $1 AND version = $2 AND place = $3",
            *(project, row["version"], row["place"], row["effect"], row["rule"]),
        )
    for row in applied:
        put = "UPDATE tas.policy_version SET rules_digest = $3 WHERE project = $1 AND version = $2"
        await query(tas.dsn, put, project, row["version"], row["rules_digest"])
    await query(tas.dsn, MOVED, project)
    await caller.fact(await caller.put(caller.request("orders.refund", args=LARGE)), "approval.required")
    told = [("decision_by_other_rules", "decision", "allow")]
    assert await faults(tas) == told
    assert await faults(tas, since=since) == told, "with what the policy was applied with"


async def test_an_older_policy_that_counts_for_a_moment_is_told_by_what_was_decided_then(tas: Running) -> None:
    caller = tas.caller
    await caller.apply(policy().replace("require_approval", "allow"))
    await caller.dispatched(await caller.put(caller.request("orders.refund", args=LARGE)))
    await caller.apply(policy())
    since = await sealed_so_far(tas)
    (state,) = await query(tas.dsn, "SELECT * FROM tas.project_state WHERE project = $1", caller.project)
    put = "UPDATE tas.project_state SET policy_version = $2 WHERE project = $1"
    for version in (state["policy_version"] - 1, state["policy_version"]):
        await query(tas.dsn, put, caller.project, version)
        request = await caller.put(caller.request("orders.refund", args=LARGE))
        if version < state["policy_version"]:
            await caller.dispatched(request)
    await caller.fact(request, "approval.required")
    told = [("decision_by_other_rules", "decision", "allow")]
    assert await faults(tas) == told
    assert await faults(tas, since=since) == told, "with the policy that was in force when it begins"


async def restate(tas: Running, project: str) -> None:
    """Let the stored digests be those of the rules as they are now."""
    for version in await query(tas.dsn, "SELECT version FROM tas.policy_version WHERE project = $1", project):
        rows = await query(
            tas.dsn,
            "SELECT place, name, effect, tool, operation, rule FROM tas.permission_rule"
            " WHERE project = $1 AND version = $2 ORDER BY place",
            *(project, version["version"]),
        )
        made = rules_digest([(*list(row.values())[:5], json.loads(row["rule"])) for row in rows])
        put = "UPDATE tas.policy_version SET rules_digest = $3 WHERE project = $1 AND version = $2"
        await query(tas.dsn, put, project, version["version"], made)
    await query(tas.dsn, MOVED, project)


@pytest.mark.parametrize("status", ["started", "succeeded", "failed", "unknown"])
async def test_an_end_that_nobody_reported_is_told(tas: Running, status: str) -> None:
    request = await tas.caller.put(tas.caller.request("orders.refund"))
    await tas.caller.dispatched(request)
    assert await faults(tas) == []
    await query(
        tas.dsn,
        "UPDATE tas.tool_call SET status = $2, revision = revision + 1 WHERE execution_id = $1",
        *(request.execution_id, status),
    )
    assert [fault.code for fault in await reported(tas)] == ["effect_without_outcome"]
    since = await sealed_so_far(tas)
    assert await reported(tas, since=since) == [], "the call is older"


@pytest.mark.parametrize("status", ["void", "denied", "permitted", "requested"])
async def test_a_call_that_started_is_told_whatever_its_row_says(tas: Running, status: str) -> None:
    sent = await tas.caller.call("orders.refund")
    await tas.caller.claim(sent)
    assert await faults(tas) == []
    await query(
        tas.dsn,
        "UPDATE tas.tool_call SET status = $2, revision = revision + 1 WHERE execution_id = $1",
        *(sent.execution_id, status),
    )
    (fault,) = await reported(tas)
    assert (fault.code, status in fault.message) == ("effect_without_outcome", True)


async def test_an_entry_that_is_in_no_queue_to_be_sealed_is_none(tas: Running) -> None:
    request = await tas.caller.put(tas.caller.request("orders.refund"))
    await tas.caller.dispatched(request)
    await sealed_so_far(tas)
    await query(tas.dsn, "UPDATE tas.tool_call SET status = 'succeeded' WHERE execution_id = $1", request.execution_id)
    await query(
        tas.dsn,
        "INSERT INTO tas.audit_record (project, run_id, execution_id, phase, verdict, tool, operation, network,"
        " agent_key, caller, actor, rule, policy_version, commitment) SELECT project, run_id, execution_id, 'outcome',"
        " 'succeeded', tool, operation, network, agent_key, caller, actor, rule, policy_version, commitment"
        " FROM tas.audit_record WHERE execution_id = $1 AND phase = 'decision'",
        request.execution_id,
    )
    assert [fault.code for fault in await reported(tas)] == ["effect_without_outcome"]


async def reported(tas: Running, **when: Any) -> Any:
    async with exported(tas.dsn, tas.caller.project) as (_, bundles):
        return (await bundles.report(**when)).faults


async def done(tas: Running, **outcome: Any) -> UUID:
    """Have a call claimed and report *outcome* of it."""
    request = await tas.caller.put(tas.caller.request("orders.refund"))
    sent = await tas.caller.dispatched(request)
    answer = await tas.caller.claim(sent)
    if "data" in outcome:
        data = outcome.pop("data")
        await tas.caller.ask(rpc.BLOB_PUT, **chunk(sent, data, 0, data))
        outcome |= {"result": None, "blob": True, "result_digest": digest_text(data)}
    await tas.caller.report(sent, answer.claim_id, **outcome)
    await settled(tas.dsn, request.execution_id, "succeeded")
    return request.execution_id


CHANGED = [("stored_changed", "outcome", "succeeded")]


async def test_a_result_that_was_rewritten_and_called_a_blob_is_told(tas: Running) -> None:
    execution_id = await done(tas)
    assert await faults(tas) == []
    (row,) = await query(tas.dsn, "SELECT fact FROM tas.tool_call WHERE execution_id = $1", execution_id)
    fact = {**json.loads(row["fact"]), "result": "no money was paid", "blob": True}
    await query(tas.dsn, "UPDATE tas.tool_call SET fact = $2 WHERE execution_id = $1", execution_id, json.dumps(fact))
    assert await faults(tas) == CHANGED


async def test_the_bytes_of_a_large_result_are_compared_as_long_as_they_are_there(tas: Running) -> None:
    await done(tas, data=b'"a large result"')
    named = digest_text(b'"a large result"')
    assert await faults(tas) == []
    change = "UPDATE runs.blob SET data = $2, size = 1 WHERE digest = $1 AND project = $3"
    await query(tas.dsn, change, named, b'"no money was paid"', tas.caller.project)
    assert await faults(tas) == CHANGED
    await query(tas.dsn, "DELETE FROM runs.blob WHERE digest = $1 AND project = $2", named, tas.caller.project)
    assert await faults(tas) == [], "what is gone can't be compared"


async def test_of_an_outcome_that_gives_a_result_and_a_blob_the_blob_counts(tas: Running) -> None:
    execution_id = await done(tas, blob=True, result_digest="sha256:00")
    (row,) = await query(tas.dsn, "SELECT fact FROM tas.tool_call WHERE execution_id = $1", execution_id)
    assert json.loads(row["fact"])["result"] is None
    assert await faults(tas) == []


async def test_a_digest_that_no_text_of_the_database_can_be_stops_no_export(tas: Running) -> None:
    execution_id = await done(tas, result=None, blob=True, result_digest="sha256:\0")
    assert await faults(tas) == []
    (row,) = await query(tas.dsn, "SELECT fact FROM tas.tool_call WHERE execution_id = $1", execution_id)
    fact = {**json.loads(row["fact"]), "result_digest": "sha256:\0"}
    await query(tas.dsn, "UPDATE tas.tool_call SET fact = $2 WHERE execution_id = $1", execution_id, json.dumps(fact))
    assert await faults(tas) == CHANGED, "nor does one that was written into the ledger"


HIDDEN_RUNS = ("DELETE FROM runs.run", "UPDATE runs.run SET erased_at = now()", "UPDATE runs.run SET project = 'ghost'")


@pytest.mark.parametrize("hide", HIDDEN_RUNS)
async def test_a_run_whose_row_is_taken_away_is_told_though_its_log_is_left(tas: Running, hide: str) -> None:
    request = await tas.caller.put(tas.caller.request("orders.refund"))
    await tas.caller.dispatched(request)
    async with exported(tas.dsn, tas.caller.project) as (connection, bundles):
        assert (await bundles.report()).faults == []
        assert (await connection.execute(f"{hide} WHERE run_id = $1", request.run_id)).endswith(" 1")
        (fault,) = (await bundles.report()).faults
        assert fault.code in {"decision_without_run_event", "requester_changed"}


TOLD = (
    {"preview": {"head": "pay eve", "tail": "", "size": 7}},
    {"result": None, "blob": True, "preview": {"head": "pay eve", "tail": "", "size": 7}},
    {"changes": [{"path": "eve.md", "digest": "sha256:00", "size": 1}]},
    {"failure": {"code": "x", "message": "pay eve"}},
)


@pytest.mark.parametrize("more", TOLD)
async def test_what_a_run_is_told_beside_the_result_is_compared(tas: Running, more: dict[str, Any]) -> None:
    caller = tas.caller
    sent = await caller.call("orders.refund")
    answer = await caller.claim(sent)
    await caller.report(sent, answer.claim_id)
    await settled(tas.dsn, sent.execution_id, "succeeded")
    assert await faults(tas) == []
    (row,) = await query(tas.dsn, "SELECT fact FROM tas.tool_call WHERE execution_id = $1", sent.execution_id)
    put = "UPDATE tas.tool_call SET fact = $2 WHERE execution_id = $1"
    await query(tas.dsn, put, sent.execution_id, json.dumps({**json.loads(row["fact"]), **more}))
    assert await faults(tas) == [("stored_changed", "outcome", "succeeded")]


PUT_IN = """
INSERT INTO tas.tool_call SELECT (jsonb_populate_record(t, jsonb_build_object(
  'run_id', $2::text, 'execution_id', $3::text, 'effect_class', 'pure'))).*
FROM tas.tool_call t WHERE t.execution_id = $1"""


async def test_a_row_that_lets_a_call_go_is_told_also_once_it_is_taken_out_again(tas: Running) -> None:
    caller = tas.caller
    model = await caller.put(caller.request("orders.refund"))
    await caller.dispatched(model)
    await caller.apply('kind: Policy\nrules:\n  - {name: never, tool: "orders.*", effect: deny}\n')
    request = caller.request("orders.refund")
    await query(tas.dsn, PUT_IN, model.execution_id, str(request.run_id), str(request.execution_id))
    await caller.put(request)
    await caller.dispatched(request)
    await query(tas.dsn, "DELETE FROM tas.tool_call WHERE execution_id = $1", request.execution_id)
    assert await faults(tas) == [("effect_without_decision", "dispatch", "repeated")]
