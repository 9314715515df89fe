"""The command that goes on with a run which was stopped: by a loop, or by a limit that was used up.

It stands below the run's end, so that nobody has to look up from which step a fork begins and what it may change.
"""

from towpath_contracts.run_limits import MAX_STEPS_CAP
from towpath_contracts.runs.views import RunView

_CHANGES = {
    "loop_detected": "--note 'what to do otherwise'",
    "max_steps_exceeded": "--set max_steps={more_steps}",
    "max_tool_errors_exceeded": "--note 'what the calls lacked'",
    "deadline_exceeded": "--set timeout_ms=MS",
    "budget_exceeded": "--fresh-budget",
}
"""What a fork is given that goes on from the step at which a run ended, by the reason of the end."""

_FORKED = frozenset({"network", "swarm"})
"""Kinds of runs whose steps are decisions; what others do is done in runs below them, which are forked instead."""


def next_command(view: RunView) -> str | None:
    """Return the command that goes on with the run of *view* from where it was stopped; None where none does."""
    change = _CHANGES.get(view.reason)
    if view.status == "completed" or change is None or view.kind not in _FORKED or not view.step:
        return None
    more_steps = min(MAX_STEPS_CAP, 2 * max(view.max_steps, view.step))
    step = view.step + (view.reason == "max_steps_exceeded")  # its last step is over, and not what ended it
    return f"towpath runs fork {view.run_id} --from-step {step} {change.format(more_steps=more_steps)}"
