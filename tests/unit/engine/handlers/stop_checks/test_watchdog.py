"""What the run machine makes of the watchdog's reports."""

from typing import Any

import pytest
from tests.support.engine.machine import RUN, Machine, respond, snapshot, types, use

from towpath_contracts import facts
from towpath_contracts.events import log as ev
from towpath_contracts.networks.goal import GoalTask
from towpath_engine.state.run import dump_state, load_state

SAID = "The last 5 steps did almost the same thing and brought nothing new. Do something else."


def report(machine: Machine, *, since: int | None = None, **more: Any) -> facts.WatchdogReportedFact:
    """A report that rests on what happened up to now, unless *since* says otherwise."""
    return facts.WatchdogReportedFact.model_validate(
        {
            "run_id": RUN,
            "finding": "similar_actions",
            "key": "similar_actions:echo",
            "since": machine.state.seq if since is None else since,
            "steps": 5,
            "score": 0.8,
            "tools": ("echo",),
            **more,
        }
    )


def goal(autonomy: str = "medium") -> Machine:
    task = GoalTask.model_validate({"goal": "find it", "settings": {"autonomy": autonomy, "validate_steps": False}})
    return Machine(snapshot(), kind="goal", goal=task)


def test_a_report_is_reported_at_the_next_step_and_not_to_the_decision_that_was_asked_before_it() -> None:
    machine = Machine()
    assert types(machine.feed(report(machine))) == ["watchdog_reported"]
    machine.decide(use("echo", text="x"))
    assert types(machine.finish()) == ["tool_call_finished", "note_added", "decision_requested"]
    assert machine.context.notes == (SAID,)
    machine.decide(use("echo", text="y"))
    machine.finish()
    assert machine.context.notes == (), "once"


def test_a_finding_is_taken_once_however_often_it_is_reported() -> None:
    machine = Machine()
    machine.decide(use("echo", text="x"))
    first = report(machine)
    machine.feed(first)
    assert machine.feed(first) == []
    machine.state = load_state(dump_state(machine.state), machine.state.created, machine.network)
    assert machine.feed(report(machine, since=first.since - 1)) == [], "nor by a watchdog that began elsewhere"
    machine.finish()
    assert types(machine.feed(report(machine))) == ["watchdog_reported"], "what came after it is news"
    assert types(machine.feed(report(machine, key="similar_actions:lookup"))) == ["watchdog_reported"]


def test_asking_a_polling_tool_again_is_no_fault() -> None:
    machine = Machine()
    assert machine.feed(report(machine, tools=("echo", "poll"))) == []
    assert machine.feed(report(machine, finding="stalled_progress", key="stalled_progress", tools=("poll",))) == []


@pytest.mark.parametrize(
    ("autonomy", "rungs"),
    [("medium", ["nudge", "gate"]), ("low", ["gate"]), ("high", ["nudge", "nudge", "nudge"])],
)
def test_who_is_asked_depends_on_the_autonomy_of_the_goal(autonomy: str, rungs: list[str]) -> None:
    machine = goal(autonomy)
    for number, rung in enumerate(rungs):
        (taken,) = machine.feed(report(machine))
        assert isinstance(taken, ev.WatchdogReported)
        assert taken.action == rung
        machine.decide(use("echo", text=f"{number}"))
        machine.finish(result=f"result {number}")
        gates = [gate.gate_type for gate in machine.state.gates]
        assert gates == (["loop_detected"] if rung == "gate" else [])


def test_a_person_lets_a_run_go_on_that_the_watchdog_stopped() -> None:
    machine = goal("low")
    machine.feed(report(machine))
    machine.decide(use("echo", text="x"))
    machine.finish()
    (gate,) = machine.state.gates
    assert machine.state.status == "waiting"
    assert machine.feed(report(machine, finding="silent", key="silent:quiet")) == [], (
        "waiting for a person is no silence"
    )
    events = machine.feed(
        facts.GateResolvedFact(
            run_id=RUN, gate_id=gate.gate_id, verdict="denied", reason="look in the archive", by="mia"
        )
    )
    assert types(events)[:2] == ["gate_closed", "note_added"]
    assert types(events)[-1] == "decision_requested"
    assert not machine.state.gates


def test_a_network_run_is_only_nudged_unless_its_author_wants_a_person_asked() -> None:
    for network, rungs in ((snapshot(), ["nudge", "nudge"]), (snapshot(on_loop="gate"), ["nudge", "gate"])):
        machine = Machine(network)
        machine.feed(report(machine))
        machine.decide(use("echo", text="x"))
        machine.finish()
        machine.feed(report(machine))
        assert [event.action for event in machine.events(ev.WatchdogReported)] == rungs


def test_lost_work_is_looked_at_again() -> None:
    machine = Machine()
    lost = report(machine, finding="lost", key="lost:overdue", tools=())
    events = machine.feed(lost, after=120)
    assert types(events) == ["watchdog_reported", "effect_resent"]
    assert machine.feed(lost) == []


def test_a_queued_run_that_is_reported_stays_queued() -> None:
    machine = Machine(start=False)
    (taken,) = machine.feed(report(machine, finding="lost", key="lost:queued", tools=()))
    assert isinstance(taken, ev.WatchdogReported)
    assert (taken.action, machine.state.status) == ("note", "queued")
    assert machine.feed(report(machine)) == [], "it did nothing yet that could be alike"
    machine.admit()
    machine.decide(respond())
    assert machine.finished.status == "completed"
    assert machine.feed(report(machine)) == []
