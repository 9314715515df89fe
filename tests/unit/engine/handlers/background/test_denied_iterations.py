"""Iterations of background runs in which calls were denied: no failures, and still reflected upon."""

from tests.support.engine.background_machine import BackgroundRun
from tests.support.engine.machine import use, use_all

from towpath_contracts.events import log as ev


def test_denied_calls_are_reflected_upon_and_end_no_run_as_failures() -> None:
    run = BackgroundRun(max_failures=2)
    run.plan()
    run.decide(use("lint", text="broken"))
    run.fail()
    run.reflect("continue")
    for number in range(6):  # what a hostile text may have a model try
        run.decide(use("lint", text=str(number)))
        run.deny(tool="lint", rule=f"forbidden-{number}")
        assert run.context.assessment is not None
        assert run.context.assessment["error"].startswith("the last action was denied: lint: ")
        run.reflect("continue")
    ended = run.events(ev.IterationCompleted)
    assert [(one.reason, one.failures) for one in ended[2:]] == [("denied", 1)] * 6, "nor is the row of failures over"
    run.decide(use_all(("lint", {"text": "a"}), ("look", {})))
    run.deny(0, tool="lint")
    run.fail(1)
    run.reflect("continue")
    assert (run.finished.reason, run.finished.final["failures"]) == ("max_failures_exceeded", 2)


def test_an_iteration_of_denials_that_takes_too_long_counts_as_a_late_one() -> None:
    run = BackgroundRun(iteration_timeout_ms=1_000)
    run.plan()
    run.decide(use("lint"), after=1.5)
    run.deny(tool="lint")
    run.reflect("continue")
    assert [one.reason for one in run.events(ev.IterationCompleted)] == ["completed", "timed_out"]
    assert run.state.background is not None
    assert run.state.background.failures == 1
