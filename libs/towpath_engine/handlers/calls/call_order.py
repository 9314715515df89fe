"""Says what follows the end of a call: the next internal call of the decision, or the next step.

The run goes on when every call of a decision is finished, in whatever order they finished. Internal calls are sent one
after another, in call order: a call is sent once those before it have an outcome (`RunState.queued`). Until then
nothing asks about it, so waiting, also for a person, costs neither messages nor active time. Its own time begins when
it is sent.
"""

from towpath_contracts.networks.child_tools import starts_child
from towpath_engine.handlers.cancel import finish_if_quiet
from towpath_engine.handlers.phases import after_calls_joined
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import Status, StepCall


def after_call(run: TransitionBuilder, ended: StepCall) -> None:
    """Go on where the last call of the step is finished; else send the call that has waited for *ended*."""
    if run.state.status is Status.CANCELLING:
        finish_if_quiet(run)
    elif all(call.status for call in run.state.calls):
        after_calls_joined(run)
    else:
        _send_next_call(run, ended)


def _send_next_call(run: TransitionBuilder, ended: StepCall) -> None:
    """Send the call that has waited for *ended*, which has its outcome now."""
    tools, queued = run.state.snapshot.all_tools, run.state.queued
    if not tools[ended.call.tool].internal:
        return
    if starts_child(ended.call.tool):
        going_on = [c.call for c in run.state.calls if not c.status and starts_child(c.call.tool)]
        for moved_up in going_on[run.state.max_parallel - 1 : run.state.max_parallel]:
            if moved_up.execution_id not in queued:  # in a run that is held no child begins
                run.send_effect(moved_up.execution_id)
        return
    for call in run.state.calls:
        later = not call.status and call.call.call_index > ended.call.call_index
        own = tools[call.call.tool].internal and not starts_child(call.call.tool)
        if later and own and call.call.execution_id not in queued:
            run.send_effect(call.call.execution_id)
