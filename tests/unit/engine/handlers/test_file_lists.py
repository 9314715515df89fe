"""The list of files that a call works with is named in the log before it is sent: the call may wait for weeks."""

from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import use, use_all

from towpath_contracts.canonical import digest_text
from towpath_contracts.events import log as ev
from towpath_engine.requests.effects import TextToStore
from towpath_engine.state.workspace import file_list_json


def test_the_event_of_an_instruction_names_the_list_of_files_that_its_calls_work_with() -> None:
    machine = goal_run()
    machine.decide(use_all(("build", {}), ("scratch", {})))
    (issued,) = machine.events(ev.InstructionIssued)
    digest = digest_text(file_list_json(machine.state.desk))
    assert issued.file_list == digest and f'"file_list":"{digest}"' in issued.model_dump_json()
    assert [call.workspace for call in machine.state.calls] == ["", digest]
    assert [one.message.digest for one in machine.sent if isinstance(one.message, TextToStore)] == [digest]


def test_an_instruction_whose_calls_need_no_files_is_written_as_before() -> None:
    machine = goal_run()
    machine.decide(use("build"))
    (issued,) = machine.events(ev.InstructionIssued)
    assert issued.file_list is None and "file_list" not in issued.model_dump_json()
