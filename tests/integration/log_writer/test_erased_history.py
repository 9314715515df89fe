"""History of a run that was erased: gone, told as such, and never written again, whatever still arrives."""

import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.integration.log_writer.test_history_writer import RUN, batches, pool, writer
from tests.support.orchestrator import run_history as h

from towpath_contracts.decisions.request import ToolLog
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import GetHistory
from towpath_fabric.clock import wall
from towpath_log_writer.adapters.history_tables import HistoryStore
from towpath_log_writer.app.history_queries import HistoryQueries

__all__ = ["pool"]

TABLES = ("agent_execution_history", "agent_execution_steps", "tool_execution", "tool_log", "llm_call", "skipped_event")


async def erase(owner: Any, run_id: UUID) -> None:
    """Erase the history of a run whose erasure is in the log, and whose run log is gone."""
    erasure, what = uuid4(), {"kind": "run", "what": {"run_id": str(run_id)}}
    await owner.execute(
        "INSERT INTO tas.erasure (erasure_id, project, kind, run_id, reason, status, requested_by, requested_at,"
        " alone_from, decided_by, run_ids, parts) VALUES ($1, 'default', 'run', $2, 'r', 'confirmed', 'dana', now(),"
        " now(), 'eve', ARRAY[$2::uuid], '{runs}')",
        *(erasure, run_id),
    )
    for phase, actor in (("requested", "dana"), ("confirmed", "eve")):
        detail = json.dumps({**what, "erasure_id": str(erasure), "runs": [str(run_id)]})
        await owner.execute(
            "SELECT tas.write_audit('{}', ARRAY[tas.audit_own_note('default', $1, $2, $3)])",
            *(f"audit.erase_{phase}", actor, detail),
        )
    assert await owner.fetchval("SELECT history.erase_runs($1, 10)", erasure) == 1


def log_line(run_id: UUID) -> ToolLog:
    return ToolLog.model_validate(
        {"run_id": run_id, "execution_id": uuid4(), "project": "default", "toolset": "t", "tool": "t.t", "worker": "w"}
        | {"at": wall(), "level": "info", "message": "late", "fields": {}}
    )


async def test_nothing_of_an_erased_run_is_left_or_written_again(pool: Any, database: DatabaseUrl) -> None:
    messages = batches(h.messages(RUN, h.whole_run(RUN, 3)))
    old, tables = writer(pool), HistoryStore(pool)
    assert await old.add(messages[:4]) == {}
    await tables.add_logs([], [log_line(RUN)])
    owner = await asyncpg.connect(database())
    try:
        await erase(owner, RUN)
        assert await old.add(messages) == {}, "it believes an old cursor, and is told a newer one"
        assert await writer(pool).add(messages) == {}
        await tables.add_logs([], [log_line(RUN)])
        for table in TABLES:
            assert await owner.fetch(f"SELECT 1 FROM history.{table}") == [], table
    finally:
        await owner.close()
    with pytest.raises(ProblemError, match="run_erased"):
        await HistoryQueries(pool).get_history(GetHistory(project="default", run_id=RUN))
    with pytest.raises(ProblemError, match="run_not_found"):
        await HistoryQueries(pool).get_history(GetHistory(project="bank", run_id=RUN))
