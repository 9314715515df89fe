"""Results of the steps of a plan or workflow: their reports, results by name, and the output of the plan.

A status follows from the ends of the children alone. Results are bounded: a value that does not fit becomes a
reference. An error shows the code and message of a child's end, and nothing from inside the child.
"""

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.plan import PlanAgentCall, PlanRunResult, PlanStep, PlanStepResult, StepStatus
from towpath_contracts.text import truncate
from towpath_engine.reducers.references import INLINE_BYTES, is_reference, reference_to, size_of, text_of
from towpath_engine.rules.templates import MAX_INPUT
from towpath_engine.state.plan import PlanRunState
from towpath_engine.state.run import RunState, Status, StepChild

RESULTS_BYTES = 256 * 1024
"""Of all results of one plan together."""

ERROR_CHARS = 2_000


@dataclass(kw_only=True)
class FinishedPlanStep:
    """What came of a step: its report, what it adds to the results, and the texts that are references in them."""

    report: PlanStepResult
    bindings: JsonObject = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)


def succeeded(child: StepChild) -> bool:
    """Return whether a child of a step gave its answer."""
    return child.ended and child.status == Status.COMPLETED


def failed(child: StepChild) -> bool:
    """Return whether a child ended without an answer, and not because its step wanted it no longer."""
    return child.ended and not succeeded(child) and not _was_stopped(child)


def _was_stopped(child: StepChild) -> bool:
    return bool(child.stopped) and child.status == Status.CANCELLED


def current_step(held: PlanRunState) -> PlanStep:
    """Return the step that was started last; raises ValueError before the first."""
    if held.plan is None or held.at < 0:
        msg = "no step of a plan has begun"
        raise ValueError(msg)
    return held.plan.steps[held.at]


def outcome_of(state: RunState, held: PlanRunState, ended_by: JsonObject | None = None) -> FinishedPlanStep:
    """Return what came of the current step; *ended_by* is the error of a run that ends while it is under way."""
    step = current_step(held)
    keeper = _Keeper(RESULTS_BYTES - size_of(held.results))
    reports = tuple(
        _report(keeper, step, place, call, state.children[place] if place < len(state.children) else None, ended_by)
        for place, call in enumerate(step.calls)
    )
    status = _status(step, reports, cut_short=ended_by is not None)
    report = reports[0] if step.type == "agent" else _block(step, status, reports)
    if step.type == "agent" and report.status != status:
        report = report.model_copy(update={"status": status, "error": ended_by})
    return FinishedPlanStep(report=report, bindings=_bindings(step, reports), stored=keeper.stored)


def _block(step: PlanStep, status: StepStatus, reports: tuple[PlanStepResult, ...]) -> PlanStepResult:
    error = next((report.error for report in reports if report.error is not None), None)
    return PlanStepResult(
        id=step.id, type="parallel", status=status, error=None if status == "success" else error, children=reports
    )


def _report(
    keeper: "_Keeper",
    step: PlanStep,
    place: int,
    call: PlanAgentCall,
    child: StepChild | None,
    ended_by: JsonObject | None,
) -> PlanStepResult:
    alone = step.type == "agent"
    status: StepStatus = "skipped"
    outputs, error = None, None
    if child is not None and succeeded(child):
        status, outputs = "success", keeper.kept(child.final)
    elif child is not None and not _was_stopped(child):
        status, error = "failed", error_of(child) if child.ended else ended_by
    return PlanStepResult(
        id=step.id if alone else f"{step.id}[{place}]",
        type="agent",
        status=status,
        agent_key=call.agent_key,
        exec_id="" if child is None else str(child.child_id),
        outputs=outputs,
        error=error,
    )


def error_of(child: StepChild) -> JsonObject:
    """Return the error of a child that ended without an answer: its code and its message."""
    stated = child.final.get("message") if isinstance(child.final, dict) else None
    message = stated if isinstance(stated, str) and stated else f"the run of {child.agent_key} ended as {child.status}"
    return error(child.reason or child.status, message)


def error(code: str, message: str) -> JsonObject:
    """Return an error of a step."""
    return {"code": code, "message": truncate(message, ERROR_CHARS)}


def _status(step: PlanStep, reports: tuple[PlanStepResult, ...], *, cut_short: bool) -> StepStatus:
    """Success without failures, failed without successes, else partial; of `first_success` one success is enough.

    In a run that ends meanwhile, what was not begun counts as failed.
    """
    successes = sum(report.status == "success" for report in reports)
    failures = sum(report.status == "failed" or (cut_short and report.status == "skipped") for report in reports)
    if successes and step.parallel is not None and step.parallel.merge_strategy == "first_success":
        return "success"
    if not successes:
        return "failed"
    return "partial" if failures else "success"


def _bindings(step: PlanStep, reports: tuple[PlanStepResult, ...]) -> JsonObject:
    """Return results by name: each under its key; without one under the id of the step, in a block by its place."""
    named: JsonObject = {}
    unnamed: JsonObject = {}
    for place, (call, report) in enumerate(zip(step.calls, reports, strict=True)):
        if report.status == "success":
            (named if call.result_key else unnamed)[call.result_key or str(place)] = report.outputs
    if unnamed:
        named[step.id] = unnamed["0"] if step.type == "agent" else unnamed
    return named


def skipped(step: PlanStep) -> PlanStepResult:
    """Return the report of a step that was never begun."""
    key = step.agent.agent_key if step.agent is not None else ""
    return PlanStepResult(id=step.id, type=step.type, status="skipped", agent_key=key)


def output_of(held: PlanRunState) -> PlanRunResult:
    """Return what the plan gives: every step in its order, the results, and what went wrong where it did not succeed.

    Agents that failed although another one was enough (`first_success`) are listed with their steps.
    """
    faults: list[JsonObject] = [
        {"step_id": one.id, "error": one.error}
        for report in held.reports
        for one in (report.children or (report,))
        if one.error is not None
    ]
    if not faults and held.phase == "failed" and held.error is not None:
        faults = [{"step_id": "", "error": held.error}]
    success = held.phase == "completed"
    return PlanRunResult(
        success=success, steps=held.reports, bindings=held.results, errors=() if success else tuple(faults)
    )


def stage_answer(state: RunState, held: PlanRunState) -> str:
    """Return what the stage that has just ended gives the next one: its answers in the order of their names.

    They are whole, as the children handed them over, unless they are too large together for an agent to be asked.
    """
    calls = current_step(held).calls
    answers = [(call.agent_key, child.final) for call, child in zip(calls, state.children, strict=False)]
    whole = _joined(answers)
    if len(whole) <= MAX_INPUT:
        return whole
    report = held.reports[-1]
    return _joined([(one.agent_key, one.outputs) for one in report.children or (report,)])


def _joined(answers: list[tuple[str, Any]]) -> str:
    return "\n\n".join(text_of(answer) for _name, answer in sorted(answers, key=itemgetter(0)))


class _Keeper:
    """Keeps values within what is left for results; what does not fit becomes a reference."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.stored: dict[str, str] = {}

    def kept(self, value: Any) -> Any:
        """Return *value*, or the reference that stands for it."""
        if size_of(value) > min(self._left, INLINE_BYTES) and not is_reference(value):
            value, text = reference_to(value)
            self.stored[value["blob"]] = text
        if size_of(value) > self._left:
            value = {**value, "preview": ""}
        self._left -= size_of(value)
        return value
