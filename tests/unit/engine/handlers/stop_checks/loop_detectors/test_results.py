"""The detector `results`: the same result although something else was asked for."""

from tests.support.engine.detected_loops import PAGE, call, loops
from tests.support.engine.machine import TOOLS, Machine, snapshot, tool, use

from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import EffectClass


def writing() -> Machine:
    """A run whose tool changes something."""
    tools = (*TOOLS, tool("write", effect_class=EffectClass.IDEMPOTENT))
    agent = snapshot().agents["triage"].model_copy(update={"equipped_tools": ("lookup", "write"), "allowed_routes": ()})
    return Machine(snapshot(agent, tools=tools, max_steps=30))


def test_the_third_equal_result_of_other_questions_is_reported_and_never_ends_a_network_run() -> None:
    machine = Machine(max_steps=50)
    for number in range(8):
        call(machine, use("lookup", text=f"question {number}"), result=PAGE)
    assert loops(machine) == [("results", 3, "nudge")] * 2, "at the third, and at the third after that"
    assert not machine.state.is_final
    assert "The last 3 results were the same" in machine.events(ev.NoteAdded)[0].text


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
