"""What history shows fits a message, and what a run has not measured yet is nothing."""

import json

import pytest
from tests.support.engine.goal_machine import goal_run

from towpath_contracts.runs.raw_events import RawEntry
from towpath_log_writer.app.history_queries import _parse_row
from towpath_log_writer.core.projection import project
from towpath_log_writer.core.sequence import ContiguousEvents


@pytest.mark.parametrize(("size", "whole"), [(700_000, True), (700_001, False)])
def test_a_row_that_no_message_carries_is_shown_without_its_large_values(size: int, whole: bool) -> None:
    small = {"step": 1, "agent": "ann"}
    empty = len(json.dumps({**small, "result": ""}))
    shown = _parse_row(json.dumps({**small, "result": "x" * (size - empty)}))
    assert {name: shown[name] for name in small} == small
    assert (shown["result"] != "(too large to show)") is whole


def test_a_goal_of_which_nothing_was_measured_has_come_no_way() -> None:
    run = goal_run("true")
    (created, *_) = (RawEntry.model_validate_json(entry.model_dump_json()) for entry in run.entries)
    events = ContiguousEvents(run_id=run.state.run_id, project="default", held=0, entries=(created,))
    told = project([events]).new_runs[run.state.run_id].snapshot
    assert (told["progress_score"], told["progress_metrics"]) == (0.0, {})
    assert (told["last_confidence_check_step"], told["last_confidence_score"]) == (0, None)
