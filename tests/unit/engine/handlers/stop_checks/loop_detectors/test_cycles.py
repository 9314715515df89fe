"""The detector `cycle`: two to six steps that come round with the same results."""

import pytest
from tests.support.engine.detected_loops import call, loops
from tests.support.engine.machine import Machine, respond, use

from towpath_contracts.events import log as ev
from towpath_engine.reducers.loops.counters import WINDOW, cycle_of, steps_of_cycle
from towpath_engine.state.run import dump_state, load_state


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


@pytest.mark.parametrize("same", [True, False])
def test_denied_steps_are_a_cycle_only_if_the_same_calls_come_round(same: bool) -> None:
    machine = Machine(max_steps=50)
    for number in range(6):
        tool = ("echo", "lookup")[number % 2]
        machine.decide(use(tool, text="x" if same else f"{number}"))
        machine.deny(tool=tool, rule="careful")
    assert loops(machine) == ([("cycle", 2, "nudge")] if same else [])


def test_equal_steps_and_handoffs_alone_are_no_cycle() -> None:
    assert cycle_of(("c:a",) * 13) == ()
    assert cycle_of(("r:a", "r:b") * 6) == ()
    assert cycle_of(("r:a", "c:b") * 3) == ("r:a", "c:b")
    assert cycle_of(()) == cycle_of(("c:a",)) == ()


def test_every_counter_survives_a_restart_at_every_step() -> None:
    machine = Machine(max_steps=50)
    created = machine.state.created
    for number in range(6):
        machine.state = load_state(dump_state(machine.state), created, machine.network)
        call(machine, use("echo", text="xy"[number % 2]))
    assert loops(machine) == [("cycle", 2, "nudge")]
