"""What a goal run does where nobody has set anything: numbers that a run must not lose in silence."""

from datetime import timedelta

import pytest
from tests.support.engine.goal_machine import asked, goal_run
from tests.support.engine.machine import use

from towpath_contracts.events import log as ev
from towpath_readings.goals import project_goal


@pytest.mark.parametrize(("score", "low"), [(0.49, True), (0.5, False)])
def test_c8_a_confidence_below_a_half_is_low(score: float, low: bool) -> None:
    """Row C8: stated beside a decision it asks for a check, and as the answer to one it opens a gate."""
    stated = goal_run("tests.failed == 0")
    stated.decide({**use("edit"), "confidence": score})
    stated.finish()
    assert asked(stated) == ("confidence" if low else "decide")
    checked = goal_run("tests.failed == 0", confidence_every=1)
    checked.decide(use("edit"))
    checked.finish()
    checked.decide({"confidence": score})
    assert [gate.gate_type for gate in checked.events(ev.GateOpened)] == ["low_confidence"] * low


def test_c2_the_task_state_has_the_last_ten_errors() -> None:
    """Row C2: `last_errors`, newest last; how many there were is `failure_count`."""
    machine = goal_run("tests.failed == 0")
    failures = [
        ev.StepResultValidated(step=1, attempt=1, source="outcome", success=False, error_signature=f"error {number}")
        for number in range(11)
    ]
    last = machine.entries[-1]
    log = [
        *machine.entries,
        *(
            ev.LogEntry(seq=last.seq + place, at=last.at + timedelta(seconds=place), event=event)
            for place, event in enumerate(failures, start=1)
        ),
    ]
    state = project_goal(machine.state.run_id, log)
    assert state is not None
    assert state.last_errors == [f"error {number}" for number in range(1, 11)]
    assert (state.failure_count, state.consecutive_failures) == (11, 11)
