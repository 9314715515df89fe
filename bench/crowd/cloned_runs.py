"""Many runs in the database of a platform: clones of runs that it has executed, row by row, in every table of theirs.

Every column is copied, so that a new one is there too: nothing here lists them. Each clone has ids and times of its
own, in the rows and in the JSON of its events, so that pages find of a clone what they find of the run it is made from.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from towpath_fabric.postgres.pool import Queries

STATEMENTS = Queries((Path(__file__).parent / "cloned_runs.sql").read_text("utf-8"))

TABLES = {
    "runs.run": "run_id",
    "runs.run_event": "run_id",
    "runs.run_fact": "run_id",
    "runs.run_snapshot": "run_id",
    "runs.gate": "run_id",
    "tas.tool_call": "run_id",
    "tas.fence": "run_id",
    "tas.approval": "run_id",
    "tas.approval_vote": "approval_id",
    "tas.rule_count": "run_id",
    "history.agent_execution_history": "id",
    "history.agent_execution_steps": "execution_id",
    "history.tool_execution": "run_id",
    "history.llm_call": "run_id",
    "history.tool_log": "run_id",
    "history.run_cursor": "run_id",
}
"""Tables that have rows of a run, and the column that says of which."""

ENTRIES = "tas.audit_entry"
APPROVALS_OF = "approval_id IN (SELECT approval_id FROM tas.approval WHERE run_id = $1)"

OTHERWISE = {
    ("runs.run", "user_message"): "r.user_message || ', case ' || c.n",
    ("runs.run", "wake_at"): "CASE WHEN r.ended_at IS NULL THEN now() + interval '30 days' END",
    ("runs.gate", "expires_at"): "now() + interval '30 days' - interval '1 second' * c.n",
    ("tas.approval", "expires_at"): "now() + interval '30 days' - interval '1 second' * c.n",
}
"""What differs from the run that is cloned: a text that a person sees, and times that have not come yet."""

SPREAD = timedelta(days=20)


async def clone_runs(owner: Any, counts: Mapping[UUID, int], spread: timedelta = SPREAD) -> int:
    """Add so many clones of each run over the time *spread*; return how many rows that were."""
    await owner.execute(STATEMENTS.prepare)
    first = 0
    for template, count in counts.items():
        rows = {source: await _rows_of(owner, source, template) for source in (*TABLES, ENTRIES)}
        await owner.execute(STATEMENTS.add_ids, template, [text for texts in rows.values() for text in texts])
        for source, texts in rows.items():
            await owner.execute(STATEMENTS.add_rows, template, source, texts)
        await owner.execute(STATEMENTS.add_clones, template, first, count, spread)
        first += count
    written = 0
    for table in TABLES:
        written += _number(await owner.execute(await _insert(owner, table)))
    await owner.execute(STATEMENTS.add_entries)
    written += 2 * _number(await owner.execute(STATEMENTS.write_entries))
    await owner.execute("DROP SCHEMA crowd CASCADE")
    return written


async def _rows_of(owner: Any, source: str, run_id: UUID) -> list[str]:
    """Return the rows of a run in a table, as JSON; entries of the audit in their order."""
    column = TABLES.get(source, "run_id")
    which = APPROVALS_OF if column == "approval_id" else f"{column} = $1"
    order = " ORDER BY t.entry_id" if source == ENTRIES else ""
    rows = await owner.fetch(f"SELECT row_to_json(t)::text AS said FROM {source} t WHERE {which}{order}", run_id)
    return [row["said"] for row in rows]


async def _insert(owner: Any, table: str) -> str:
    """Return the statement that writes the clones' rows of a table."""
    columns = await owner.fetch(STATEMENTS.columns, table)
    names = ", ".join(f'"{column["name"]}"' for column in columns)
    values = ", ".join(
        OTHERWISE.get((table, column["name"]), f'r."{column["name"]}"' + (" + c.shift" if column["is_time"] else ""))
        for column in columns
    )
    return (
        f"INSERT INTO {table} ({names}) SELECT {values} FROM crowd.template_row t "
        "JOIN crowd.clone c ON c.template = t.template "
        f"CROSS JOIN LATERAL json_populate_record(NULL::{table}, format(t.pattern, VARIADIC c.ids)::json) r "
        f"WHERE t.source = '{table}' ORDER BY c.run_id"
    )


def _number(told: str) -> int:
    """Return how many rows a statement says that it has written."""
    return int(told.rpartition(" ")[2])
