"""The end of a background run: every one has a summary, and says what became of its objective.

Whatever ends the run, its last events are its summary, Terminated and RunFinished. Where no model said the last
words, the platform does, and names the last error.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanTrigger
from towpath_engine.handlers.plan_status import OVER, move
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import TIMED_OUT
from towpath_engine.reducers.iterations import is_late
from towpath_engine.rules.plan_results import Outcome, error, outcome_of, output_of, skipped
from towpath_engine.state.background import BackgroundState
from towpath_engine.state.run import Status

ENDED = "ended"


def close_iteration(t: TransitionBuilder) -> bool:
    """Say that the current iteration is over, once; never a reason to stop."""
    background = t.state.background
    if background is not None and background.iteration:
        late = is_late(t.state, t.now)
        t.emit(
            ev.IterationCompleted(
                index=background.iteration,
                decision=background.decision,
                tools=background.tools,
                reason=TIMED_OUT if late else background.went or ENDED,
                failures=background.failures,
            )
        )
    return False


def say_last_words(t: TransitionBuilder, status: str, reason: str, message: str) -> JsonObject:
    """Close what is open and return what the run's end tells beside its status."""
    background = t.state.background
    if background is None:
        return {}
    close_iteration(t)
    if not background.summary:
        words = _report(t, background, status, reason, message)
        t.emit(ev.Summarized(summary=words, rationale=background.rationale, source="platform"))
    ended = t.state.background or background
    t.emit(
        ev.Terminated(
            index=t.state.step,
            status=status,
            reason=reason,
            failures=ended.total_failures,
            decision=ended.decision,
            tools=ended.tools,
        )
    )
    return {
        "final_summary": ended.summary,
        "deliverable": ended.deliverable,
        "iterations": t.state.step,
        "failures": ended.total_failures,
        **({"rationale": ended.rationale} if ended.rationale else {}),
        **({"response": ended.payload} if ended.payload is not None else {}),
    }


def _report(t: TransitionBuilder, background: BackgroundState, status: str, reason: str, message: str) -> str:
    """Say what is known; the plan's state is what a person looks for first."""
    told = f"The run ended as {status} ({reason})" + (f": {message}." if message else ".")
    lines = [told, f"{t.state.step} iterations, {background.total_failures} of them failed."]
    if background.last_error:
        lines.append(f"Last error: {background.last_error}")
    plan = t.state.desk.plan if t.state.desk is not None else None
    if plan is not None:
        done = sum(step.status == "done" for step in plan.steps)
        lines.append(f"Plan: {plan.status}, {done} of {len(plan.steps)} steps done.")
    return " ".join(lines)


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
