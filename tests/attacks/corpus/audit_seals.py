"""Attacks by who may write to the database on what is signed: time, history, order, and the key of a checkpoint.

Each ends with the tables as they were, so that the log goes on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.attacks.attack import AttackWorkedError, Position, attack, require
from tests.attacks.corpus.audit import bundle_of, label_denied, located, older_policy, switch_taken_away, watched
from tests.attacks.target import Target

from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, Signer
from towpath_audit.verifier import verify
from towpath_fabric.clock import monotonic, wall

SEAL_LOCK = "SELECT pg_advisory_xact_lock(7026120)"
NEW_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'towpath_tas'"
AHEAD = timedelta(days=2)
WITHIN_S = 60
GAP = 1_000
"""Ids that are left out, for entries of later; more than a platform writes in seconds."""

OF_RUN = "SELECT entry_id FROM tas.audit_record WHERE run_id = $1"
IDS = "tas.audit_record_entry_id_seq"

SHADOWED_CLOCK = """
    CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
      AS $$ SELECT pg_catalog.clock_timestamp() + interval '2 days' $$;
    ALTER ROLE towpath_tas SET search_path = evil, pg_catalog"""
HONEST_PATH = "ALTER ROLE towpath_tas RESET search_path; DROP SCHEMA evil CASCADE"
REPLACED_CLOCK = """
    SET allow_system_table_mods = on;
    CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz
      LANGUAGE sql VOLATILE STRICT PARALLEL SAFE
      AS $$ SELECT pg_catalog.statement_timestamp() + interval '2 days' $$"""
HONEST_CLOCK = """
    SET allow_system_table_mods = on;
    CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz
      LANGUAGE internal VOLATILE STRICT PARALLEL SAFE AS 'clock_timestamp'"""


@attack(Position.DATABASE_ADMIN)
async def have_a_later_time_signed(target: Target) -> str:
    """Put another clock before Postgres's own for the tool-access service, so that what was sealed looks old soon."""
    return await _signed_under(target, SHADOWED_CLOCK, HONEST_PATH)


@attack(Position.DATABASE_ADMIN)
async def have_the_time_of_another_clock_signed(target: Target) -> str:
    """Replace Postgres's clock itself by one that is two days ahead."""
    return await _signed_under(target, REPLACED_CLOCK, HONEST_CLOCK)


async def _signed_under(target: Target, change: str, undo: str) -> str:
    """Ask for a checkpoint under another clock; return what became of it."""
    async with target.client("auditor", roles=["auditor"]) as auditor, target.database() as database:
        before = datetime.fromisoformat((await _checkpoint(auditor)).json()["at"])
        await database.execute(change)
        try:
            await database.execute(NEW_SESSIONS)
            await target.key("aud-65")  # an entry, without which nothing is sealed
            answer = await _checkpoint(auditor)
        finally:
            await database.execute(undo)
            await database.execute(NEW_SESSIONS)
        if not answer.is_success:
            return str(answer.json()["detail"])
        at = datetime.fromisoformat(answer.json()["at"])
        if at - wall() > AHEAD / 2:
            raise AttackWorkedError(f"signed at {at.isoformat()}")
        require(at > before, f"nothing was signed since {before.isoformat()}")
        return f"signed at {at.isoformat()}, as it is"


async def _checkpoint(auditor: httpx2.AsyncClient) -> httpx2.Response:
    """Ask for a checkpoint until there is an answer: of a seal, or why there is none."""
    until = monotonic() + WITHIN_S
    while True:
        answer = await auditor.get("/v1/audit/checkpoint")
        if answer.is_success or answer.json()["code"].startswith("audit_"):
            return answer
        if monotonic() > until:
            raise TimeoutError(answer.text)
        await asyncio.sleep(0.2)


@attack(Position.DATABASE_ADMIN)
async def set_the_log_back(target: Target) -> str:
    """Delete the newest leaves and all seals, and put an earlier checkpoint in their place under the next number."""
    async with target.client("aud-8") as client, target.client("auditor", roles=["auditor"]) as auditor:
        old = (await _checkpoint(auditor)).json()
        await target.run(client, [("desk.label", {"ids": ["80"]})], "Label 80.")
        await _checkpoint(auditor)
        async with target.database() as database, _seals_put_back(database, old["size"]):
            await database.execute(
                "INSERT INTO tas.audit_seal SELECT (SELECT max(seal_id) + 1 FROM kept_seal), size, root, edge, at, note"
                " FROM kept_seal WHERE size = $1 ORDER BY seal_id DESC LIMIT 1",
                old["size"],
            )
            return _refusal(await _checkpoint(auditor))


@asynccontextmanager
async def _seals_put_back(database: Any, size: int) -> AsyncIterator[None]:
    """Delete all seals and the leaves from *size* on; put them back in the end."""
    async with database.transaction():
        await database.execute(SEAL_LOCK)
        await database.execute("CREATE TEMP TABLE kept_seal AS TABLE tas.audit_seal")
        await database.execute(
            f"CREATE TEMP TABLE kept_leaf AS SELECT * FROM tas.audit_leaf WHERE leaf_index >= {size}"
        )
        await database.execute("DELETE FROM tas.audit_seal")
        await database.execute("DELETE FROM tas.audit_leaf WHERE leaf_index >= $1", size)
    try:
        yield
    finally:
        async with database.transaction():
            await database.execute(SEAL_LOCK)
            await database.execute("DELETE FROM tas.audit_seal")
            await database.execute("DELETE FROM tas.audit_leaf WHERE leaf_index >= $1", size)
            await database.execute("INSERT INTO tas.audit_seal TABLE kept_seal")
            await database.execute("INSERT INTO tas.audit_leaf TABLE kept_leaf")


@attack(Position.DATABASE_ADMIN)
async def have_a_seal_of_another_key_sealed_over(target: Target) -> str:
    """Put a key of one's own into the table, and a checkpoint that it signed over all leaves."""
    async with target.client("auditor", roles=["auditor"]) as auditor, target.database() as database:
        kept = (await _checkpoint(auditor)).json()
        key = Signer(kept["public_key"].partition("+")[0], Ed25519PrivateKey.generate())
        async with database.transaction():
            await database.execute(SEAL_LOCK)
            leaves = await database.fetch("SELECT hash FROM tas.audit_leaf ORDER BY leaf_index")
            edge, at = MerkleFrontier().extended(row["hash"] for row in leaves), wall()
            note = key.note(Checkpoint(key.public.name, edge.size, edge.root, at).text())
            await database.execute("INSERT INTO tas.audit_key VALUES ($1)", key.public.text)
            await database.execute(
                "INSERT INTO tas.audit_seal SELECT max(seal_id) + 1, $1, $2, $3, $4, $5 FROM tas.audit_seal",
                *(edge.size, edge.root, edge.packed(), at, note),
            )
        try:
            async with target.client("aud-9") as client:
                await target.run(client, [("desk.label", {"ids": ["81"]})], "Label 81.")
            return _refusal(await _checkpoint(auditor))
        finally:
            await database.execute("DELETE FROM tas.audit_seal WHERE note = $1", note)
            await database.execute("DELETE FROM tas.audit_key WHERE public_key = $1", key.public.text)


def _refusal(answer: httpx2.Response) -> str:
    if answer.is_success:
        raise AttackWorkedError(f"signed: {answer.json()['size']} leaves")
    return str(answer.json()["detail"])


@attack(Position.DATABASE_ADMIN)
async def decide_under_an_older_policy_with_ids_from_before(target: Target) -> str:
    """Leave ids out before a rule is tightened; let the older rules decide, and give these ids to what is written."""
    async with (
        target.client("aud-58", roles=["policy_admin"]) as admin,
        target.client("aud-59") as client,
        target.database() as database,
        watched(target) as report,
    ):
        done, before = len(target.effects()), await _leave_out_ids(database)
        async with label_denied(admin):
            (await client.get("/v1/audit/checkpoint")).raise_for_status()
            async with older_policy(database), _ids_from(database, before):
                run = await target.run(client, [("desk.label", {"ids": ["114"]})], "Label order 114.")
        require(target.effects()[done:], f"nothing was labelled, and the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def start_a_call_under_a_pause_with_ids_from_before(target: Target) -> str:
    """Leave ids out before a pause; take the pause away for a moment, and give these ids to the call that it holds."""
    switch = {"kind": "tool", "name": "desk.label", "reason": "it leaks"}
    async with (
        target.client("aud-op6", roles=["operator"]) as operator,
        target.client("aud-60") as client,
        target.database() as database,
        watched(target) as report,
    ):
        before = await _leave_out_ids(database)
        (await operator.post("/v1/switches/pause", json=switch)).raise_for_status()
        (await client.get("/v1/audit/checkpoint")).raise_for_status()
        try:
            async with switch_taken_away(database, "desk.label"), _ids_from(database, before):
                run = await target.run(client, [("desk.label", {"ids": ["115"]})], "Label order 115.")
        finally:
            (await operator.post("/v1/switches/resume", json=switch)).raise_for_status()
        require(run["status"] == "completed", f"the run is {run['status']}")
        return located(await report())


@attack(Position.DATABASE_ADMIN)
async def decide_under_an_older_policy_and_delete_the_seals_between(target: Target) -> str:
    """Let older rules decide with ids from before, and delete the seals that tell what came first, but for the last."""
    async with (
        target.client("aud-63", roles=["policy_admin"]) as admin,
        target.client("auditor", roles=["auditor"]) as auditor,
        target.client("aud-64") as client,
        target.database() as database,
    ):
        first, before = (await _checkpoint(auditor)).json(), await _leave_out_ids(database)
        async with label_denied(admin):
            kept = (await _checkpoint(auditor)).json()
            async with older_policy(database), _ids_from(database, before):
                run = await target.run(client, [("desk.label", {"ids": ["117"]})], "Label order 117.")
        last = (await _checkpoint(auditor)).json()
        between = "DELETE FROM tas.audit_seal WHERE size > $1 AND size < $2 RETURNING *"
        seals = await database.fetch(between, first["size"], last["size"])
        try:
            found = verify(
                await bundle_of(auditor), checkpoints=[kept["note"], last["note"]], keys=[last["public_key"]]
            )
        finally:
            for seal in seals:
                await database.execute("INSERT INTO tas.audit_seal VALUES ($1, $2, $3, $4, $5, $6)", *seal.values())
        mine = {row["entry_id"] for row in await database.fetch(OF_RUN, UUID(run["run_id"]))}
        found.faults = [fault for fault in found.faults if fault.entry_id in mine]
        return located(found)


async def _leave_out_ids(database: Any) -> int:
    """Leave ids of entries out; return the last one before them."""
    last: int = await database.fetchval(f"SELECT last_value FROM {IDS}")
    await database.execute(f"SELECT setval('{IDS}', $1)", last + GAP)
    return last


@asynccontextmanager
async def _ids_from(database: Any, last: int) -> AsyncIterator[None]:
    """Give what is written the ids from *last* on, until it goes on behind the highest."""
    await database.execute(f"SELECT setval('{IDS}', $1)", last)
    try:
        yield
    finally:
        await database.execute(f"SELECT setval('{IDS}', (SELECT max(entry_id) FROM tas.audit_record))")
