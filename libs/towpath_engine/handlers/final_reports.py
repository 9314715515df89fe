"""Closes what is open in a background run or a plan when the run ends, and returns what its end reports of it.

Of a goal that was not reached the end of a child says how far it came, where its parent wants to know. However a
background run ends, its last events are its summary, Terminated and RunFinished; where no model wrote a
summary, the platform writes one and names the last error. However a plan ends, its log has the outcome of every step,
and the end carries the output so far.
"""

from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.events.plan_events import PlanTrigger
from towpath_engine.handlers.plan_status import FINAL_PLAN_STATES, move_plan
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.background import TIMED_OUT
from towpath_engine.reducers.iterations import is_late
from towpath_engine.reducers.references import INLINE_BYTES, PREVIEW_CHARS, size_of, text_of
from towpath_engine.rules.criteria import shown_criteria
from towpath_engine.rules.plan_results import FinishedPlanStep, error, outcome_of, output_of, skipped
from towpath_engine.state.background import BackgroundRunState
from towpath_engine.state.run import RunState, Status

ENDED = "ended"


def close_iteration(run: TransitionBuilder) -> bool:
    """Record the end of the current iteration, once. It is never a reason to stop."""
    background = run.state.background
    if background is not None and background.iteration:
        late = is_late(run.state, run.now)
        run.emit(
            ev.IterationCompleted(
                index=background.iteration,
                decision=background.decision,
                tools=background.tools,
                reason=TIMED_OUT if late else background.went or ENDED,
                failures=background.failures,
            )
        )
    return False


def close_background_run(run: TransitionBuilder, status: str, reason: str, message: str) -> JsonObject:
    """Close what is open and return what the end of the run reports beside its status."""
    background = run.state.background
    if background is None:
        return {}
    close_iteration(run)
    if not background.summary:
        words = _report(run, background, status, reason, message)
        run.emit(ev.FinalSummaryRecorded(summary=words, rationale=background.rationale, source="platform"))
    ended = run.state.background or background
    run.emit(
        ev.BackgroundRunEnded(
            index=run.state.step,
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
        "iterations": run.state.step,
        "failures": ended.total_failures,
        **({"rationale": ended.rationale} if ended.rationale else {}),
        **({"response": ended.payload} if ended.payload is not None else {}),
    }


def _report(run: TransitionBuilder, background: BackgroundRunState, status: str, reason: str, message: str) -> str:
    """Return a summary of what is known, with the state of the plan."""
    ending = f"The run ended as {status} ({reason})" + (f": {message}." if message else ".")
    lines = [ending, f"{run.state.step} iterations, {background.total_failures} of them failed."]
    if background.last_error:
        lines.append(f"Last error: {background.last_error}")
    plan = run.state.desk.plan if run.state.desk is not None else None
    if plan is not None:
        done = sum(step.status == "done" for step in plan.steps)
        lines.append(f"Plan: {plan.status}, {done} of {len(plan.steps)} steps done.")
    return " ".join(lines)


def report_goal(state: RunState) -> JsonObject:
    """Return how far a goal came that was not reached, as its parent wants to know; nothing for any other run."""
    parent, goal = state.created.parent, state.goal
    if parent is None or goal is None or not parent.wants_criteria:
        return {}
    last = state.last_output
    return {
        "goal": "not_reached",
        "criteria": shown_criteria(state, goal),
        "progress": goal.progress,
        "last_output": last if size_of(last) <= INLINE_BYTES else text_of(last)[:PREVIEW_CHARS],
    }


_TRIGGERS: dict[str, PlanTrigger] = {Status.TIMED_OUT: "timeout", Status.CANCELLED: "cancelled"}


def close_plan_run(run: TransitionBuilder, status: str, reason: str, message: str) -> JsonObject:
    """Close what is open in a plan or workflow and return its output; nothing for other runs."""
    held = run.state.composition
    if held is None:
        return {}
    if held.phase not in FINAL_PLAN_STATES:
        ended_by = error(reason, message)
        step_id = ""
        if held.phase in ("dispatching_step", "awaiting_results") and len(held.reports) <= held.at:
            outcome = outcome_of(run.state, held, ended_by)
            step_id = outcome.report.id
            report_step_end(run, outcome)
        move_plan(run, _TRIGGERS.get(status, "panic"), step_id=step_id, error=ended_by)
        skip_remaining_steps(run)
    held = run.state.composition or held
    return {} if held.phase == "completed" else output_of(held).model_dump(mode="json")


def report_step_end(run: TransitionBuilder, outcome: FinishedPlanStep) -> None:
    """Record the end of a step, and store the texts that its report refers to."""
    held = run.state.composition
    for digest, text in outcome.stored.items():
        run.store_text(digest, text)
    index = len(held.reports) if held is not None else 0
    run.emit(ev.PlanStepEnded(index=index, report=outcome.report, bindings=outcome.bindings))


def skip_remaining_steps(run: TransitionBuilder) -> None:
    """Record every step that was not begun as skipped."""
    held = run.state.composition
    if held is None or held.plan is None:
        return
    for step in held.plan.steps[len(held.reports) :]:
        report_step_end(run, FinishedPlanStep(report=skipped(step)))
