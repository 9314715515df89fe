"""What the tables of the ledger cost and keep, asked of Postgres itself."""

import asyncpg
from tests.conftest import DatabaseUrl

OPEN = """
INSERT INTO tas.tool_call (run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type, caller, step,
  call_index, tool, operation, toolset, tool_version, effect_class, timeout_ms, args, args_digest, context, status,
  fence, attempt, deadline, policy_version, approvals, claims, accepted, settled_by, revision)
SELECT uuidv7(), gen_random_uuid(), 'default', 'n', 'sha256:00', 'a', 'a', 'me', 1, 0, 'echo', 'call', 'default', 1,
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
