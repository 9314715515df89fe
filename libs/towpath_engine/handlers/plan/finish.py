"""How a plan or workflow ends: what is under way is closed, what was not begun is skipped.

However a composed run ends, its log says what came of every step, and its end carries the output so far.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanTrigger
from towpath_engine.handlers.plan_status import OVER, move
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.plan_results import Outcome, error, outcome_of, output_of, skipped
from towpath_engine.state.run import Status

_TRIGGERS: dict[str, PlanTrigger] = {Status.TIMED_OUT: "timeout", Status.CANCELLED: "cancelled"}


def close_composition(t: TransitionBuilder, status: str, reason: str, message: str) -> JsonObject:
    """Close what is open of a plan or workflow and return what the run's end tells of it; nothing of other runs."""
    held = t.state.composition
    if held is None:
        return {}
    if held.phase not in OVER:
        ended_by = error(reason, message)
        step_id = ""
        if held.phase in ("dispatching_step", "awaiting_results") and len(held.reports) <= held.at:
            outcome = outcome_of(t.state, held, ended_by)
            step_id = outcome.report.id
            tell(t, outcome)
        move(t, _TRIGGERS.get(status, "panic"), step_id=step_id, error=ended_by)
        skip_rest(t)
    held = t.state.composition or held
    return {} if held.phase == "completed" else output_of(held).model_dump(mode="json")


def tell(t: TransitionBuilder, outcome: Outcome) -> None:
    """Say in the log what came of a step, with the texts that it names stored."""
    held = t.state.composition
    for digest, text in outcome.stored.items():
        t.store(digest, text)
    index = len(held.reports) if held is not None else 0
    t.emit(ev.PlanStepEnded(index=index, report=outcome.report, bindings=outcome.bindings))


def skip_rest(t: TransitionBuilder) -> None:
    """Say of every step that was not begun that it is skipped."""
    held = t.state.composition
    if held is None or held.plan is None:
        return
    for step in held.plan.steps[len(held.reports) :]:
        tell(t, Outcome(report=skipped(step)))
