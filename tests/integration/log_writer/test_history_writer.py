"""Writers side by side on one database: every event is written exactly once, whatever cursor a writer has."""

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h

from towpath_contracts.events import log as ev
from towpath_contracts.events.log import TransitionEvents
from towpath_contracts.runs.children import ParentRun
from towpath_contracts.runs.raw_events import RawTransitionEvents
from towpath_fabric.telemetry.logs import get_logger
from towpath_log_writer.adapters.history_tables import HistoryStore
from towpath_log_writer.app.history_writer import HistoryWriter

RUN = uuid.UUID("0192f0c1-2f00-7000-8000-00000000000b")


@pytest.fixture
async def pool(database: DatabaseUrl) -> AsyncIterator[Any]:
    opened = await asyncpg.create_pool(database("log_writer"), min_size=1, max_size=4)
    yield opened
    await opened.close()


def writer(pool: Any) -> HistoryWriter:
    return HistoryWriter(HistoryStore(pool), get_logger("log_writer"))


def batches(messages: Sequence[TransitionEvents]) -> list[RawTransitionEvents]:
    return [RawTransitionEvents.model_validate_json(message.model_dump_json()) for message in messages]


async def counted(pool: Any) -> list[tuple[int, int, int]]:
    query = "SELECT step_number, attempt_number, tokens_used FROM history.agent_execution_steps ORDER BY 1"
    return [tuple(row) for row in await pool.fetch(query)]


async def test_a_writer_that_believes_an_old_cursor_writes_nothing_twice(pool: Any) -> None:
    messages = batches(h.messages(RUN, h.whole_run(RUN, 6)))
    first, second = writer(pool), writer(pool)
    assert await first.add(messages[:4]) == {}
    assert await second.add(messages[:6]) == {}
    assert await first.add(messages[2:8]) == {}  # believes that it holds four; the other wrote six
    assert await second.add(messages) == {}
    assert await first.add(messages) == {}
    assert await counted(pool) == [(step, 1, 110) for step in range(1, 7)]
    assert (await first.held([RUN]))[RUN] == (await second.held([RUN]))[RUN] == messages[-1].entries[-1].seq


async def test_a_new_writer_that_reads_from_the_beginning_writes_nothing_twice(pool: Any) -> None:
    messages = batches(h.messages(RUN, h.whole_run(RUN, 3)))
    await writer(pool).add(messages)
    await writer(pool).add(messages)
    assert await counted(pool) == [(step, 1, 110) for step in range(1, 4)]


async def test_a_gap_is_named_and_nothing_behind_it_is_written(pool: Any) -> None:
    messages = batches(h.messages(RUN, h.whole_run(RUN, 4)))
    late = writer(pool)
    assert await late.add([*messages[:3], *messages[4:]]) == {RUN: "default"}
    assert (await late.held([RUN]))[RUN] == messages[2].entries[-1].seq
    assert await late.add(messages[3:]) == {}
    assert await counted(pool) == [(step, 1, 110) for step in range(1, 5)]


async def test_a_run_whose_rows_a_crash_took_begins_anew_and_nothing_is_set_aside(
    pool: Any, database: DatabaseUrl
) -> None:
    """Commits of history are not waited for on disk; a writer may miss the crash that took the last of them."""
    messages = batches(h.messages(RUN, h.whole_run(RUN, 4)))
    own = writer(pool)
    assert await own.add(messages[:4]) == {}
    owner = await asyncpg.connect(database())
    for table in ("run_cursor", "tool_execution", "agent_execution_steps", "agent_execution_history"):
        await owner.execute(f"DELETE FROM history.{table}")
    await owner.close()
    assert await own.add(messages[4:]) == {RUN: "default"}
    assert await own.add(messages) == {}
    assert await pool.fetchval("SELECT count(*) FROM history.skipped_event") == 0
    assert await counted(pool) == [(step, 1, 110) for step in range(1, 5)]


async def test_c12_a_goal_run_fills_every_column_of_the_source_however_its_log_arrives(pool: Any) -> None:
    """C12: tables agent_execution_history and agent_execution_steps, filled by the loop itself; success, failed or
    escalated, and the final TaskState."""
    rows = []
    for size in (1, 2, 100):
        run = uuid.uuid5(RUN, f"goal {size}")
        entries = [entry for message in h.messages(run, h.goal_run(run)) for entry in message.entries]
        own = writer(pool)
        for start in range(0, len(entries), size):
            part = TransitionEvents(run_id=run, project="default", entries=tuple(entries[start : start + size]))
            await own.add(batches([part]))
        step = dict(await pool.fetchrow("SELECT * FROM history.agent_execution_steps WHERE execution_id = $1", run))
        whole = dict(await pool.fetchrow("SELECT * FROM history.agent_execution_history WHERE id = $1", run))
        rows.append((step, whole))
    for step, whole in rows:
        assert (step["success"], step["error"], step["attempt_number"], step["tokens_used"]) == (True, None, 2, 330)
        assert (step["progress"], step["confidence"], step["reasoning"]) == (0.5, 0.43, "Another way.")
        assert json.loads(step["action"])["action"] == "USE_TOOL", "an assessment is no action"
        assert json.loads(step["result"])["0"]["status"] == "succeeded"
        validation = json.loads(step["validation"])
        assert (validation["success"], validation["reason"], validation["criteria"]) == (True, "they pass", [0])
        assert [found["kind"] for found in json.loads(step["decisions"]).values()].count("validate") == 1
        assert (whole["final_status"], whole["total_steps"], whole["total_tokens"]) == ("escalated", 1, 110)
        assert whole["escalation_reason"] == "low_confidence: stopped"
        assert float(whole["total_cost_usd"]) == pytest.approx(0.0005)
        assert (whole["agent_id"], whole["task_id"], whole["project_id"]) == ("triage", str(whole["id"]), "default")
        state = json.loads(whole["state_snapshot"])
        assert set(state) >= TASK_STATE
        assert (state["goal"], state["constraints"]["language"]) == ("make the tests pass", "python")
        assert state["acceptance_criteria"] == ["tests.failed == 0", "the code is clear"]
        assert (state["progress_score"], state["progress_metrics"]["passed"]) == (0.5, 1)
        assert (state["last_confidence_score"], state["last_confidence_check_step"]) == (0.43, 1)
        assert (state["failure_count"], state["consecutive_failures"], state["last_errors"]) == (0, 0, [])
        assert state["artifacts"]["fix.py"]["size"] == 12
        assert (state["token_usage"], state["decision_reasoning"]) == ([330], ["Another way."])
        assert [call["tool"] for call in state["tool_executions"]] == ["crm.lookup"]
        assert sorted(call["kind"] for call in state["llm_calls"]) == ["decide", "replan", "validate"]
        assert state["steps_history"][0]["acceptance_progress"] == 0.5
        assert state["last_gate"] == {"type": "low_confidence", "reason": "Low confidence: 0.43"}


async def test_c12_a_run_waits_in_its_history_while_people_are_asked(pool: Any) -> None:
    """Row C12: tables are filled by the loop itself; a gate of its own or of a run below, whichever closes first."""
    own, child = h.gate(RUN), uuid.uuid4()
    after = [
        (own, "waiting"),
        (ev.ChildGateWaitChanged(child_id=child, waits=True), "waiting"),
        (ev.GateClosed(gate_id=own.gate_id, verdict="approved"), "waiting"),
        (ev.ChildEnded(child_id=child, step=1, index=0, status="completed"), "running"),
        (ev.CancelAccepted(by="ann", fence=1), "cancelling"),
    ]
    log, one_by_one = h.whole_run(RUN, 2)[:2], writer(pool)
    for event, status in [(ev.NoteAdded(step=1, text="x"), "running"), *after]:
        log.append([event])
        assert await one_by_one.add(batches(h.messages(RUN, log))) == {}
        found = await pool.fetchval("SELECT status FROM history.agent_execution_history WHERE id = $1", RUN)
        assert (event.type, found) == (event.type, status)
    waits = "SELECT waits::text FROM history.agent_execution_history WHERE id = $1"
    assert await pool.fetchval(waits, RUN) == "{}", "what is over is not kept: a run may have had thousands of children"


async def test_history_has_the_parent_of_a_run(pool: Any) -> None:
    own, below = uuid.uuid5(RUN, "parent"), uuid.uuid5(RUN, "child")
    above = ParentRun(run_id=own, root_id=own, step=1, index=0, depth=1)
    for run, first in ((own, h.created()), (below, h.created(parent=above))):
        (message,) = h.messages(run, [[first]])
        await writer(pool).add(batches([message]))
    query = "SELECT id FROM history.agent_execution_history WHERE parent_id IS NOT DISTINCT FROM $1"
    assert [await pool.fetchval(query, run) for run in (None, own)] == [own, below]


TASK_STATE = {
    *("task_id", "agent_id", "project_id", "goal", "acceptance_criteria", "constraints", "current_step", "max_steps"),
    *("started_at", "steps_history", "artifacts", "failure_count", "last_errors", "consecutive_failures"),
    *("progress_score", "progress_metrics", "token_usage", "llm_calls", "tool_executions", "total_cost_usd"),
    *("decision_reasoning", "escalation_triggered", "escalation_reason", "timeout_reached", "resource_limit_hit"),
    *("last_confidence_check_step", "last_confidence_score"),
}
"""The fields of a final TaskState."""


async def test_every_way_to_cut_a_history_into_batches_gives_the_same_rows(pool: Any) -> None:
    transitions = h.whole_run(RUN, 3)
    transitions[2] = [*transitions[2][:1], h.calls(RUN, 1, 2)]
    transitions[3] = [h.finished(RUN, 1, 0), h.denied(RUN, 1, 1), h.asked(RUN, 2)]
    rows = []
    for size in (1, 2, 3, 100):
        run = uuid.uuid5(RUN, str(size))
        entries = [entry for message in h.messages(run, transitions) for entry in message.entries]
        own = writer(pool)
        for start in range(0, len(entries), size):
            part = TransitionEvents(run_id=run, project="default", entries=tuple(entries[start : start + size]))
            await own.add(batches([part]))
        step = await pool.fetchrow(
            "SELECT result, validation, success, error, reasoning, ended_at, cost_usd, tokens_used, attempt_number"
            " FROM history.agent_execution_steps WHERE execution_id = $1 AND step_number = 1",
            run,
        )
        rows.append(tuple(step))
    assert rows[1:] == rows[:1] * 3
    assert (rows[0][2], rows[0][3]) == (False, "permission_denied: no rule allows it")
