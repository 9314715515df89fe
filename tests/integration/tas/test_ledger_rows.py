"""What the tables of the ledger cost and keep, asked of Postgres itself; which tools runs have used, asked of a TAS.

Calls count where they succeeded, of the runs and the project that are named.
"""

from typing import Any
from uuid import UUID, uuid4

import asyncpg
from tests.conftest import DatabaseUrl
from tests.support.orchestrator.run_ids import NEW_RUN_ID
from tests.support.tas.tas_caller import tool
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.grant_proposals.proposals import UsedTool
from towpath_fabric.ids import new_run_id

__all__ = ["shared_tas", "tas"]

OPEN = f"""
INSERT INTO tas.tool_call (run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step,
  call_index, tool, operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status,
  fence, attempt, deadline, policy_version, approvals, claims, accepted, settled_by, revision)
SELECT {NEW_RUN_ID}, gen_random_uuid(), 'default', 'n', 'sha256:00', 'a', 'a', 'me', 1, 0, 'echo', 'call', 'default', 1,
  'idempotent', 1000, repeat('x', 200), 'sha256:00', '', 'permitted', 0, 1, now(), 1, 0, '[]', '', '', 0
FROM generate_series(1, 100)
"""
PARTITIONS = "relid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'tas.tool_call'::regclass)"


async def test_most_changes_of_calls_write_no_index_even_where_many_change_at_once(database: DatabaseUrl) -> None:
    owner = await asyncpg.connect(database())
    try:
        await owner.execute(OPEN)
        async with owner.transaction():
            await owner.execute("UPDATE tas.tool_call SET status = 'started', revision = revision + 1")
            changed, in_place = await owner.fetchrow(
                f"SELECT sum(n_tup_upd), sum(n_tup_hot_upd) FROM pg_stat_xact_user_tables WHERE {PARTITIONS}"
            )
            assert changed == 100 and in_place >= 90
    finally:
        await owner.close()


async def test_entries_written_together_have_salts_that_differ_and_their_own_commitments(database: DatabaseUrl) -> None:
    owner = await asyncpg.connect(database())
    try:
        values = "true, 'p', NULL, NULL, 'decision', 'allow', '', '', '', '', '', 'me', NULL, 0, 'd', '{}'"
        note = f"ROW({values})::tas.audit_new"
        for _ in range(2):
            await owner.execute(f"SELECT tas.write_audit('{{}}', ARRAY[{note}, {note}, {note}])")
        rows = await owner.fetch(
            "SELECT p.salt, r.commitment = sha256(p.salt || convert_to(E'd\\n{}', 'UTF8')) AS committed"
            " FROM tas.audit_payload p JOIN tas.audit_record r USING (entry_id)"
        )
        assert len({row["salt"] for row in rows}) == len(rows) == 6
        assert {len(row["salt"]) for row in rows} == {16} and all(row["committed"] for row in rows)
    finally:
        await owner.close()


async def succeeded(tas: Running, name: str, run_id: UUID, **args: Any) -> None:
    invocation = await tas.caller.call(name, run_id=run_id, args={"order_id": "A-1", **args})
    claim_id = None if name == "orders.find" else uuid4()
    if claim_id is not None:
        assert (await tas.caller.claim(invocation, claim_id)).granted
    await tas.caller.report(invocation, claim_id)
    await tas.caller.fact(invocation, "tool.finished")


async def count(
    tas: Running, pairs: list[tuple[UUID, UUID]], sinks: Any = (), project: str = ""
) -> dict[str, UsedTool]:
    roots, runs = ([pair[place] for pair in pairs] for place in (0, 1))
    asked = {"project": project or tas.caller.project, "roots": roots, "runs": runs, "sinks": sinks}
    found = await tas.caller.ask(rpc.COUNT_USED_TOOLS, **asked)
    return {one.tool: one for one in found.tools}


async def test_calls_that_succeeded_are_counted_by_tool_and_by_root(tas: Running) -> None:
    first, second, child = new_run_id(), new_run_id(), new_run_id()
    await succeeded(tas, "orders.find", first)
    await succeeded(tas, "orders.find", first)
    await succeeded(tas, "orders.find", child)
    await succeeded(tas, "orders.tag", second)
    refused = await tas.caller.put(tas.caller.request("orders.refund", run_id=first, grant=({"tool": "orders.find"},)))
    await tas.caller.fact(refused, "tool.denied")
    await tas.caller.call("orders.refund", run_id=second)  # permitted, and never done

    found = await count(tas, [(first, first), (first, child), (second, second)])
    assert {name: (one.operation, one.runs, one.calls) for name, one in found.items()} == {
        "orders.find": ("read", 1, 3),
        "orders.tag": ("write", 1, 1),
    }
    assert set(await count(tas, [(second, second)])) == {"orders.tag"}
    assert await count(tas, []) == {}
    assert await count(tas, [(first, first)], project="another") == {}


async def test_an_argument_is_constant_where_every_call_gave_the_same(tas: Running) -> None:
    text = {"type": "object", "properties": {"order_id": {"type": "string"}, "to": {"type": "string"}}}
    await tas.caller.register(tool("orders.mail", "idempotent", parameters=text))
    runs = [new_run_id() for _ in range(2)]
    for run_id in (*runs, runs[1]):
        await succeeded(tas, "orders.mail", run_id, to="\U0001f600@example.org")
    sinks = (("orders.mail", "to"), ("orders.mail", "order_id"), ("orders.mail", "cc"), ("orders.find", "order_id"))
    pairs = [(run_id, run_id) for run_id in runs]
    assert (await count(tas, pairs))["orders.mail"].constants == {}
    same = (await count(tas, pairs, sinks))["orders.mail"].constants
    assert same == {"to": '"\U0001f600@example.org"', "order_id": '"A-1"'}
    await succeeded(tas, "orders.mail", runs[0], to="eve@example.org")
    assert set((await count(tas, pairs, sinks))["orders.mail"].constants) == {"order_id"}
    await succeeded(tas, "orders.mail", new := new_run_id())
    assert set((await count(tas, [(new, new)], sinks))["orders.mail"].constants) == {"order_id"}
    await succeeded(tas, "orders.mail", runs[0], to="x\u0000@example.org")
    assert (await count(tas, pairs, sinks))["orders.mail"].constants == {}, "what Postgres can't read is not constant"


async def test_erased_calls_neither_count_nor_make_an_argument_vary(tas: Running) -> None:
    kept, erased = new_run_id(), new_run_id()
    for run_id in (kept, erased):
        await succeeded(tas, "orders.tag", run_id)
    owner = await asyncpg.connect(tas.dsn)
    try:
        await owner.fetchval("SELECT tas.empty_calls($1::uuid[], 100)", [erased])
    finally:
        await owner.close()
    found = await count(tas, [(kept, kept), (erased, erased)], (("orders.tag", "order_id"),))
    used = found["orders.tag"]
    assert (used.runs, used.calls, used.constants) == (1, 1, {"order_id": '"A-1"'})
