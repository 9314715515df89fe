"""Makes the changes to the task of a fork that whoever forks a run asks for; every reason against them is told at once.

Only what a new task could say as well is changed, and nothing that gives rights: the network version and the grants are
those of the run that is forked.
"""

from typing import Any, TypeVar

from pydantic import BaseModel

from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.events.log import RunCreated
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_contracts.runs.forks import ForkChanges, ForkOptions
from towpath_orchestrator.core.run_times import times_of
from towpath_orchestrator.settings import OrchestratorSettings

_SCRIPTED = "scripted:"
_SAID_ITSELF = ("network", "swarm")  # kinds whose task is the message; others say what they are for elsewhere

T = TypeVar("T", bound=BaseModel)


def fork_problem(options: ForkOptions, task: RunCreated, done: int, settings: OrchestratorSettings) -> Problem | None:
    """Return every reason why the changes can't be made to *task*, of which *done* steps are taken over."""
    changes = options.changes or ForkChanges()
    found: list[tuple[str, str, str]] = []
    if changes.model is not None and (fault := model_fault(changes.model)):
        found.append(("model", "model_unknown", fault))
    if changes.model is not None and options.script is not None and not changes.model.startswith(_SCRIPTED):
        found.append(("model", "script_unplayed", f"{changes.model!r} does not play scripts, and there is one"))
    if changes.max_steps is not None and changes.max_steps <= done:
        found.append(("max_steps", "limit_exceeded", f"{done} steps are done already; name more"))
    longest = times_of(settings).longest_ms
    if changes.timeout_ms is not None and changes.timeout_ms > longest:
        found.append(("timeout_ms", "limit_exceeded", f"a run has at most {longest} ms of active time here"))
    if changes.budget is not None and not options.fresh_budget:
        detail = "the two share what is left of one budget; a fresh_budget can be another one"
        found.append(("budget", "budget_shared", detail))
    if changes.user_message is not None and (done or task.kind not in _SAID_ITSELF):
        why = f"{done} steps were taken for the other message" if done else f"a {task.kind} run has none of its own"
        found.append(("user_message", "message_answered", f"{why}; tell the model by a note"))
    if not found:
        return None
    errors = tuple(ProblemDetail(pointer=f"/changes/{name}", code=code, detail=why) for name, code, why in found)
    return problem("request_invalid", tell_faults(errors), errors=errors)


def changed_task(task: RunCreated, changes: ForkChanges) -> RunCreated:
    """Return *task* with the changes. Another model than one that plays scripts is asked in the place of the script."""
    plain = ("user_message", "model", "max_steps", "max_tool_errors", "timeout_ms")
    update: dict[str, Any] = {name: getattr(changes, name) for name in plain if getattr(changes, name) is not None}
    if changes.model is not None:
        update["planner_model"] = None
        if not changes.model.startswith(_SCRIPTED):
            update["script_digest"] = None
    for name in ("budget", "model_settings"):
        if (given := getattr(changes, name)) is not None:
            update[name] = _laid_over(getattr(task, name), given)
    return task.model_copy(update=update)


def changed_names(changes: ForkChanges) -> list[str]:
    """Return what is changed, for the audit."""
    return sorted(changes.model_dump(exclude_none=True))


def _laid_over(before: T | None, given: T) -> T:
    """Return *given* with what it leaves at its default as *before* had it."""
    known = {} if before is None else before.model_dump(exclude_none=True)
    return type(given).model_validate({**known, **given.model_dump(exclude_defaults=True)})
