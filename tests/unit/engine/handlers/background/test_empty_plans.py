"""A background run acts once its plan says what is to be done."""

from tests.support.engine.background_machine import BackgroundRun
from tests.support.engine.machine import use

from towpath_contracts.events import log as ev


def test_d5_a_plan_without_steps_is_none() -> None:
    """D5: plan required before acting."""
    run = BackgroundRun(plan_needs_steps=True)
    run.act("plan_setup", objective="Review", steps=[])
    run.decide(use("lint"))
    refused = run.events(ev.DecisionRefused)[-1]
    assert refused.code == "plan_required" and "plan_add_step" in refused.feedback
    run.act("plan_add_step", title="look")
    run.decide(use("lint"))
    assert run.state.calls[-1].call.tool == "lint"
    earlier = BackgroundRun()
    earlier.act("plan_setup", objective="Review", steps=[])
    earlier.decide(use("lint"))
    assert earlier.state.calls[-1].call.tool == "lint", "logs that do not say otherwise go on as they did"
