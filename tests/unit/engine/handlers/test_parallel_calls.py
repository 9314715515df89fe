"""Tool calls of one decision run together and are joined in call order."""

from itertools import permutations
from typing import Any

import pytest
from tests.support.engine.machine import Machine, types, use_all

from towpath_contracts.decisions.decision import MAX_CALLS_PER_DECISION
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import DEFAULT_CONTEXT_LIMIT
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.previews import preview_of, text_bytes

THREE = use_all(("echo", {"text": "a"}), ("lookup", {"text": "b"}), ("echo", {"text": "c"}))


def finished_in(order: tuple[int, ...], *, failing: int | None = None) -> Machine:
    machine = Machine()
    machine.decide(THREE)
    for index in order:
        if index == failing:
            machine.fail(index, message="broken")
        else:
            machine.finish(index, result=f"result {index}")
    return machine


def test_b7_all_calls_of_a_decision_are_asked_for_at_once() -> None:
    machine = Machine()
    machine.decide(THREE)
    asked = [r for r in machine.requests if isinstance(r, ToolRequest)]
    assert [(r.call_index, r.tool, r.args, r.step) for r in asked] == [
        (0, "echo", {"text": "a"}, 1),
        (1, "lookup", {"text": "b"}, 1),
        (2, "echo", {"text": "c"}, 1),
    ]
    assert len({r.execution_id for r in asked}) == 3


def test_the_run_goes_on_with_the_last_outcome_only() -> None:
    machine = Machine()
    machine.decide(THREE)
    assert types(machine.finish(1)) == ["tool_call_finished"]
    assert types(machine.deny(0)) == ["tool_call_denied"]
    assert types(machine.finish(2)) == ["tool_call_finished", "decision_requested"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_b7_the_next_prompt_does_not_depend_on_which_worker_was_faster(order: tuple[int, ...]) -> None:
    machine, plain = finished_in(order), finished_in((0, 1, 2))
    assert machine.context == plain.context
    assert [output.text for output in machine.context.outputs] == ["result 0", "result 1", "result 2"]
    assert machine.state.last_output == "result 2"
    assert machine.state.detectors == plain.state.detectors
    assert machine.log.execution_log == plain.log.execution_log
    assert machine.log.tool_refs == plain.log.tool_refs == [str(c) for c in ids(plain)]


def ids(machine: Machine) -> list[Any]:
    return [call.execution_id for call in machine.events(ev.InstructionIssued)[0].instruction.calls]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_b7_a_failure_among_them_is_a_result_at_its_place(order: tuple[int, ...]) -> None:
    machine = finished_in(order, failing=2)
    assert machine.context == finished_in((0, 1, 2), failing=2).context
    assert [output.status for output in machine.context.outputs] == ["succeeded", "succeeded", "failed"]
    assert machine.state.last_output == "result 1"
    assert machine.state.tool_errors == 1


def test_outputs_of_a_later_step_stand_before_those_of_an_earlier_one() -> None:
    machine = finished_in((2, 0, 1))
    machine.decide(use_all(("lookup", {"text": "d"}), ("echo", {"text": "e"})))
    machine.finish(1, result="result 4")
    machine.finish(0, result="result 3")
    assert [o.text[-1] for o in machine.context.outputs] == ["3", "4", "0", "1", "2"]
    kinds = [(e["type"], e.get("response_preview", "")[-1:]) for e in machine.log.execution_log]
    assert kinds == [
        ("agent", ""),
        ("tool", "0"),
        ("tool", "1"),
        ("tool", "2"),
        ("agent", ""),
        ("tool", "3"),
        ("tool", "4"),
    ]
    assert list(machine.context.log_summary) == machine.log.execution_log


def test_what_is_finished_counts_even_when_the_others_never_are() -> None:
    machine = Machine()
    machine.decide(THREE)
    machine.finish(1, result="kept")
    machine.timer(after=400)
    assert (machine.finished.status, machine.finished.last_output) == ("timed_out", "kept")
    assert [effect["outcome"] for effect in machine.finished.effects] == ["unknown", "happened", "unknown"]
    assert len(machine.log.tool_log) == 1


def test_a_decision_may_ask_for_ten_calls_and_no_more() -> None:
    machine = Machine()
    machine.decide(use_all(*[("echo", {"text": str(n)}) for n in range(MAX_CALLS_PER_DECISION)]))
    assert len(machine.requests) == 10
    other = Machine()
    other.decide(use_all(*[("echo", {"text": str(n)}) for n in range(MAX_CALLS_PER_DECISION + 1)]))
    assert other.events(ev.DecisionRefused)[0].code == "decision_invalid"


def test_one_bad_call_stops_all_calls_of_its_decision() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("ghost", {})))
    assert machine.state.calls == () and machine.events(ev.InstructionIssued) == []


def test_a_result_that_is_no_json_is_kept_as_json() -> None:
    machine = Machine()
    machine.decide(THREE)
    machine.finish(0, result={"rate": float("nan"), "rows": [float("inf"), 1.5]})
    machine.finish(1)
    machine.finish(2)
    assert machine.context.outputs[0].text == '{"rate":null,"rows":[null,1.5]}'


def test_a_large_result_is_shown_as_its_preview_and_digest() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"})))
    machine.finish(0, result="the first lines", blob=True, result_digest="sha256:77", result_bytes=1_000_000)
    (output,) = machine.context.outputs
    assert output.blob_digest == "sha256:77"
    assert output.text.startswith("the first lines\n[… 15 of 1000000 bytes are shown")
    assert machine.state.last_output == {"blob": "sha256:77", "preview": "the first lines"}


def test_a_large_result_is_shown_by_what_its_worker_recorded_within_the_context_limit() -> None:
    machine = Machine()
    machine.decide(use_all(("echo", {"text": "a"}), ("lookup", {})))
    text = "é".join(str(number) for number in range(60_000))
    more = {"blob": True, "result_digest": "sha256:77", "result_bytes": 400_000, "preview": preview_of(text)}
    machine.finish(0, result=None, **more)
    machine.finish(1, result="b" * 20_000)
    first, second = machine.context.outputs
    assert text_bytes(first.text) + text_bytes(second.text) <= DEFAULT_CONTEXT_LIMIT
    assert text_bytes(second.text) == DEFAULT_CONTEXT_LIMIT // 2, "both have half of the room"
    assert first.text.startswith("0é1é2é") and first.text.endswith("é59998é59999")
    assert f"of {len(text.encode())} bytes" in first.text and str(first.execution_id) in first.text
    (event, _) = machine.events(ev.ToolCallFinished)
    assert event.preview == preview_of(text), "the log has what it was made from, once"


def test_a_result_that_gives_way_to_newer_ones_stays_a_preview_of_what_it_was() -> None:
    machine = Machine()
    for size in (40_000, 30_000):
        machine.decide(use_all(("echo", {"text": str(size)})))
        machine.finish(0, result=str(size)[0] * size)
    newest, older = machine.context.outputs
    assert newest.text == "3" * 30_000
    assert text_bytes(older.text) <= DEFAULT_CONTEXT_LIMIT - 30_000 and "of 40000 bytes are shown" in older.text
    machine.decide(use_all(("lookup", {})))
    machine.finish(0, result="n" * DEFAULT_CONTEXT_LIMIT)
    assert [output.text[:1] for output in machine.context.outputs] == ["n"]
    assert [(older.size, older.preview[:1]) for older in machine.context.older_outputs] == [
        (30_000, "3"),
        (40_000, "4"),
    ]
