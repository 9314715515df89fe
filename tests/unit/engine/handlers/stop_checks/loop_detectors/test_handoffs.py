"""The detector `handoffs`: agents that hand over to each other and do nothing."""

from tests.support.engine.detected_loops import call, loops
from tests.support.engine.machine import Machine, route, snapshot, use


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
