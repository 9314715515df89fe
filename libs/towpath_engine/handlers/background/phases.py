"""Background runs: an objective that is planned, pursued, reflected upon and handed over.

The order matters. A model's own completion comes first, then the plan that is completed and confirmed; then
what stops any run; then failures in a row, then the number of iterations.
"""

from collections.abc import Callable

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import Finish, GiveUp
from towpath_contracts.decisions.request import DecisionKind
from towpath_engine.handlers.background.conclude import conclude, last_words, summarized
from towpath_engine.handlers.background.reflect import reflect, reflected
from towpath_engine.handlers.final_reports import close_iteration
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.background import plan_is_completed
from towpath_engine.state.run import Status


def background_done(t: TransitionBuilder, instruction: Finish) -> bool:
    """Take a model's explicit completion; the run ends once its last words are there."""
    conclude(t, "completed", "responded", payload=instruction.payload)
    return False


def background_given_up(t: TransitionBuilder, instruction: GiveUp) -> bool:
    """Take an abandonment; it has a rationale."""
    conclude(t, "abandoned", "abandoned", rationale=instruction.rationale)
    return False


def plan_completed(t: TransitionBuilder) -> bool:
    """Conclude a run whose plan is completed where nobody reflects upon it; says whether it did."""
    if t.state.created.background_settings.enable_reflection or not plan_is_completed(t.state):
        return False
    conclude(t, "completed", "plan_completed")
    return last_words(t)


def too_many_failures(t: TransitionBuilder) -> bool:
    """End a run that fails again and again; says whether it did."""
    background, limit = t.state.background, t.state.created.background_settings.max_failures
    if background is None or background.failures < limit:
        return False
    message = f"{background.failures} iterations in a row have failed; the last error was: {background.last_error}"
    finish(t, Status.FAILED, "max_failures_exceeded", message)
    return True


BACKGROUND_PHASES: tuple[Callable[[TransitionBuilder], bool], ...] = (last_words, reflect)
BACKGROUND_CHECKS: tuple[Callable[[TransitionBuilder], bool], ...] = (close_iteration, plan_completed)
BACKGROUND_LIMITS: tuple[Callable[[TransitionBuilder], bool], ...] = (too_many_failures,)
BACKGROUND_ANSWERS: dict[DecisionKind, Callable[[TransitionBuilder, JsonObject | None], None]] = {
    DecisionKind.REFLECT: reflected,
    DecisionKind.SUMMARIZE: summarized,
}
