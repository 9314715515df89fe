"""Attacks by who may write to the database: taking something out of sight, or changing what the platform reads."""

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx2
from tests.attacks.attack import AttackWorkedError, Position, attack, refused_as, require
from tests.attacks.target import Target

from towpath_audit.report import AuditReport
from towpath_audit.verifier import verify
from towpath_contracts.canonical import digest_text
from towpath_fabric.clock import wall
from towpath_tas.core.policy.policy_file import rules_digest

PROJECT_MOVED = "UPDATE tas.project_state SET registry_version = registry_version + 1000 WHERE project = 'default'"
"""To a number that nobody has seen: attacks before put theirs back, and who has seen it reads nothing anew."""

TOLD_FOR_EVER = frozenset(
    {
        *("approval_without_votes", "call_args_changed", "call_state_changed", "call_under_pause"),
        *("decision_by_other_rules", "entry_out_of_order"),
        *("decision_without_policy", "effect_without_outcome", "key_unmade", "key_without_right", "tool_not_in_force"),
        *("requester_changed", "stored_changed"),
    }
)
"""Faults that nothing puts right: the platform acted on what an attack here put beside the log."""


@attack(Position.DATABASE_ADMIN)
async def hide_an_approval(target: Target) -> str:
    """Move the entry of an approval to another project, so that the project's bundle lacks it."""
    async with target.client("aud-mia", roles=["approver"]) as approver, target.client("aud-1") as client:
        run = await target.run(client, [("desk.refund", {"order": "71", "amount": 9999})], "Refund order 71.")
        (gate,) = (await client.get(f"/v1/gates?run_id={run['run_id']}&status=pending")).json()["gates"]
        vote = {"verdict": "approved", "reason": "fine"}
        (await approver.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)).raise_for_status()
        return await _hidden(target, f"phase = 'approval.approved' AND run_id = '{run['run_id']}'")


@attack(Position.DATABASE_ADMIN)
async def hide_a_policy_change(target: Target) -> str:
    """Move the entry of a policy that was applied to another project."""
    return await _hidden(target, "phase = 'policy.applied'")


@attack(Position.DATABASE_ADMIN)
async def hide_a_registration(target: Target) -> str:
    """Move the entry of a tool that was registered to another project."""
    return await _hidden(target, "phase = 'tool.registered' AND tool = 'desk.refund'")


@attack(Position.DATABASE_ADMIN)
async def hide_a_decision(target: Target) -> str:
    """Move the entry of one decision to another project."""
    run_id = await _labelled(target, "72")
    return await _hidden(target, f"phase = 'decision' AND run_id = '{run_id}'")


@attack(Position.DATABASE_ADMIN)
async def hide_a_whole_run(target: Target) -> str:
    """Move every entry of a run, and its rows of the ledger, to another project."""
    run_id = await _labelled(target, "73")
    of_run = f"UPDATE tas.{{table}} SET project = '{{project}}' WHERE run_id = '{run_id}'"
    async with _tampered(
        target,
        [of_run.format(table=table, project="ghost") for table in ("audit_record", "tool_call")],
        [of_run.format(table=table, project="default") for table in ("audit_record", "tool_call")],
    ) as report:
        return located(report)


async def _labelled(target: Target, order: str) -> str:
    async with target.client(f"aud-{order}") as client:
        run = await target.run(client, [("desk.label", {"ids": [order]})], f"Label {order}.")
        return str(run["run_id"])


async def _hidden(target: Target, where: str) -> str:
    """Move the entries that fit *where* to the project `ghost`; return what a bundle says of it."""
    move = f"UPDATE tas.audit_record SET project = 'ghost' WHERE project = 'default' AND {where}"
    back = f"UPDATE tas.audit_record SET project = 'default' WHERE project = 'ghost' AND {where}"
    async with _tampered(target, [move], [back]) as report:
        return located(report)


def located(report: AuditReport) -> str:
    if report.holds:
        raise AttackWorkedError(f"the bundle holds {report.notes}")
    fault = report.faults[0]
    if fault.place == "the bundle":
        raise AttackWorkedError(f"{fault.code}, and nobody can tell where")
    return f"{fault.code} at {fault.place}"


@asynccontextmanager
async def _tampered(target: Target, change: list[str], undo: list[str]) -> AsyncIterator[AuditReport]:
    """Seal what there is, run the statements *change*, and give what a bundle then says; *undo* puts it right."""
    async with watched(target) as report_now, target.database() as database:
        for statement in change:
            if await database.execute(statement) == "UPDATE 0":
                raise ValueError(f"nothing to change: {statement}")
        try:
            yield await report_now()
        finally:
            for statement in undo:
                await database.execute(statement)


@asynccontextmanager
async def watched(target: Target) -> AsyncIterator[Callable[[], Awaitable[AuditReport]]]:
    """Keep a checkpoint, and give a function that says which faults a bundle has that it has not now."""
    async with target.client("auditor", roles=["auditor"]) as auditor:
        kept = (await auditor.get("/v1/audit/checkpoint")).json()

        async def report() -> AuditReport:
            return verify(await bundle_of(auditor), checkpoints=[kept["note"]], keys=[kept["public_key"]])

        before = await report()
        if not {fault.code for fault in before.faults} <= TOLD_FOR_EVER:
            raise ValueError(f"the log is damaged: {before.faults[0]}")
        known = {(fault.code, fault.entry_id, fault.leaf) for fault in before.faults}

        async def new_faults() -> AuditReport:
            found = await report()
            found.faults = [fault for fault in found.faults if (fault.code, fault.entry_id, fault.leaf) not in known]
            return found

        yield new_faults


@asynccontextmanager
async def label_denied(admin: httpx2.AsyncClient) -> AsyncIterator[None]:
    """Deny `desk.label` by its rule until the block ends."""
    rule = {"name": "label", "tool": "desk.label", "effect": "allow"}
    (await admin.put("/v1/policy/rules/label", json={"rule": {**rule, "effect": "deny"}})).raise_for_status()
    try:
        yield
    finally:
        (await admin.put("/v1/policy/rules/label", json={"rule": rule})).raise_for_status()


@asynccontextmanager
async def older_policy(database: Any) -> AsyncIterator[None]:
    """Let the policy before the one in force count until the block ends."""
    put = "UPDATE tas.project_state SET policy_version = policy_version + $1 WHERE project = 'default'"
    await database.execute(put, -1)
    try:
        yield
    finally:
        await database.execute(put, 1)


@asynccontextmanager
async def switch_taken_away(database: Any, name: str) -> AsyncIterator[None]:
    """Take the switch of a tool out of its table until the block ends."""
    (row,) = await database.fetch("DELETE FROM tas.switch WHERE name = $1 RETURNING *", name)
    await database.execute(PROJECT_MOVED)
    try:
        yield
    finally:
        await database.execute("INSERT INTO tas.switch VALUES ($1, $2, $3, $4, $5, $6, $7)", *row.values())
        await database.execute(PROJECT_MOVED)


async def bundle_of(client: httpx2.AsyncClient, **wanted: Any) -> list[str]:
    """Export the audit piece by piece, as who holds the client's key."""
    lines: list[str] = []
    body = dict(wanted)
    while True:
        answer = await client.post("/v1/audit/export", json=body)
        answer.raise_for_status()
        piece = answer.json()
        lines += piece["lines"]
        if not piece.get("cursor"):
            return lines
        body = {**wanted, "cursor": piece["cursor"], "previous": hashlib.sha256(lines[-1].encode()).hexdigest()}


@attack(Position.KEY_HOLDER)
async def erase_as_a_policy_admin(target: Target) -> str:
    """Erase what was done under a policy as somebody who may change policies."""
    async with target.client("aud-3", roles=["policy_admin"]) as admin:
        answer = await admin.post("/v1/erasures", json={"reason": "tidy", "before": wall().isoformat()})
        return refused_as(answer, "forbidden")


@attack(Position.KEY_HOLDER)
async def erase_alone(target: Target) -> str:
    """Erase everything with one key of the scope audit:erase, and with another key of the same person."""
    async with target.client("aud-4", scopes=["audit:erase"], as_caller=True) as eraser:
        asked = await eraser.post("/v1/erasures", json={"reason": "tidy", "before": wall().isoformat()})
        asked.raise_for_status()
        path = f"/v1/erasures/{asked.json()['erasure_id']}"
        answers = [await eraser.post(f"{path}/confirm")]
        async with target.client("aud-4", scopes=["audit:erase"], as_caller=True) as again:
            answers.append(await again.post(f"{path}/confirm"))
        (await eraser.post(f"{path}/withdraw")).raise_for_status()
        return ", ".join(refused_as(answer, "second_person_required") for answer in answers)


@attack(Position.DATABASE_ADMIN)
async def rewrite_the_arguments_of_a_call(target: Target) -> str:
    """Rewrite in the ledger, and its digest with it, what an executed call did."""
    run_id = await _labelled(target, "74")
    async with target.database() as database:
        row = await database.fetchrow("SELECT args, args_digest FROM tas.tool_call WHERE run_id = $1", UUID(run_id))
    args = row["args"].replace("74", "75")
    write = "UPDATE tas.tool_call SET args = '{}', args_digest = '{}' WHERE run_id = '" + run_id + "'"
    change, undo = write.format(args, digest_text(args)), write.format(row["args"], row["args_digest"])
    async with _tampered(target, [change], [undo]) as report:
        return located(report)


@attack(Position.DATABASE_ADMIN)
async def swap_payloads_for_large_ones(target: Target) -> str:
    """Make what was recorded of a call too large for a bundle, and rewrite the call's arguments in the ledger."""
    run_id = await _labelled(target, "76")
    of_run = f"(SELECT entry_id FROM tas.audit_record WHERE run_id = '{run_id}')"
    swap = "UPDATE tas.audit_payload SET detail = {} WHERE entry_id IN " + of_run
    rewrite = f"UPDATE tas.tool_call SET args = {{}} WHERE run_id = '{run_id}'"
    async with _tampered(
        target,
        [swap.format("detail || repeat('x', 300001)"), rewrite.format("replace(args, '76', '77')")],
        [swap.format("left(detail, -300001)"), rewrite.format("replace(args, '77', '76')")],
    ) as report:
        return located(report)


@attack(Position.DATABASE_ADMIN)
async def rewrite_the_text_of_a_policy(target: Target) -> str:
    """Change the text of a policy that was in force."""
    change = "UPDATE tas.policy_version SET text = text || '#' WHERE version = 1"
    undo = "UPDATE tas.policy_version SET text = left(text, -1) WHERE version = 1"
    async with _tampered(target, [change], [undo]) as report:
        return located(report)


@attack(Position.DATABASE_ADMIN)
async def rewrite_who_approved(target: Target) -> str:
    """Put another person's name to an approval."""
    async with target.client("aud-noa", roles=["approver"]) as approver, target.client("aud-2") as client:
        run = await target.run(client, [("desk.refund", {"order": "76", "amount": 9999})], "Refund order 76.")
        (gate,) = (await client.get(f"/v1/gates?run_id={run['run_id']}&status=pending")).json()["gates"]
        vote = {"verdict": "approved", "reason": "fine"}
        (await approver.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)).raise_for_status()
        write = "UPDATE tas.approval SET decided_by = '{}' WHERE run_id = '" + run["run_id"] + "'"
        async with _tampered(target, [write.format("mia")], [write.format("aud-noa")]) as report:
            return located(report)


@attack(Position.DATABASE_ADMIN)
async def vote_as_nobody(target: Target) -> str:
    """Put the first of two votes into the table, so that one person's yes is enough, and take it out again."""
    async with target.client("aud-admin", roles=["policy_admin"]) as admin:
        rule = {"name": "refunds", "tool": "desk.refund", "effect": "require_approval"}
        (await admin.put("/v1/policy/rules/refunds", json={"rule": {**rule, "quorum": 2}})).raise_for_status()
        try:
            return await _with_a_forged_vote(target)
        finally:
            (await admin.put("/v1/policy/rules/refunds", json={"rule": rule})).raise_for_status()


async def _with_a_forged_vote(target: Target) -> str:
    async with (
        target.client("aud-mia", roles=["approver"]) as approver,
        target.client("aud-5") as client,
        target.database() as database,
        watched(target) as report,
    ):
        run = await target.run(client, [("desk.refund", {"order": "77", "amount": 9999})], "Refund order 77.")
        (gate,) = (await client.get(f"/v1/gates?run_id={run['run_id']}&status=pending")).json()["gates"]
        await database.execute(
            "INSERT INTO tas.approval_vote SELECT approval_id, 'ghost', 'approved', 'fine', digest, now(), 'k'"
            " FROM tas.approval WHERE run_id = $1",
            UUID(run["run_id"]),
        )
        vote = {"verdict": "approved", "reason": "fine"}
        (await approver.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)).raise_for_status()
        run = await target.settled(client, run["run_id"])
        await database.execute("DELETE FROM tas.approval_vote WHERE actor = 'ghost'")
        require(run["status"] == "completed", f"the run is {run['status']}")
        return located(await report())


NEXT_POLICY = (
    """
    INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, rules_digest)
      SELECT project, version + 1, digest, text, rules, source, note, applied_by, '' FROM tas.policy_version
      WHERE project = 'default' ORDER BY version DESC LIMIT 1""",
    """
    INSERT INTO tas.permission_rule
      SELECT project, version + 1, place, name, CASE name WHEN 'refunds' THEN 'allow' ELSE effect END, tool, operation,
             CASE name WHEN 'refunds' THEN replace(rule::text, 'require_approval', 'allow')::json ELSE rule END
      FROM tas.permission_rule r JOIN tas.project_state s USING (project)
      WHERE project = 'default' AND version = s.policy_version""",
    "UPDATE tas.project_state SET policy_version = policy_version + 1 WHERE project = 'default'",
)
RULES_IN_FORCE = """
SELECT place, name, effect, tool, operation, rule FROM tas.permission_rule r JOIN tas.project_state s USING (project)
WHERE project = 'default' AND r.version = s.policy_version ORDER BY place"""
PUT_DIGEST = """
UPDATE tas.policy_version v SET rules_digest = $1 FROM tas.project_state s
WHERE v.project = 'default' AND s.project = v.project AND v.version = s.policy_version"""
LAST_POLICY = (
    "UPDATE tas.project_state SET policy_version = policy_version - 1 WHERE project = 'default'",
    """
    DELETE FROM tas.permission_rule r USING tas.project_state s
      WHERE r.project = 'default' AND s.project = r.project AND r.version > s.policy_version""",
    """
    DELETE FROM tas.policy_version v USING tas.project_state s
      WHERE v.project = 'default' AND s.project = v.project AND v.version > s.policy_version""",
)


@attack(Position.DATABASE_ADMIN)
async def put_a_policy_beside_the_log(target: Target) -> str:
    """Make a next policy version by hand that allows what people are asked about, use it, and take it away again."""
    async with target.client("aud-7") as client, target.database() as database, watched(target) as report:
        for statement in NEXT_POLICY:
            await database.execute(statement)
        rules = [(*row[:5], json.loads(row[5])) for row in map(tuple, await database.fetch(RULES_IN_FORCE))]
        await database.execute(PUT_DIGEST, rules_digest(rules))
        try:
            run = await target.run(client, [("desk.refund", {"order": "79", "amount": 9999})], "Refund order 79.")
            require(run["status"] == "completed", f"the run is {run['status']}")
            return located(await report())
        finally:
            for statement in LAST_POLICY:
                await database.execute(statement)
