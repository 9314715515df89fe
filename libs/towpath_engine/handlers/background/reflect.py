"""Reflection: after a failure, a late iteration or a completed plan the model is asked how to go on.

A reflection proposes and the platform follows only what may be: a plan is given up only where that is allowed and
justified, a run is abandoned only with a rationale, and is complete only when its plan is.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_engine.handlers.background.conclude import conclude
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import FAILED
from towpath_engine.reducers.iterations import is_late
from towpath_engine.rules.background import plan_is_completed, reasons

UNREADABLE = "unreadable"


def reflect(t: TransitionBuilder) -> bool:
    """Ask for a reflection where there is a reason to; says whether it did."""
    settings, late = t.state.created.background_settings, is_late(t.state, t.now)
    if not settings.enable_reflection or str(DecisionKind.REFLECT) in t.state.assessed:
        return False
    if not late and not reasons(t.state):
        return False
    if late:
        told = f"This iteration has taken longer than {settings.iteration_timeout_ms} ms."
        t.emit(ev.NoteAdded(step=t.state.step, text=told))
    request_assessment(t, DecisionKind.REFLECT)
    return True


def reflected(t: TransitionBuilder, answer: JsonObject | None) -> None:
    """Take the answer of a reflection; one that can't be read changes nothing, and the run goes on."""
    if answer is None:
        _tell(t, UNREADABLE, {}, "the reflection could not be read")
        return
    verdict = answer["verdict"]
    refusal = _refusal(t, verdict, answer["rationale"])
    _tell(t, verdict, answer, refusal)
    if refusal:
        return
    if verdict == "abandon":
        conclude(t, "abandoned", "abandoned", rationale=answer["rationale"])
    elif verdict == "complete":
        conclude(t, "completed", "plan_completed")


def _refusal(t: TransitionBuilder, verdict: str, rationale: str) -> str:
    """Say why a verdict is not followed; empty where it is."""
    match verdict:
        case "retry":
            failed = t.state.background is not None and (t.state.background.went == FAILED or is_late(t.state, t.now))
            return "" if failed else "nothing has failed"
        case "reset_plan":
            if not t.state.created.background_settings.allow_plan_reset:
                return "the plan of this run may not be reset"
            return "" if rationale else "a plan is reset only with a rationale"
        case "abandon":
            return "" if rationale else "the run is abandoned only with a rationale"
        case "complete":
            return "" if plan_is_completed(t.state) else "steps of the plan are not done"
        case _:
            return ""


def _tell(t: TransitionBuilder, verdict: str, answer: JsonObject, refusal: str) -> None:
    t.emit(
        ev.Reflected(
            step=t.state.step,
            verdict=verdict,
            note=answer.get("note", ""),
            rationale=answer.get("rationale", ""),
            followed=not refusal,
            refusal=refusal,
        )
    )
