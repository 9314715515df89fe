"""Background runs: an objective that is planned, pursued, reflected upon and delivered.

A model that claims to be done, or gives up, ends the run before anything else is looked at. Otherwise `STOP_CHECKS`
(`handlers.steps`) is the order: the deadline; a completed plan (`BACKGROUND_CHECKS`); loops, the watchdog, the budget;
failures in a row (`BACKGROUND_LIMITS`); the number of iterations.
"""

from collections.abc import Callable

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import AbandonInstruction, FinishInstruction
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.background.conclude import conclude, request_summary, take_summary
from towpath_engine.handlers.background.reflect import request_reflection, take_reflection
from towpath_engine.handlers.final_reports import close_iteration
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.background import plan_is_completed
from towpath_engine.state.run import Status


def finish_background(run: TransitionBuilder, instruction: FinishInstruction) -> bool:
    """Take a model's explicit completion; the run ends once its summary is there."""
    conclude(run, "completed", "responded", payload=instruction.payload)
    return False


def give_up_background(run: TransitionBuilder, instruction: AbandonInstruction) -> bool:
    """Take an abandonment; it has a rationale."""
    conclude(run, "abandoned", "abandoned", rationale=instruction.rationale)
    return False


def stop_when_plan_completed(run: TransitionBuilder) -> bool:
    """Conclude a run whose plan is completed where no model reflects upon it; return whether it did."""
    if run.state.created.background_settings.enable_reflection or not plan_is_completed(run.state):
        return False
    conclude(run, "completed", "plan_completed")
    return request_summary(run)


def stop_after_failures(run: TransitionBuilder) -> bool:
    """End a run with too many failures in a row; return whether it ended."""
    background, limit = run.state.background, run.state.created.background_settings.max_failures
    if background is None or background.failures < limit:
        return False
    message = f"{background.failures} iterations in a row have failed; the last error was: {background.last_error}"
    finish(run, Status.FAILED, "max_failures_exceeded", message)
    return True


BACKGROUND_PHASES: tuple[Callable[[TransitionBuilder], bool], ...] = (request_summary, request_reflection)
BACKGROUND_CHECKS: tuple[Callable[[TransitionBuilder], bool], ...] = (close_iteration, stop_when_plan_completed)
BACKGROUND_LIMITS: tuple[Callable[[TransitionBuilder], bool], ...] = (stop_after_failures,)
BACKGROUND_ANSWERS: dict[DecisionKind, Callable[[TransitionBuilder, JsonObject | None], None]] = {
    DecisionKind.REFLECT: take_reflection,
    DecisionKind.SUMMARIZE: take_summary,
}
