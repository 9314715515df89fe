"""Goal runs that ask a person when their time is used up, instead of ending.

Only a goal that says `on_timeout: gate` is asked about, and at its deadline, whatever is under way. A call that
has begun comes to its end meanwhile. A question to a model is waited for no longer: a later answer is not used, and the
question is asked once more when a person lets the run go on, which gives it its whole time once more.
"""

from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.iterations import HARD, iteration_due
from towpath_engine.state.run import RunState, Status


def stop_at_deadline(run: TransitionBuilder) -> bool:
    """End the run if its active time is used up; says whether it did."""
    deadline = run.state.active_deadline()
    if deadline is None or deadline > run.now or asks_at_deadline(run.state):
        return run.state.background is not None and stop_late_iteration(run)
    limit = run.state.created.timeout_ms
    finish(run, Status.TIMED_OUT, "deadline_exceeded", f"the run used its {limit} ms of active time")
    return True


def asks_at_deadline(state: RunState) -> bool:
    """Say whether a person is asked at the deadline (`overtime`)."""
    return state.goal is not None and state.created.goal_settings.on_timeout == "gate"


def stop_late_iteration(run: TransitionBuilder) -> bool:
    """End a background run whose iteration takes twice as long as it may; says whether it did."""
    due = iteration_due(run.state)
    if due is None or due > run.now:
        return False
    limit = run.state.created.background_settings.iteration_timeout_ms
    finish(run, Status.FAILED, "iteration_timeout", f"an iteration took more than {HARD} times {limit} ms")
    return True


def ask_at_deadline(run: TransitionBuilder) -> bool:
    """Ask a person whether a run may go on whose time is used up; says whether it waits."""
    deadline = run.state.active_deadline()
    if not asks_at_deadline(run.state) or deadline is None or deadline > run.now:
        return False
    limit = run.state.created.timeout_ms
    open_run_gate(run, OUT_OF_TIME, OUT_OF_TIME, f"the run used its {limit} ms of active time", {"timeout_ms": limit})
    return True
