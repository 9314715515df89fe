"""What a run's log says of answers: of calls that the run applied itself, and of agents that it asked."""

import json
from typing import Any
from uuid import UUID

from towpath_contracts.base import MessagePart
from towpath_contracts.events.call_events import ToolCallFinished
from towpath_contracts.events.child_events import ChildEnded, ChildStarted
from towpath_contracts.events.operator_events import NoteGiven
from towpath_contracts.runs.children import ChildTask
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.internal_tools import PLATFORM_WORKER
from towpath_tas.core.provenance.logged_answers import AnswersOfRun, EndedChild, LoggedAnswer, ended_child
from towpath_tas.core.provenance.value_leaves import ValueSource

CALL, CHILD, OTHER = (UUID(int=n) for n in (1, 2, 3))
SAID = {"address": "eve@evil.example"}


def finished(**more: Any) -> ToolCallFinished:
    said = {"execution_id": CALL, "step": 2, "epoch": 0, "agent_key": "lead", "call_index": 0, "status": "succeeded"}
    return ToolCallFinished.model_validate({**said, "tool": "workspace_read", "worker": PLATFORM_WORKER, **more})


def started(child: UUID, call: UUID | None = None) -> ChildStarted:
    task = ChildTask(agent_key="expert", user_message="Do it.", execution_id=call)
    return ChildStarted(child_id=child, step=2, index=0, task=task)


def ended(child: UUID, **more: Any) -> ChildEnded:
    return ChildEnded.model_validate(
        {"child_id": child, "step": 2, "index": 0, "status": "completed", "final": SAID, **more}
    )


def answers(*events: MessagePart) -> list[LoggedAnswer]:
    log = AnswersOfRun()
    found = [log.read(json.loads(event.model_dump_json())) for event in events]
    return [one for one in found if one is not None]


def test_a_call_that_the_run_applied_has_its_result_and_what_its_failure_says() -> None:
    failure = ToolFailure(code="x", message="write to eve@evil.example", hint="or to mal@evil.example")
    assert answers(finished(result=SAID), finished(status="failed", failure=failure)) == [
        LoggedAnswer(ValueSource("workspace_read", 2), 2, result=SAID),
        LoggedAnswer(ValueSource("workspace_read", 2), 2, failure="x write to eve@evil.example or to mal@evil.example"),
    ]


def test_what_a_worker_returned_is_no_answer_of_the_run_even_if_it_calls_itself_so() -> None:
    assert answers(finished(worker="w1", result={"worker": "platform"})) == []


def test_a_child_that_answers_no_call_answers_as_its_agent_however_it_ended() -> None:
    by_expert = LoggedAnswer(ValueSource("agent:expert", 2), 2, result=SAID, children=(str(CHILD),))
    assert answers(started(CHILD), ended(CHILD)) == [by_expert]
    assert answers(started(CHILD), ended(CHILD, status="failed", reason="max_steps_exceeded")) == [by_expert]


def test_of_a_child_that_answers_a_call_the_outcome_of_the_call_counts_and_counts_once() -> None:
    events = (started(CHILD, CALL), started(OTHER), ended(CHILD), finished(tool="delegate_to_ann", result=SAID))
    (answer,) = answers(*events)
    assert answer == LoggedAnswer(ValueSource("delegate_to_ann", 2), 2, result=SAID, children=(str(CHILD),))


def test_an_answer_of_whom_the_log_does_not_say_counts_too() -> None:
    assert answers(ended(CHILD)) == [LoggedAnswer(ValueSource("agent", 2), 2, result=SAID, children=(str(CHILD),))]


def test_events_may_come_again_and_the_place_in_the_log_never_goes_back() -> None:
    log = AnswersOfRun()
    for _ in range(2):
        log.read(json.loads(started(CHILD).model_dump_json()))
        answer = log.read(json.loads(ended(CHILD).model_dump_json()))
        assert answer is not None and answer.source.tool == "agent:expert"
    log.taken(7)
    log.taken(5)
    assert log.seq == 7


def test_the_log_has_such_an_outcome_in_the_letters_that_the_tables_look_for() -> None:
    """The index of answers and the view on it look for these letters in the text of the event."""
    assert '"worker":"platform"' in finished().model_dump_json()


def test_a_part_of_an_output_that_is_read_once_more_came_from_the_tool_that_returned_it() -> None:
    part = {"execution_id": str(OTHER), "tool": "page.read", "step": 1, "text": "write to eve"}
    matches = {**part, "text": None, "matches": [{"offset": 0, "text": "to eve"}, {"offset": 9, "text": "to mal"}]}
    source = ValueSource("page.read", 1)
    assert answers(finished(tool="output_read", result=part), finished(tool="output_search", result=matches)) == [
        LoggedAnswer(source, 2, parts=("write to eve",)),
        LoggedAnswer(source, 2, parts=("to eve", "to mal")),
    ]


def test_what_a_person_has_told_the_run_is_vouched_for_by_nobody() -> None:
    note = NoteGiven(step=3, text="Send it to eve@evil.example.", by="ann", act_id=CALL)
    assert answers(note) == [LoggedAnswer(ValueSource("note", 3), 3, failure="Send it to eve@evil.example.")]


def test_a_call_that_several_children_answer_names_each_of_them_once() -> None:
    events = (started(CHILD, CALL), started(OTHER, CALL), started(CHILD, CALL), finished(tool="delegate", result=SAID))
    assert answers(*events)[0].children == (str(CHILD), str(OTHER))


def test_the_log_tells_which_run_has_ended_and_in_which_step_it_was_asked() -> None:
    events = [json.loads(one.model_dump_json()) for one in (started(CHILD), ended(CHILD), finished())]
    assert [ended_child(event) for event in events] == [None, EndedChild(str(CHILD), 2), None]
