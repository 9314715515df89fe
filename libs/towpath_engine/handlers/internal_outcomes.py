"""Ends calls that the run itself answers, and reports their outcome to the ledger.

What the run reports of such a call is final, also where a fence has voided its row in the ledger; so the run reports
only what it knows. A call whose child run has begun is never reported as not having happened: the child's own log
records what it did.
"""

from typing import Any

from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.internal_tools import PLATFORM_WORKER
from towpath_engine.handlers.children import created_at_ms
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.workspace import outcome_effect
from towpath_engine.state.run import StepCall, StepChild

RUN_ENDED = "run_ended"
"""The code of a call whose run has ended while its child was under way."""


def end_own_call(
    run: TransitionBuilder,
    call: StepCall,
    *,
    result: Any = None,
    failure: ToolFailure | None = None,
    child: StepChild | None = None,
    policy_version: int = 0,
) -> None:
    """End *call*, which succeeded unless it has a *failure*; the caller goes on from there.

    *child* is the run that the call started; its id contains the time when it began.
    """
    run.emit(
        ev.ToolCallFinished(
            **run.fields_of(call),
            status="succeeded" if failure is None else "failed",
            result=result,
            failure=failure,
            worker=PLATFORM_WORKER,
            policy_version=policy_version if child is None else child.policy_version,
            duration_ms=0 if child is None else max(0, int(run.now.timestamp() * 1000) - created_at_ms(child.child_id)),
        )
    )
    run.send_effect(outcome_effect(run.state.run_id, call.call.execution_id))


def close_calls_of_running_children(run: TransitionBuilder) -> None:
    """Close the calls whose children still run when the run ends; the children are told to stop."""
    for child in run.state.children:
        call = None if child.ended or child.execution_id is None else run.state.open_call(child.execution_id)
        if call is not None:
            message = (
                f"the run ended while {call.call.tool} was under way in run {child.child_id}, which is told to stop"
            )
            failure = ToolFailure(code=RUN_ENDED, message=message, began=True)
            end_own_call(run, call, failure=failure, child=child)
