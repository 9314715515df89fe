"""How a run ends.

An end raises the fence, so that nothing of the run can start any more, and closes every gate.
"""

from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_engine.handlers.final_reports import say_last_words
from towpath_engine.handlers.gates import close_all
from towpath_engine.handlers.internal_outcomes import cut_off
from towpath_engine.handlers.plan.finish import close_composition
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.iterations import HARD, iteration_due
from towpath_engine.reducers.references import carried, reference_to
from towpath_engine.state.run import RunState, Status


def stopped_by_deadline(t: TransitionBuilder) -> bool:
    """End the run if its active time is used up; says whether it did."""
    deadline = t.state.active_deadline()
    if deadline is None or deadline > t.now or asks_at_deadline(t.state):
        return t.state.background is not None and stopped_by_iteration(t)
    limit = t.state.created.timeout_ms
    finish(t, Status.TIMED_OUT, "deadline_exceeded", f"the run used its {limit} ms of active time")
    return True


def asks_at_deadline(state: RunState) -> bool:
    """Say whether a person is asked at the deadline (`overtime`)."""
    return state.goal is not None and state.created.goal_settings.on_timeout == "gate"


def stopped_by_iteration(t: TransitionBuilder) -> bool:
    """End a background run whose iteration takes twice as long as it may (feature D8); says whether it did."""
    due = iteration_due(t.state)
    if due is None or due > t.now:
        return False
    limit = t.state.created.background_settings.iteration_timeout_ms
    finish(t, Status.FAILED, "iteration_timeout", f"an iteration took more than {HARD} times {limit} ms")
    return True


def end_with_error(t: TransitionBuilder, reason: str, message: str) -> None:
    """End the run as failed."""
    finish(t, Status.FAILED, reason, message)


def _effects(t: TransitionBuilder) -> tuple[JsonObject, ...]:
    """Say what is known now of the calls of the last step (design §7, cancel); `run_effects` tells of all of them."""
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
