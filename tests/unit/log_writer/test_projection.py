"""From events to rows: order, gaps, and what history says of every event."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decider.decisions import USE_TOOL
from tests.support.orchestrator import run_history as h

from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.events.budget_events import ChargedAttempt
from towpath_contracts.events.log import AnyEvent
from towpath_contracts.ids import execution_id
from towpath_contracts.runs.children import ParentRun
from towpath_contracts.runs.raw_events import RawEntry, RawTransitionEvents
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.previews import preview_of
from towpath_log_writer.core.changes import HistoryChanges
from towpath_log_writer.core.projection import project
from towpath_log_writer.core.rows import RESULT_CHARS, CostRow, StepRow, json_text, plain
from towpath_log_writer.core.sequence import ContiguousEvents, continue_from, halves

RUN = uuid.UUID("0192f0c1-2f00-7000-8000-00000000000a")


def entries_of(transitions: Sequence[Sequence[AnyEvent]]) -> tuple[RawEntry, ...]:
    found: list[RawEntry] = []
    for message in h.messages(RUN, transitions):
        found += RawTransitionEvents.model_validate_json(message.model_dump_json()).entries
    return tuple(found)


def changes_of(*events: AnyEvent) -> HistoryChanges:
    return project([ContiguousEvents(run_id=RUN, project="default", held=0, entries=entries_of([events]))])


def step_of(*events: AnyEvent) -> StepRow:
    return changes_of(*events).steps[(RUN, 1)]


def test_a_whole_run_is_one_run_row_one_row_per_step_and_one_per_call() -> None:
    changes = project(
        [ContiguousEvents(run_id=RUN, project="default", held=0, entries=entries_of(h.whole_run(RUN, 4)))]
    )
    assert list(changes.new_runs) == [RUN]
    assert sorted(step for _, step in changes.steps) == [1, 2, 3, 4]
    assert len(changes.tools) == 3
    change = changes.runs[RUN]
    assert (change.status, change.final_status, change.total_steps) == ("completed", "success", 4)
    assert change.total_tokens == 440
    assert change.total_cost_usd == pytest.approx(0.002)
    assert change.snapshot["final"] == {"message": "hello"}
    assert changes.unreadable == []


def test_a_child_run_is_reported_with_its_parent() -> None:
    created = h.created()
    above = ParentRun(run_id=uuid.UUID(int=7), root_id=uuid.UUID(int=5), step=2, index=0, depth=2)
    assert changes_of(created).new_runs[RUN].parent_id is None
    assert changes_of(created.model_copy(update={"parent": above})).new_runs[RUN].parent_id == above.run_id


def test_a_step_tells_reasoning_action_result_and_what_it_cost() -> None:
    row = step_of(h.asked(RUN, 1), h.decided(RUN, 1, USE_TOOL), h.calls(RUN, 1), h.finished(RUN, 1))
    assert row.reasoning == "I must know who this is."
    assert row.action == (
        '{"action":"USE_TOOL","action_details":{"tool_name":"crm.lookup","tool_params":{"customer":"ada"}}}'
    )
    assert row.result["0"]["result"] == {"customer": "ada-1"}
    assert row.validation == {"valid": True, "instruction": "call_tools"}
    assert (row.success, row.error, row.attempts, row.tokens) == (True, None, 1, 110)
    assert row.cost == pytest.approx(0.0005)
    (summary,) = row.decisions.values()
    assert (summary["prompt_digest"], summary["duration_ms"], summary["model"]) == ("sha256:p", 7, "scripted:task")


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((h.failed(RUN, 1),), "tool_failed: no such customer"),
        ((h.denied(RUN, 1),), "permission_denied: no rule allows it"),
        (
            (ev.DecisionRefused(step=1, epoch=0, agent_key="triage", code="tool_not_allowed", feedback="use another"),),
            "tool_not_allowed: use another",
        ),
        (
            (
                ev.DecisionRequestFailed(
                    request_id=RUN, step=1, epoch=0, agent_key="triage", code="model_timeout", message="too slow"
                ),
            ),
            "model_timeout: too slow",
        ),
        ((h.finished(RUN, 1, 0), h.denied(RUN, 1, 1)), "permission_denied: no rule allows it"),
        ((h.denied(RUN, 1, 1), h.finished(RUN, 1, 0)), "permission_denied: no rule allows it"),
    ],
)
def test_a_step_in_which_anything_failed_did_not_succeed(events: tuple[AnyEvent, ...], error: str) -> None:
    row = step_of(*events)
    assert row.success is False
    assert row.error == error


def test_a_step_has_the_line_at_which_its_tool_raised() -> None:
    failure = ToolFailure(code="tool_exception", message="KeyError: 'x'", place="orders.py:14")
    row = step_of(h.finished(RUN, 1, status="failed", result=None, failure=failure))
    assert row.error == "tool_exception: KeyError: 'x' (orders.py:14)"


def test_a_call_is_reported_from_its_request_to_its_end() -> None:
    asked = changes_of(h.calls(RUN, 1, 2))
    row = asked.tools[(RUN, execution_id(RUN, 1, 1))]
    assert (row.status, row.args, row.requested_at) == ("requested", '{"n":1}', h.BEGIN)
    ended = changes_of(h.calls(RUN, 1), h.finished(RUN, 1)).tools[(RUN, execution_id(RUN, 1, 0))]
    assert (ended.status, ended.args, ended.result, ended.worker) == (
        "succeeded",
        '{"n":0}',
        '{"customer":"ada-1"}',
        "worker-1",
    )
    refused = changes_of(h.denied(RUN, 1)).tools[(RUN, execution_id(RUN, 1, 0))]
    assert refused.status == "denied"
    assert refused.denial is not None
    assert "no rule allows it" in refused.denial


def test_a_large_result_is_whole_only_in_its_call() -> None:
    large = {"text": "x" * 5_000}
    changes = changes_of(h.finished(RUN, 1, result=large))
    shown = changes.steps[(RUN, 1)].result["0"]
    assert len(shown["preview"]) == RESULT_CHARS
    assert "result" not in shown
    assert changes.tools[(RUN, execution_id(RUN, 1, 0))].result == json_text(large)


def test_a_stored_result_is_shown_by_its_preview_and_digest() -> None:
    preview = preview_of("a\x00" + "b" * 90_000)
    stored = h.finished(RUN, 1, result=None, blob=True, result_digest="sha256:77", preview=preview)
    shown = step_of(stored).result["0"]
    assert (shown["result_digest"], len(shown["preview"]), shown["preview"][:3]) == (
        "sha256:77",
        RESULT_CHARS,
        "a\ufffdb",
    )


def test_an_unknown_price_makes_the_cost_of_the_step_unknown() -> None:
    row = step_of(h.decided(RUN, 1, USE_TOOL, cost=Cost()))
    assert row.cost is None


@pytest.mark.parametrize(
    ("status", "final"),
    [
        ("completed", "success"),
        ("escalated", "escalated"),
        ("failed", "failed"),
        ("cancelled", "failed"),
        ("timed_out", "failed"),
        ("abandoned", "failed"),
    ],
)
def test_every_end_has_a_final_status_of_the_source_design(status: str, final: str) -> None:
    change = changes_of(h.ended(1, status=status, reason="why")).runs[RUN]
    assert (change.status, change.final_status) == (status, final)
    assert change.escalation_reason == ("why" if status == "escalated" else None)
    assert change.snapshot["timeout_reached"] == (status == "timed_out")


def test_events_that_are_not_known_here_change_nothing() -> None:
    entries = (RawEntry.model_validate({"seq": 1, "at": h.BEGIN, "event": {"type": "invented_later", "x": 1}}),)
    changes = project([ContiguousEvents(run_id=RUN, project="default", held=0, entries=entries)])
    assert changes == HistoryChanges()


@pytest.mark.parametrize("event", [{"type": "run_finished"}, {"type": "decision_received", "decision": 7}])
def test_an_event_that_does_not_read_is_noted(event: dict[str, Any]) -> None:
    entries = (RawEntry.model_validate({"seq": 9, "at": h.BEGIN, "event": event}),)
    (merge_state,) = project([ContiguousEvents(run_id=RUN, project="default", held=8, entries=entries)]).unreadable
    assert (merge_state.seq, merge_state.type) == (9, event["type"])


@given(st.permutations(range(12)), st.integers(0, 12), st.lists(st.integers(0, 11), max_size=8))
def test_what_continues_a_history_is_in_order_without_gap_or_repeat(
    order: list[int], held: int, twice: list[int]
) -> None:
    log = [RawEntry.model_validate({"seq": n + 1, "at": h.BEGIN, "event": {"type": "note_added"}}) for n in range(12)]
    arrived = [log[position] for position in order] + [log[position] for position in twice]
    segment, missing = continue_from(RUN, "default", held, arrived)
    assert [entry.seq for entry in segment.entries] == list(range(held + 1, 13))
    assert not missing
    assert segment.seq == 12


@given(st.sets(st.integers(1, 12), min_size=1), st.integers(0, 12))
def test_nothing_is_written_behind_a_gap_and_the_gap_is_noticed(present: set[int], held: int) -> None:
    arrived = [RawEntry.model_validate({"seq": n, "at": h.BEGIN, "event": {}}) for n in present]
    segment, missing = continue_from(RUN, "default", held, arrived)
    seqs = [entry.seq for entry in segment.entries]
    assert seqs == list(range(held + 1, held + 1 + len(seqs)))
    assert missing == any(n > segment.seq for n in present)


def test_work_is_split_until_one_event_is_left() -> None:
    entries = entries_of([[h.created()], [ev.RunStarted()], [h.asked(RUN, 1)]])
    segment = ContiguousEvents(run_id=RUN, project="default", held=0, entries=entries)
    first, second = halves([segment])
    assert [part.held for part in (*first, *second)] == [0, 1]
    assert first[0].entries + second[0].entries == entries
    assert halves(first) == []
    assert halves([segment, segment]) == [[segment], [segment]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\x00b", '"a\\ufffdb"'),
        ("a\\u0000b", '"a\\\\u0000b"'),
        ("\\\x00", '"\\\\\\ufffd"'),
        ({"x": float("inf"), "y": float("nan")}, '{"x":"Infinity","y":"NaN"}'),
        ({"ä": "€"}, '{"ä":"€"}'),
    ],
)
def test_json_is_written_so_that_postgres_takes_it(value: Any, text: str) -> None:
    assert json_text(value) == text
    assert plain("a\x00") == "a\ufffd"


def test_what_a_late_answer_used_is_counted_in_the_costs_of_the_day() -> None:
    late = ev.UsageCorrected(
        request_id=RUN,
        model="gemini:x",
        usage=Usage(total_tokens=90, model_calls=1),
        cost=Cost(usd=0.25, price_known=True),
        answered=ChargedAttempt(attempt=1),
    )
    ((_, _, agent, model),) = (changes := changes_of(late)).costs
    (spent,) = changes.costs.values()
    assert (agent, model, spent.calls, spent.tokens, spent.usd, spent.unpriced) == ("", "gemini:x", 1, 90, 0.25, 0)


@pytest.mark.parametrize(
    ("usage", "usd", "counted"),
    [
        (Usage(total_tokens=2**62, model_calls=2**62), 1e300, (10**6, 10**12, 1e6)),
        (Usage(total_tokens=-5, model_calls=-5), -1.0, (0, 0, 0.0)),
        (Usage(), float("nan"), (0, 0, 0.0)),
    ],
)
def test_an_answer_adds_no_more_to_costs_than_the_rows_of_all_runs_hold(
    usage: Usage, usd: float, counted: tuple[int, int, float]
) -> None:
    spent = CostRow(run_id=RUN, day=h.BEGIN.date())
    spent.add(usage, Cost(usd=usd, price_known=True))
    assert (spent.calls, spent.tokens, spent.usd) == counted
