"""Stops a run whose active time is used up, or asks a person first.

Only a goal with `on_timeout: gate` asks a person, and it asks at the deadline, whatever is under way. A call that has
begun goes on meanwhile. A request to a model is dropped: a later answer is not used, and the request is sent once more
when a person lets the run go on, which gives the run its whole time again.
"""

from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.iterations import HARD, iteration_due
from towpath_engine.state.run import RunState, Status


def stop_at_deadline(run: TransitionBuilder) -> bool:
    """End the run if its active time is used up; return whether it did."""
    deadline = run.state.active_deadline()
    if deadline is None or deadline > run.now or asks_at_deadline(run.state):
        return run.state.background is not None and stop_late_iteration(run)
    limit = run.state.created.timeout_ms
    finish(run, Status.TIMED_OUT, "deadline_exceeded", f"the run used its {limit} ms of active time")
    return True


def asks_at_deadline(state: RunState) -> bool:
    """Return whether a person is asked at the deadline."""
    return state.goal is not None and state.created.goal_settings.on_timeout == "gate"


def stop_late_iteration(run: TransitionBuilder) -> bool:
    """End a background run whose iteration takes twice as long as it may; return whether it did."""
    due = iteration_due(run.state)
    if due is None or due > run.now:
        return False
    limit = run.state.created.background_settings.iteration_timeout_ms
    finish(run, Status.FAILED, "iteration_timeout", f"an iteration took more than {HARD} times {limit} ms")
    return True


def ask_at_deadline(run: TransitionBuilder) -> bool:
    """Ask a person whether a run may go on whose time is used up; return whether it waits."""
    deadline = run.state.active_deadline()
    if not asks_at_deadline(run.state) or deadline is None or deadline > run.now:
        return False
    limit = run.state.created.timeout_ms
    open_run_gate(run, OUT_OF_TIME, OUT_OF_TIME, f"the run used its {limit} ms of active time", {"timeout_ms": limit})
    return True
