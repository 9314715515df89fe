"""Asks the model how to go on, after a failure, a late iteration or a completed plan.

A reflection proposes, and the platform follows only what is allowed: a plan is given up only where the task allows it
and a reason is given, a run is abandoned only with a rationale, and it is complete only when its plan is.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_engine.handlers.background.conclude import conclude
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import REFLECTED_UPON
from towpath_engine.reducers.iterations import is_late
from towpath_engine.rules.background import plan_is_completed, reflection_reasons

UNREADABLE = "unreadable"


def request_reflection(run: TransitionBuilder) -> bool:
    """Ask for a reflection where there is a reason; return whether it asked."""
    settings, late = run.state.created.background_settings, is_late(run.state, run.now)
    if not settings.enable_reflection or str(DecisionKind.REFLECT) in run.state.assessed:
        return False
    if not late and not reflection_reasons(run.state):
        return False
    if late:
        note = f"This iteration has taken longer than {settings.iteration_timeout_ms} ms."
        run.emit(ev.NoteAdded(step=run.state.step, text=note))
    request_assessment(run, DecisionKind.REFLECT)
    return True


def take_reflection(run: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take a reflection; one that can't be read changes nothing, and the run goes on."""
    if answer is None:
        _tell(run, UNREADABLE, {}, "the reflection could not be read")
        return
    verdict = answer["verdict"]
    refusal = _refusal(run, verdict, answer["rationale"])
    _tell(run, verdict, answer, refusal)
    if refusal:
        return
    if verdict == "abandon":
        conclude(run, "abandoned", "abandoned", rationale=answer["rationale"])
    elif verdict == "complete":
        conclude(run, "completed", "plan_completed")


def _refusal(run: TransitionBuilder, verdict: str, rationale: str) -> str:
    """Return why a verdict is not followed; empty where it is."""
    match verdict:
        case "retry":
            failed = run.state.background is not None and (
                run.state.background.went in REFLECTED_UPON or is_late(run.state, run.now)
            )
            return "" if failed else "nothing has failed"
        case "reset_plan":
            if not run.state.created.background_settings.allow_plan_reset:
                return "the plan of this run may not be reset"
            return "" if rationale else "a plan is reset only with a rationale"
        case "abandon":
            return "" if rationale else "the run is abandoned only with a rationale"
        case "complete":
            return "" if plan_is_completed(run.state) else "steps of the plan are not done"
        case _:
            return ""


def _tell(run: TransitionBuilder, verdict: str, answer: JsonObject, refusal: str) -> None:
    run.emit(
        ev.Reflected(
            step=run.state.step,
            verdict=verdict,
            note=answer.get("note", ""),
            rationale=answer.get("rationale", ""),
            followed=not refusal,
            refusal=refusal,
        )
    )
