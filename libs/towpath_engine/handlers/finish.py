"""How a run ends.

An end raises the fence, so that nothing of the run can start any more, and closes every gate.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_engine.handlers.final_reports import close_composition, say_last_words
from towpath_engine.handlers.gates import close_all
from towpath_engine.handlers.internal_outcomes import cut_off
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.references import carried, reference_to
from towpath_engine.state.run import Status


def end_with_error(t: TransitionBuilder, reason: str, message: str) -> None:
    """End the run as failed."""
    finish(t, Status.FAILED, reason, message)


def _effects(t: TransitionBuilder) -> tuple[JsonObject, ...]:
    """Say what is known now of the calls of the last step; `run_effects` tells of all of them."""
    return tuple(
        {"execution_id": str(c.call.execution_id), "tool": c.call.tool, "outcome": c.outcome or "unknown"}
        for c in t.state.calls
    )


def finish(t: TransitionBuilder, status: Status, reason: str, message: str, final: JsonObject | None = None) -> None:
    """End the run; the fence goes up, so that nothing of it can start any more."""
    error: dict[str, Any] = {"status": "error", "error": reason, "message": message}
    fence = t.state.fence if status is Status.CANCELLED else t.state.fence + 1
    close_all(t, "the run ended")
    cut_off(t)
    told = say_last_words(t, str(status), reason, message)
    told |= close_composition(t, str(status), reason, message)
    if final is None:
        final = {"status": str(status)} if told and status is Status.COMPLETED else error
    final = {**final, **told}
    if t.state.created.parent is not None and carried(final) is not final:
        reference, text = reference_to(final)
        t.store(reference["blob"], text)  # the parent gets the reference alone
    t.emit(
        ev.RunFinished.model_validate(
            {
                "status": str(status),
                "reason": reason,
                "final": final,
                "last_output": t.state.last_output,
                "steps": t.state.step,
                "fence": fence,
                "usage": t.state.usage,
                "cost": t.state.cost,
                "effects": () if status is Status.COMPLETED else _effects(t),
            }
        )
    )
    if status is not Status.CANCELLED:
        for pending in t.state.pending:
            t.ask(pending.effect_id)
