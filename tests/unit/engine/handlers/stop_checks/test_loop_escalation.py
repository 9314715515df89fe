"""What is done about a loop: nudge, replan, gate, stop; who is asked, and how often."""

from typing import Any

import pytest
from tests.support.engine.detected_loops import loops
from tests.support.engine.machine import RUN, Machine, route, snapshot, types, use, use_all

from towpath_contracts.decisions.assessments import ANSWERS, NEUTRAL
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.background import BackgroundRunSettings, BackgroundRunTask
from towpath_contracts.networks.goal import GoalSettings, GoalTask
from towpath_engine.handlers.stop_checks.loop_escalation import LoopAction, next_action
from towpath_engine.handlers.stop_checks.loop_finders import DetectedLoop
from towpath_engine.reducers.loops.counters import after_refusal, after_step, after_validation
from towpath_engine.reducers.loops.inheritance import counters_for_child, inherited_detectors
from towpath_engine.replay import create
from towpath_engine.state.loop_counters import LoopCounters
from towpath_engine.state.run import dump_state, load_state


def goal_run(autonomy: str = "medium", **more: Any) -> Machine:
    """A goal run of single attempts, whose phases ask for no assessment of their own accord."""
    settings = {"autonomy": autonomy, "step_attempts": 1, "validate_steps": False, "confidence_every": 1_000}
    goal = GoalTask(goal="Mend it.", settings=GoalSettings.model_validate(settings))
    return Machine(kind="goal", goal=goal, max_steps=50, **more)


def background_run() -> Machine:
    settings = BackgroundRunSettings(enable_reflection=False, max_failures=100)
    return Machine(kind="background", background=BackgroundRunTask(objective="Look.", settings=settings), max_steps=50)


def settled(machine: Machine) -> None:
    """Answer what the platform wants judged, so that a decision is pending or a gate open."""
    while not machine.state.gates and not machine.state.is_final and DecisionKind(machine.state.asked) in ANSWERS:
        machine.decide(NEUTRAL[DecisionKind(machine.state.asked)])


def take(machine: Machine, decision: dict[str, Any]) -> None:
    settled(machine)
    machine.decide(decision)


def failing(machine: Machine, message: str = "disk is full", *, external: bool = False) -> None:
    number = len(machine.events(ev.DecisionReceived))
    take(machine, use("echo", text=f"try {number}"))
    machine.fail(message=message, external=external)
    settled(machine)


def gates(machine: Machine) -> list[str]:
    return [event.gate_type for event in machine.events(ev.GateOpened)]


@pytest.mark.parametrize(
    ("detector", "kind", "autonomy", "gated", "ladder"),
    [
        ("calls", "network", "medium", False, ["nudge", "stop", "stop"]),
        ("errors", "network", "low", False, ["nudge", "stop", "stop"]),
        ("results", "network", "medium", False, ["nudge", "nudge", "nudge"]),
        ("cycle", "network", "medium", True, ["nudge", "gate", "gate"]),
        ("cycle", "goal", "low", False, ["gate", "gate", "gate"]),
        ("cycle", "goal", "medium", False, ["nudge", "replan", "gate", "gate"]),
        ("errors", "goal", "medium", False, ["gate", "gate"]),
        ("errors", "goal", "high", False, ["nudge", "replan", "stop", "stop"]),
        ("errors", "background", "medium", False, ["nudge", "replan", "gate", "gate"]),
        ("handoffs", "background", "high", False, ["nudge", "replan", "stop"]),
    ],
)
def test_c13_autonomy_and_the_kind_of_run_decide_what_is_done_about_a_loop(
    detector: str, kind: str, autonomy: Any, gated: bool, ladder: list[LoopAction]
) -> None:
    """Row C13: autonomy low, medium, high decides who is asked: low a person at once, high nobody."""
    loop = DetectedLoop(detector=detector, signature="x", count=3, told="", why="")
    before = [LoopCounters(nudged=(loop.key,) * times) for times in range(len(ladder))]
    assert [next_action(loop, detectors, kind, autonomy, gated=gated) for detectors in before] == ladder


def test_b8_the_third_equal_call_in_a_row_is_a_loop_whatever_the_order_of_keys_and_calls() -> None:
    """Row B8: order-free canonical signatures, threshold 3, fires on the third, inside a run."""
    machine = Machine(system_params={"account": "a", "token": "t"})
    one = use_all(("pay", {"amount": "1", "text": "x"}), ("echo", {"text": "y"}))
    other = use_all(("echo", {"text": "y"}), ("pay", {"text": "x", "amount": "1"}))
    for decision in (one, other):
        machine.decide(decision)
        machine.finish(1)
        machine.finish(0)
    assert loops(machine) == []
    machine.decide(one)
    assert loops(machine) == [("calls", 3, "nudge")] and len(machine.events(ev.ToolCallFinished)) == 4


def test_c5_three_equal_errors_of_a_goal_run_ask_a_person() -> None:
    """Row C5: 3 equal normalised errors → gate; the run waits and asks for nothing."""
    machine = goal_run()
    for name in ("alpha", "beta"):
        failing(machine, f"Unknown tool: {name}")
    assert loops(machine) == [] and gates(machine) == []
    failing(machine, "unknown TOOL gamma")
    assert loops(machine) == [("errors", 3, "gate")] and gates(machine) == ["loop_detected"]
    gate = machine.events(ev.GateOpened)[0]
    assert gate.reason == "the same error again and again: tool_exception:unknown_tool"
    assert gate.detail["detector"] == "errors" and gate.detail["count"] == 3
    assert machine.state.status == "waiting" and machine.state.pending == () and machine.requests == []


def test_c5_external_causes_do_not_count() -> None:
    machine = goal_run()
    for _ in range(2):
        failing(machine)
    for _ in range(5):
        failing(machine, external=True)
    assert loops(machine) == [] and not machine.state.is_final
    failing(machine)
    assert loops(machine) == [("errors", 3, "gate")]


def test_c5_the_count_survives_a_restart_and_a_change_of_agent() -> None:
    machine = goal_run()
    created = machine.state.created
    failing(machine)
    take(machine, route("expert"))
    machine.state = load_state(dump_state(machine.state), created, machine.network)
    failing(machine)
    machine.state = load_state(dump_state(machine.state), created, machine.network)
    failing(machine)
    assert machine.state.agent_key == "expert" and gates(machine) == ["loop_detected"]


def test_c5_there_is_one_gate_for_a_loop_and_a_person_decides_how_it_goes_on() -> None:
    machine = goal_run()
    for _ in range(3):
        failing(machine)
    for _ in range(3):
        machine.timer(after=60)
    assert len(gates(machine)) == 1, "time and resends open no second one"
    machine.resolve("approved")
    assert machine.state.detectors == LoopCounters(), "a person's word clears the counters"
    for _ in range(2):
        failing(machine)
    assert len(gates(machine)) == 1
    failing(machine)
    assert len(gates(machine)) == 2


def test_a_denial_tells_the_model_what_to_do_differently() -> None:
    machine = goal_run()
    for _ in range(3):
        failing(machine)
    machine.resolve("denied", reason="Ask the archive instead.", gate_id=machine.state.gates[0].gate_id)
    settled(machine)
    assert any("Ask the archive instead." in note for note in machine.context.notes)
    assert machine.state.revisions == 1 and not machine.state.is_final


@pytest.mark.parametrize("verdict", ["stop", "expired"])
def test_a_loop_that_a_person_stops_or_nobody_looks_at_ends_as_escalated(verdict: str) -> None:
    machine = goal_run()
    for _ in range(3):
        failing(machine)
    if verdict == "stop":
        machine.resolve("stop", reason="enough", gate_id=machine.state.gates[0].gate_id)
    else:
        machine.timer(after=24 * 3_600)
    assert (machine.finished.status, machine.finished.reason) == ("escalated", "loop_detected")


def test_several_attempts_of_one_step_count_as_one_error() -> None:
    """The error of a step is that of its last attempt."""
    detectors = after_refusal(LoopCounters(), "arguments_invalid", "no", step=1)
    detectors = after_refusal(detectors, "arguments_invalid", "no", step=2)
    assert detectors.error_count == 2
    for feedback, count in (("no", 3), ("never", 1), ("no", 3)):
        detectors = after_refusal(detectors, "arguments_invalid", feedback, step=3)
        assert detectors.error_count == count
    assert after_refusal(detectors, "arguments_invalid", "no", step=4).error_count == 4


def test_steps_that_are_judged_to_have_failed_are_errors_in_a_row_although_their_calls_succeeded() -> None:
    """What is counted is the error of the validation."""
    machine = goal_run()
    take(machine, use("echo", text="x"))
    tools, calls, detectors, counted = machine.network.tools, machine.state.calls, LoopCounters(), []
    for step, valid in enumerate((False, False, True, False, False, False), 1):
        detectors = after_step(detectors, calls, tools, step)
        assert detectors.error_count == 0, "a success clears, until it is judged"
        fields = {
            "step": step,
            "attempt": 1,
            "success": valid,
            "error_signature": "" if valid else "validation:not_valid",
        }
        judged = ev.StepResultValidated.model_validate({"source": "model", **fields})
        detectors = after_validation(detectors, judged)
        assert after_validation(detectors, judged) == detectors, "a step has one error"
        counted.append(detectors.error_count)
    assert counted == [1, 2, 0, 1, 2, 3]


def test_a_background_run_is_asked_for_another_plan_before_a_person_is() -> None:
    machine = background_run()
    for _ in range(3):
        failing(machine)
    assert loops(machine) == [("errors", 3, "nudge")]
    failing(machine)
    assert loops(machine)[-1] == ("errors", 4, "replan")
    (request,) = machine.requests
    assert isinstance(request, DecisionRequest) and request.kind is DecisionKind.REPLAN
    assert request.step == machine.state.step == 5, "another plan is a step of its own"
    failing(machine)
    assert [rung for _, _, rung in loops(machine)] == ["nudge", "replan", "gate"]
    assert gates(machine) == ["loop_detected"]


def test_a_step_without_that_error_climbs_no_rung() -> None:
    machine = background_run()
    for _ in range(4):
        failing(machine)
    take(machine, route("expert"))
    settled(machine)
    failing(machine, external=True)
    assert [rung for _, _, rung in loops(machine)] == ["nudge", "replan"] and gates(machine) == []
    failing(machine)
    assert gates(machine) == ["loop_detected"]


def test_a_plan_that_breaks_out_of_the_loop_is_asked_for_once() -> None:
    machine = background_run()
    for _ in range(4):
        failing(machine)
    take(machine, use("lookup", text="something else"))
    machine.finish()
    settled(machine)
    assert machine.state.asked == "decide" and not machine.state.detectors.replan


def test_the_third_equal_call_of_a_background_run_climbs_the_same_ladder() -> None:
    machine = background_run()
    for _ in range(2):
        take(machine, use("echo", text="x"))
        machine.finish()
    for _ in range(3):
        take(machine, use("echo", text="x"))
    assert loops(machine) == [("calls", 3, "nudge"), ("calls", 3, "replan"), ("calls", 3, "gate")]
    assert types([entry.event for entry in machine.entries])[-3:] == [
        "loop_detected",
        "decision_refused",
        "gate_opened",
    ]
    assert machine.state.status == "waiting" and len(machine.events(ev.ToolCallFinished)) == 2
    machine.resolve("approved")
    settled(machine)
    assert machine.state.asked == "decide", "the run goes on"


def test_a_network_may_want_a_person_asked_where_it_would_be_stopped() -> None:
    machine = Machine(snapshot(on_loop="gate", max_steps=50))
    for _ in range(4):
        machine.decide(use("lookup", text=f"{machine.state.step}"))
        machine.fail(message="disk is full")
    assert loops(machine) == [("errors", 3, "nudge"), ("errors", 4, "gate")]
    assert gates(machine) == ["loop_detected"] and machine.state.status == "waiting"
    machine.resolve("approved")
    assert machine.state.asked == "decide" and machine.state.pending


def test_a_child_begins_with_the_counters_of_its_parent() -> None:
    """Subtasks inherit the parent's counter."""
    parent = Machine(max_steps=50)
    for _ in range(2):
        parent.decide(use("echo", text=f"{parent.state.step}"))
        parent.fail(message="disk is full")
    parent.decide(route("expert"))
    given = counters_for_child(parent.state.detectors)
    created = parent.state.created.model_copy(update={"detectors": given})
    child, _ = create(RUN, parent.network, RunCreated.model_validate_json(created.model_dump_json()), parent.now)
    assert (child.detectors.error_count, child.detectors.error_signature) == (2, "tool_exception:disk is full")
    assert child.detectors.handoffs == () and child.detectors.error_step == 0
    assert counters_for_child(LoopCounters()) is None and inherited_detectors(None) == LoopCounters()
    assert '"detectors"' not in parent.state.created.model_dump_json(), "what nobody counted is not written"
