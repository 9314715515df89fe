"""What a person at psql makes the service do: approvals, votes and policies beside the log. It is refused, or told."""

import asyncio
import json
import uuid
from typing import Any

from tests.integration.tas.test_approvals import LARGE, policy, vote, waiting
from tests.support.tas.audit_bundle import exported
from tests.support.tas.tas_caller import query
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_tas.core.policy.policy_file import rules_digest

__all__ = ["shared_tas", "tas"]

APPROVE = (
    "UPDATE tas.approval SET status = 'approved', decided_by = 'boss', decided_at = clock_timestamp()"
    " WHERE approval_id = $1"
)
FORGE = "INSERT INTO tas.approval_vote VALUES ($1, $3, 'approved', 'fine', $2, clock_timestamp(), 'k')"


async def forge(tas: Running, asked: dict[str, Any], *people: str) -> None:
    """Put votes of *people* into the table."""
    for one in people:
        await query(tas.dsn, FORGE, uuid.UUID(asked["approval_id"]), asked["digest"], one)


async def approve(tas: Running, asked: dict[str, Any]) -> None:
    await query(tas.dsn, APPROVE, uuid.UUID(asked["approval_id"]))


async def faults(tas: Running, **when: Any) -> list[tuple[str, str, str]]:
    """Return code, phase and verdict of the faults in a bundle of the project."""
    async with exported(tas.dsn, tas.caller.project) as (connection, bundles):
        report = await bundles.report(**when)
        told = []
        for fault in report.faults:
            entry = await connection.fetchrow(
                "SELECT phase, verdict FROM tas.audit_record WHERE entry_id = $1", fault.entry_id
            )
            told.append((fault.code, *entry))
        return told


async def sealed_so_far(tas: Running) -> Any:
    """Wait until everything has a leaf, and return a time after that."""

    for _ in range(400):
        if not (await query(tas.dsn, "SELECT FROM tas.audit_unsealed LIMIT 1")):
            break
        await asyncio.sleep(0.05)
    (row,) = await query(tas.dsn, "SELECT clock_timestamp() AS now")
    return row["now"]


UNVOTED = ("approval_without_votes", "approval.consumed", "allow")


async def test_a_status_that_somebody_set_lets_nothing_go_and_people_are_asked_anew(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    await approve(tas, asked)
    await tas.caller.again(request)
    fresh = await tas.caller.fact(request, "approval.required", times=2)
    assert fresh["approval_id"] != asked["approval_id"] and fresh["quorum"] == 2
    assert request.execution_id not in tas.caller.invocations
    assert await faults(tas) == []


async def test_votes_that_were_put_into_the_table_are_told_by_a_bundle(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    await forge(tas, asked, "ghost")
    assert await vote(tas.caller, asked, "approved") == "approved, 2 of 2"
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    assert await faults(tas) == [UNVOTED]
    await query(tas.dsn, "DELETE FROM tas.approval_vote WHERE actor = 'ghost'")
    assert await faults(tas) == [UNVOTED], "also once they are gone again"


async def test_a_denial_that_nobody_voted_for_denies_nothing(tas: Running) -> None:
    request, asked = await waiting(tas)
    deny = "UPDATE tas.approval SET status = 'denied', decided_by = 'boss', decided_at = clock_timestamp()"
    await query(tas.dsn, f"{deny} WHERE approval_id = $1", uuid.UUID(asked["approval_id"]))
    await tas.caller.again(request)
    fresh = await tas.caller.fact(request, "approval.required", times=2)
    await vote(tas.caller, fresh, "approved")
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    assert await faults(tas) == []


async def test_the_row_of_a_no_is_compared_as_that_of_a_yes_is(tas: Running) -> None:
    request, asked = await waiting(tas)
    await vote(tas.caller, asked, "denied", reason="not him")
    await tas.caller.again(request)
    await tas.caller.fact(request, "tool.denied")
    assert await faults(tas) == []
    await query(tas.dsn, "UPDATE tas.approval_vote SET reason = 'told to' WHERE verdict = 'denied'")
    assert ("stored_changed", "approval.denied", "denied") in await faults(tas)


async def test_an_approval_all_by_hand_is_told_also_by_a_bundle_that_begins_after_the_question(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    since = await sealed_so_far(tas)
    await forge(tas, asked, "ghost", "boss")
    await approve(tas, asked)
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    assert await faults(tas) == [UNVOTED]
    assert await faults(tas, since=since) == [UNVOTED]


async def test_a_bundle_that_begins_later_brings_the_votes_and_the_policy_that_it_rests_on(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    await vote(tas.caller, asked, "approved")
    await vote(tas.caller, asked, "approved", "peter")
    since = await sealed_so_far(tas)
    await tas.caller.again(request)
    claimed = await tas.caller.dispatched(request)
    consumed = await sealed_so_far(tas)
    assert (await tas.caller.claim(claimed)).granted
    await tas.caller.put(tas.caller.request("orders.refund", args={**LARGE, "amount": 7}))
    assert await faults(tas, since=since) == []
    assert await faults(tas, since=consumed) == []


async def test_a_call_that_seems_held_is_let_go_by_no_approval_that_nobody_gave(tas: Running) -> None:
    request, asked = await waiting(tas, "quorum: 2")
    held = "UPDATE tas.tool_call SET status = 'requested' WHERE execution_id = $1"
    used = "UPDATE tas.approval SET status = 'consumed' WHERE approval_id = $1"
    await query(tas.dsn, used, uuid.UUID(asked["approval_id"]))
    await query(tas.dsn, held, request.execution_id)
    await tas.caller.again(request)
    fresh = await tas.caller.fact(request, "approval.required", times=2)
    assert request.execution_id not in tas.caller.invocations
    await forge(tas, fresh, "ghost", "boss")
    await query(tas.dsn, used, uuid.UUID(fresh["approval_id"]))
    await query(tas.dsn, held, request.execution_id)
    await tas.caller.again(request)
    await tas.caller.dispatched(request)
    assert await faults(tas) == [("approval_without_votes", "decision", "allow")]


async def test_a_policy_that_was_put_beside_the_log_is_told_also_once_it_looks_like_another(tas: Running) -> None:
    caller, project = tas.caller, tas.caller.project
    await caller.apply(policy())
    since = await sealed_so_far(tas)
    await add_policy(tas, allow="large")
    request = await caller.put(caller.request("orders.refund", args=LARGE))
    await caller.dispatched(request)
    told = [("decision_without_policy", "decision", "allow")]
    assert await faults(tas) == told
    assert await faults(tas, since=since) == told
    rules = await query(tas.dsn, "SELECT rule FROM tas.permission_rule WHERE project = $1 AND version = 2", project)
    assert rules, "the version before"
    await query(
        tas.dsn,
        "UPDATE tas.permission_rule t SET effect = o.effect, rule = o.rule FROM tas.permission_rule o"
        " WHERE t.project = $1 AND o.project = $1 AND o.version = t.version - 1 AND o.place = t.place"
        " AND t.version = (SELECT max(version) FROM tas.policy_version WHERE project = $1)",
        project,
    )
    assert await faults(tas) == told


async def add_policy(tas: Running, *, allow: str) -> None:
    """Copy the policy in force as the next version, with the rule *allow* allowing what it asked people about."""
    project = tas.caller.project
    (state,) = await query(tas.dsn, "SELECT policy_version FROM tas.project_state WHERE project = $1", project)
    version = state["policy_version"]
    rows = await query(
        tas.dsn,
        "SELECT * FROM tas.permission_rule WHERE project = $1 AND version = $2 ORDER BY place",
        project,
        version,
    )
    made = []
    for row in rows:
        rule, effect = json.loads(row["rule"]), row["effect"]
        if row["name"] == allow:
            rule["effect"] = effect = "allow"
        made.append((row["place"], row["name"], effect, row["tool"], row["operation"], rule))
    await query(
        tas.dsn,
        "INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, rules_digest)"
        " SELECT project, version + 1, digest, text, rules, source, note, applied_by, $3 FROM tas.policy_version"
        " WHERE project = $1 AND version = $2",
        *(project, version, rules_digest(made)),
    )
    for *columns, rule in made:
        await query(
            tas.dsn,
            "INSERT INTO tas.permission_rule VALUES ($1, $2, $3, $4, $5, $6, $7, $8::json)",
            *(project, version + 1, *columns, json.dumps(rule)),
        )
    await query(tas.dsn, "UPDATE tas.project_state SET policy_version = $2 WHERE project = $1", *(project, version + 1))
