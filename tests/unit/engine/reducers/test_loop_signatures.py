"""Loop detectors beyond equal calls and errors: cycles, unchanged results, ping-pong, polling."""

from typing import Any

import pytest
from tests.support.engine.machine import TOOLS, Machine, respond, route, snapshot, tool, use, use_all

from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import EffectClass
from towpath_engine.advance import wake_at
from towpath_engine.reducers.calls import call_deadline
from towpath_engine.reducers.loop_counters import WINDOW, cycle_of, steps_of_cycle
from towpath_engine.reducers.loop_signatures import weight
from towpath_engine.state.run import dump_state, load_state

PAGE = {"items": [f"a line with something in it, number {number}" for number in range(6)]}


def call(machine: Machine, decision: dict[str, Any], result: Any = "same") -> None:
    machine.decide(decision)
    for index in range(len(machine.state.calls)):
        machine.finish(index, result=result)


def loops(machine: Machine) -> list[tuple[str, int, str]]:
    return [(event.detector, event.count, event.action) for event in machine.events(ev.LoopDetected)]


def writing() -> Machine:
    """A run whose tool changes something."""
    tools = (*TOOLS, tool("write", effect_class=EffectClass.IDEMPOTENT))
    agent = snapshot().agents["triage"].model_copy(update={"equipped_tools": ("lookup", "write"), "allowed_routes": ()})
    return Machine(snapshot(agent, tools=tools, max_steps=30))


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_a_cycle_is_found_after_three_rounds_and_a_long_one_when_the_third_begins(length: int) -> None:
    machine = Machine(max_steps=50)
    needed = steps_of_cycle(length)
    assert needed == (6, 9, 9, 11, 13)[length - 2]
    for number in range(needed):
        assert loops(machine) == []
        call(machine, use("echo", text=f"step {number % length}"))
    assert loops(machine) == [("cycle", length, "nudge")]
    assert f"a circle of {length}" in machine.context.notes[0]
    assert len(machine.state.detectors.window) <= WINDOW == 13


def test_a_cycle_of_seven_is_beyond_the_detectors() -> None:
    machine = Machine(max_steps=50)
    for number in range(28):
        call(machine, use("echo", text=f"step {number % 7}"))
    assert loops(machine) == []


def test_a_network_run_that_goes_round_once_more_after_the_nudge_is_stopped() -> None:
    machine = Machine(max_steps=50)
    for number in range(7):
        call(machine, use("echo", text="xy"[number % 2]))
    assert loops(machine) == [("cycle", 2, "nudge")], "one step more is not a round more"
    call(machine, use("echo", text="y"))
    assert loops(machine) == [("cycle", 2, "nudge"), ("cycle", 2, "stop")]
    assert (machine.finished.status, machine.finished.reason) == ("failed", "loop_detected")


def test_a_cycle_that_is_left_after_the_nudge_is_forgotten() -> None:
    machine = Machine(max_steps=50)
    for number in range(6):
        call(machine, use("echo", text="xy"[number % 2]))
    call(machine, use("lookup", text="something else"))
    call(machine, use("echo", text="x"))
    machine.decide(respond())
    assert machine.finished.status == "completed"


def test_a_cycle_has_the_same_name_wherever_it_is_entered() -> None:
    names = []
    for text in ("xyxyxy", "yxyxyx"):
        machine = Machine(max_steps=50)
        for letter in text:
            call(machine, use("echo", text=letter))
        names.append(machine.events(ev.LoopDetected)[0].signature)
    assert names[0] == names[1]


def test_new_results_make_a_cycle_of_calls_progress() -> None:
    machine = Machine(max_steps=50)
    for number in range(20):
        call(machine, use("echo", text="xy"[number % 2]), result=f"place {number}")
    assert loops(machine) == []


def test_equal_steps_and_handoffs_alone_are_no_cycle() -> None:
    assert cycle_of(("c:a",) * 13) == ()
    assert cycle_of(("r:a", "r:b") * 6) == ()
    assert cycle_of(("r:a", "c:b") * 3) == ("r:a", "c:b")
    assert cycle_of(()) == cycle_of(("c:a",)) == ()


def test_the_third_equal_result_of_other_questions_is_told_and_never_ends_a_network_run() -> None:
    machine = Machine(max_steps=50)
    for number in range(8):
        call(machine, use("lookup", text=f"question {number}"), result=PAGE)
    assert loops(machine) == [("results", 3, "nudge")] * 2, "at the third, and at the third after that"
    assert not machine.state.is_final
    assert "The last 3 results were the same" in machine.events(ev.NoteAdded)[0].text


def test_fields_that_say_when_a_result_was_made_do_not_make_it_another_one() -> None:
    machine = Machine(max_steps=50)
    for number in range(3):
        result = {**PAGE, "took_ms": number, "request_id": f"r{number}", "timestamp": f"12:0{number}"}
        call(machine, use("lookup", text=f"question {number}"), result=result)
    assert loops(machine) == [("results", 3, "nudge")]


@pytest.mark.parametrize("result", [None, "", "ok", True, [], {}, {"errors": [], "valid": True}, {"written": 1}, 0])
def test_results_that_say_next_to_nothing_may_be_the_same(result: Any) -> None:
    machine = Machine(max_steps=50)
    for number in range(6):
        call(machine, use("lookup", text=f"item {number}"), result=result)
    assert loops(machine) == []


def test_a_tool_that_changes_something_may_answer_the_same_each_time() -> None:
    machine = writing()
    for number in range(6):
        call(machine, use("write", text=f"item {number}"), result=PAGE)
    assert loops(machine) == []


def test_a_change_in_between_makes_an_equal_result_news() -> None:
    machine = writing()
    for number in range(4):
        call(machine, use("lookup", text=f"question {number}"), result=PAGE)
        call(machine, use("write", text=f"item {number}"), result="ok")
    assert loops(machine) == []


def test_weight_stops_counting_when_there_is_enough() -> None:
    assert weight({"a": [1, True, None, "word", {"b": "more"}]}, 80) == 9
    assert weight("x" * 1_000, 80) == 1_000
    assert 80 <= weight(["x" * 30] * 1_000, 80) <= 110


def test_the_third_equal_handoff_is_ping_pong() -> None:
    machine = Machine(max_steps=50)
    for target in ("expert", "triage", "expert", "triage"):
        machine.decide(route(target, "yours"))
    assert loops(machine) == []
    machine.decide(route("expert", "yours"))
    assert loops(machine) == [("handoffs", 5, "nudge")]
    assert "nobody did anything" in machine.context.notes[0]
    machine.decide(route("triage", "yours"))
    assert loops(machine)[-1] == ("handoffs", 6, "stop") and machine.finished.reason == "loop_detected"


def test_after_the_nudge_only_a_further_handoff_goes_on_with_the_ping_pong() -> None:
    machine = Machine(max_steps=50)
    for target in ("expert", "triage", "expert", "triage", "expert"):
        machine.decide(route(target, "yours"))
    machine.decide(use("ghost"))
    assert loops(machine) == [("handoffs", 5, "nudge")] and not machine.state.is_final


def test_five_exchanges_of_new_words_are_enough() -> None:
    machine = Machine(max_steps=50)
    for number in range(10):
        machine.decide(route(("expert", "triage")[number % 2], f"thought {number}"))
    assert loops(machine) == []
    machine.decide(route("expert", "another thought"))
    assert loops(machine) == [("handoffs", 11, "nudge")]


def test_work_in_between_makes_handoffs_cooperation() -> None:
    machine = Machine(max_steps=50)
    for number in range(20):
        machine.decide(route(("expert", "triage")[number % 2], "yours"))
        call(machine, use("echo", text=f"work {number}"), result=f"done {number}")
    assert loops(machine) == [] and machine.state.detectors.handoff_count == 0


def test_a_handoff_that_the_platform_forces_is_none_of_the_models() -> None:
    machine = Machine(snapshot(max_steps=2, force_respond=True, force_respond_agent="expert"))
    call(machine, use("echo", text="x"))
    assert machine.state.agent_key == "expert" and machine.state.detectors.handoffs == ()


def test_polling_in_a_row_is_slowed_down_by_the_runs_own_timer() -> None:
    """1, 2, 4, … seconds up to 30 before each further look; the pending effect's resend is its first sending."""
    machine, waits = Machine(max_steps=50), []
    for _ in range(8):
        machine.decide(use("poll", text="x"), after=1)
        pending = machine.state.pending[0]
        waits.append((pending.resend_at - machine.now).total_seconds() if pending.attempt == 0 else 0)
        if pending.attempt == 0:
            assert machine.requests == [], "not sent before its time"
            assert wake_at(machine.state) == pending.resend_at
            assert pending.deadline == call_deadline(machine.state, "poll", pending.resend_at), "it loses no time"
            machine.wake()
            assert machine.state.pending[0].attempt == 1
        assert len(machine.requests) == 1
        machine.finish()
    assert waits == [0, 1, 2, 4, 8, 16, 30, 30]


def test_other_work_ends_the_slowness_of_polling() -> None:
    machine = Machine(max_steps=50)
    for _ in range(4):
        call(machine, use("poll", text="x"))
    call(machine, use("echo", text="y"))
    machine.decide(use("poll", text="x"))
    assert machine.state.pending[0].attempt == 1 and len(machine.requests) == 1


def test_one_slow_poll_beside_other_calls_keeps_nothing_waiting() -> None:
    machine = Machine(max_steps=50)
    for _ in range(2):
        call(machine, use("poll", text="x"))
    machine.decide(use_all(("poll", {"text": "x"}), ("echo", {"text": "y"})))
    assert len(machine.requests) == 2


def test_a_cancel_finds_a_call_that_still_waits_for_its_time() -> None:
    machine = Machine(max_steps=50)
    call(machine, use("poll", text="x"))
    machine.decide(use("poll", text="x"))
    waiting = machine.call_id()
    machine.cancel()
    machine.fenced(voided=[waiting])
    assert machine.finished.status == "cancelled"


def test_the_same_call_after_an_outage_is_no_loop() -> None:
    """That its server was away is not the model's doing: the call is not counted."""
    machine = Machine(max_steps=50, max_tool_errors=50)
    for _ in range(4):
        machine.decide(use("lookup", text="x"))
        machine.fail(code="unavailable", message="HTTP 503", external=True)
    call(machine, use("lookup", text="x"))
    assert loops(machine) == []
    call(machine, use("lookup", text="x"))
    machine.decide(use("lookup", text="x"))
    assert loops(machine) == [("calls", 3, "nudge")], "what was answered counts"


def test_polling_through_an_outage_is_no_loop() -> None:
    machine = Machine(max_steps=50, max_tool_errors=50)
    for _ in range(5):
        machine.decide(use("poll", text="x"))
        machine.fail(code="unavailable", message="HTTP 503", external=True)
    assert loops(machine) == [] and machine.state.detectors.error_count == 0


def test_the_same_errors_after_a_success_are_told_of_no_second_time_and_stop_at_the_fourth() -> None:
    machine = Machine(max_steps=50, max_tool_errors=50)
    for number in range(6):
        if number == 3:
            call(machine, use("echo", text="it works"))
        machine.decide(use("lookup", text=f"{number}"))
        machine.fail(message="disk is full")
    assert loops(machine) == [("errors", 3, "nudge")] and not machine.state.is_final
    machine.decide(use("lookup", text="6"))
    machine.fail(message="disk is full")
    assert loops(machine)[-1] == ("errors", 4, "stop")


def test_every_counter_survives_a_restart_at_every_step() -> None:
    machine = Machine(max_steps=50)
    created = machine.state.created
    for number in range(6):
        machine.state = load_state(dump_state(machine.state), created, machine.network)
        call(machine, use("echo", text="xy"[number % 2]))
    assert loops(machine) == [("cycle", 2, "nudge")]
