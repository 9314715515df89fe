"""Ends a run: raises the fence, so that nothing of the run can start any more, and closes every gate."""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_engine.handlers.final_reports import close_background_run, close_plan_run, report_goal
from towpath_engine.handlers.gates import close_all_gates
from towpath_engine.handlers.internal_outcomes import close_calls_of_running_children
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.references import inline_or_reference, reference_to
from towpath_engine.state.run import Status


def end_with_error(run: TransitionBuilder, reason: str, message: str) -> None:
    """End the run as failed."""
    finish(run, Status.FAILED, reason, message)


def _effects(run: TransitionBuilder) -> tuple[JsonObject, ...]:
    """Return what is known now of the calls of the last step; `run_effects` lists all calls of the run."""
    return tuple(
        {"execution_id": str(c.call.execution_id), "tool": c.call.tool, "outcome": c.outcome or "unknown"}
        for c in run.state.calls
    )


def finish(run: TransitionBuilder, status: Status, reason: str, message: str, final: JsonObject | None = None) -> None:
    """End the run; the fence goes up, so that nothing of it can start any more."""
    error: dict[str, Any] = {"status": "error", "error": reason, "message": message}
    fence = run.state.fence if status is Status.CANCELLED else run.state.fence + 1
    close_all_gates(run, "the run ended")
    close_calls_of_running_children(run)
    details = close_background_run(run, str(status), reason, message)
    details |= close_plan_run(run, str(status), reason, message)
    details |= {} if status is Status.COMPLETED else report_goal(run.state)
    if final is None:
        final = {"status": str(status)} if details and status is Status.COMPLETED else error
    final = {**final, **details}
    if run.state.created.parent is not None and inline_or_reference(final) is not final:
        reference, text = reference_to(final)
        run.store_text(reference["blob"], text)  # the parent gets the reference alone
    run.emit(
        ev.RunFinished.model_validate(
            {
                "status": str(status),
                "reason": reason,
                "final": final,
                "last_output": run.state.last_output,
                "steps": run.state.step,
                "fence": fence,
                "usage": run.state.usage,
                "cost": run.state.cost,
                "effects": () if status is Status.COMPLETED else _effects(run),
            }
        )
    )
    if status is not Status.CANCELLED:
        for pending in run.state.pending:
            run.send_effect(pending.effect_id)
