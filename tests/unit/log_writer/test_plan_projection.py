"""What history tells of plans: a row for every step, with what came of its agents."""

import json

from tests.support.engine.machine import RUN
from tests.support.engine.plan_machine import PlanRun, ask, block, step

from towpath_contracts.runs.raw_events import RawEntry
from towpath_log_writer.core.changes import HistoryChanges
from towpath_log_writer.core.projection import project
from towpath_log_writer.core.sequence import ContiguousEvents


def history(run: PlanRun) -> HistoryChanges:
    entries = [RawEntry.model_validate_json(entry.model_dump_json()) for entry in run.entries]
    return project([ContiguousEvents(run_id=RUN, project="default", held=0, entries=tuple(entries))])


def test_e10_history_has_a_row_for_every_step_of_a_plan() -> None:
    """Row E10: telemetry per step — also in the execution history."""
    run = PlanRun(step("ann", "Find it.", id="first"), block(ask("bob"), ask("cid"), id="fan"), step("eve", id="last"))
    run.end(final={"n": 1}, after=2)
    run.end(1, status="failed", reason="loop_detected", after=1)
    run.end(0, final={"text": "x" * 2_000}, after=1)
    changes = history(run)
    assert changes.unreadable == [] and sorted(number for _, number in changes.steps) == [1, 2, 3]
    first, fan, last = (changes.steps[RUN, number] for number in (1, 2, 3))
    assert (first.agent_id, first.input_preview, first.success, first.attempts) == ("ann", "Find it.", True, 1)
    assert json.loads(first.action or "") == {"action": "PLAN_STEP", "step_id": "first", "agents": 1}
    child = str(run.children[0].child_id)
    assert first.result["0"] == {
        "tool": "agent:ann", "execution_id": child, "status": "success", "result": {"n": 1}
    }  # fmt: skip
    assert (first.ended_at - first.began_at).total_seconds() == 2
    assert (fan.success, (fan.error or "").split(":")[0]) == (False, "loop_detected")
    assert fan.validation == {"step_id": "fan", "type": "parallel", "status": "partial"}
    assert (len(fan.result["0"]["preview"]), fan.result["1"]["status"]) == (1_000, "failed")
    assert (last.success, last.validation and last.validation["status"], last.result) == (None, "skipped", {})
    plan = changes.runs[RUN].snapshot["plan"]
    assert (plan["origin"], [one["id"] for one in plan["steps"]]) == ("given", ["first", "fan", "last"])
