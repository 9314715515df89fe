"""Goal runs that ask a person when their time is used up, instead of ending.

Only a goal that says `on_timeout: gate` is asked about, and at its deadline, whatever is under way. A call that
has begun comes to its end meanwhile. A question to a model is waited for no longer: a later answer is not used, and the
question is asked once more when a person lets the run go on, which gives it its whole time once more.
"""

from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_engine.handlers.finish import asks_at_deadline
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder


def stopped_by_time(t: TransitionBuilder) -> bool:
    """Ask a person whether a run may go on whose time is used up; says whether it waits."""
    deadline = t.state.active_deadline()
    if not asks_at_deadline(t.state) or deadline is None or deadline > t.now:
        return False
    limit = t.state.created.timeout_ms
    open_run_gate(t, OUT_OF_TIME, OUT_OF_TIME, f"the run used its {limit} ms of active time", {"timeout_ms": limit})
    return True
