"""A task as Python says it: its keywords, as editors and type checkers know them, and the message that they become.

Keywords are the fields of SubmitTask, with what the SDK takes in their place: a `Goal`, folders of this host, a
deadline in words. `tests/unit/towpath/client/test_keywords.py` holds them against the message.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

from pydantic import ValidationError

from towpath.agents.operations import move_json
from towpath.declared_places import DeclaredPlace, calling_place, checks_fields
from towpath.errors import RefusedError
from towpath.foreign_names import TASK_OPTIONS, WAITING_OPTIONS
from towpath.networks.ways_to_write import as_in_python, name_keyword
from towpath.tasks.goals import goal_json
from towpath.tasks.mounts import HostMount
from towpath.tasks.objectives import objective_json
from towpath.tasks.plans import plan_json
from towpath.tools.declaration import seconds
from towpath_contracts.budgets import STEP_LIMITS, TIME_LIMITS, Budget
from towpath_contracts.problems.input_faults import details_of, in_plain_words, summary_of
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.tasks import SubmitTask

if TYPE_CHECKING:
    from uuid import UUID

    from towpath.tasks.goals import Goal
    from towpath.tasks.objectives import Objective
    from towpath_contracts.base import JsonObject
    from towpath_contracts.decisions.attachments import TaskAttachment
    from towpath_contracts.decisions.earlier_turns import TaskTurn
    from towpath_contracts.networks.background import BackgroundRunTask, WorkspaceMount
    from towpath_contracts.networks.goal import GoalTask
    from towpath_contracts.networks.model_settings import ModelSettings
    from towpath_contracts.tasks import TaskGrantRule

__all__ = ["Budget", "RunKeywords", "TaskKeywords", "task_of"]

_IN_A_BUDGET = {
    **dict.fromkeys(STEP_LIMITS, "steps are limited by max_steps=, of the run or of the network"),
    **dict.fromkeys(TIME_LIMITS, "time is limited by deadline=, of the run, such as '10m'"),
}
"""Keywords of a budget elsewhere, and what there is in their place."""

if not TYPE_CHECKING:  # type checkers know it as the part of a message that it is
    Budget = checks_fields(Budget, _IN_A_BUDGET, __name__)


class TaskKeywords(TypedDict, total=False):
    """Options of submit, run, stream and reply.

    `deadline` is the time that the run may be active, in seconds or as text such as "30m"; `timeout_ms` says the same
    in milliseconds. `goal` may be a sentence, and `background` the objective. `idempotency_key` makes a repeated
    submit the same run.
    """

    version: int | None
    agent_key: str | None
    system_params: "JsonObject"
    quoted_inputs: Mapping[str, str]
    max_steps: int | None
    max_tool_errors: int | None
    timeout_ms: int | None
    deadline: str | float | None
    model: str | None
    script: Sequence[Any] | None
    grant: "Sequence[TaskGrantRule | JsonObject] | None"
    labels: Mapping[str, str]
    priority: int
    debug: bool
    single_instruction: bool
    response_schema: "JsonObject | None"
    goal: "Goal | GoalTask | JsonObject | str | None"
    background: "Objective[Any] | BackgroundRunTask | JsonObject | str | None"
    mounts: "Sequence[HostMount | WorkspaceMount | JsonObject]"
    budget: "Budget | JsonObject | None"
    model_settings: "ModelSettings | JsonObject | None"
    attachments: "Sequence[TaskAttachment | JsonObject]"
    messages: "Sequence[TaskTurn | JsonObject]"
    continues: "UUID | str | None"
    idempotency_key: str | None
    traceparent: str | None


class RunKeywords(TaskKeywords, total=False):
    """Options of `run.sync`: those of a task, where it is sent, and how long its end is waited for."""

    server: str | None
    api_key: str | None
    caller: str
    timeout: str | float | None


def task_of(network: str, message: str, options: dict[str, Any], *, without_end: bool = False) -> SubmitTask:
    """Return the task; raises RefusedError `request_invalid` with every problem of form at once, and the caller's line.

    *without_end* says that the call does not wait for the end of the run, and so has no options for that.
    """
    written = {"network": network, "user_message": message, **options}
    if (deadline := written.pop("deadline", None)) is not None:
        written["timeout_ms"] = _deadline_ms(deadline)
    if "goal" in written:
        written["goal"] = goal_json(written["goal"])
    if "background" in written:
        written["background"] = objective_json(written["background"])
    if "plan" in written:
        written["plan"] = plan_json(written["plan"])
    if written.get("script") is not None:
        written["script"] = _script_json(written["script"])
    if "mounts" in written:
        written["mounts"] = [one.to_json() if isinstance(one, HostMount) else one for one in written["mounts"]]
    if written.get("idempotency_key") is None:
        written["idempotency_key"] = f"client-{uuid4().hex}"
    if written.get("traceparent") is None and (span := _current_span()) is not None:
        written["traceparent"] = span.traceparent
    try:
        return SubmitTask.model_validate(written)
    except ValidationError as error:
        details = tuple(
            _in_own_words(one, waits=not without_end) for one in in_plain_words(details_of(error, SubmitTask))
        )
        raise RefusedError(_refusal(details, calling_place())) from None


def _refusal(details: tuple[ProblemDetail, ...], place: DeclaredPlace | None) -> Problem:
    """Return `request_invalid` with every fault; a program is told its line and keywords, as nothing was sent yet."""
    if place is None:
        return problem("request_invalid", summary_of(details), errors=details)
    told = tuple(one.model_copy(update={"detail": _in_keywords(one)}) for one in details)
    remedy = "Correct it, and try again." if len(told) == 1 else "Correct each place that is named, and try again."
    said = "; ".join(dict.fromkeys(one.detail for one in told))
    return problem("request_invalid", f"{place}: {said}", errors=told, remedy=remedy)


def _in_keywords(one: ProblemDetail) -> str:
    """Return what is said of *one* to who wrote keywords: of an unknown one as every call of the SDK says it."""
    path = one.pointer.split("/")[1:]
    if one.code == "extra_forbidden" and len(path) == 1:
        return one.detail.replace("there is no field", "a task takes no", 1)
    return name_keyword(as_in_python(one.detail), path)


_BESIDE = ("plan", *WAITING_OPTIONS)
"""Options that `run` and its forms take beside TaskKeywords."""

_MAPPING = frozenset({"model_type", "dict_type", "model_attributes_type"})
_FOR_EXAMPLE = {
    "budget": "budget=Budget(usd=0.5)",
    "goal": 'goal="Every order is shipped"',
    "labels": 'labels={"team": "billing"}',
    "model_settings": 'model_settings={"temperature": 0.2}',
    "quoted_inputs": 'quoted_inputs={"mail": "…"}',
    "response_schema": 'response_schema={"type": "object"}',
    "system_params": 'system_params={"customer_id": "c-17"}',
}
"""How the options are written that take keys and values."""


def _in_own_words(one: ProblemDetail, *, waits: bool) -> ProblemDetail:
    """Return *one* in the words of Python: the message is no `user_message`, and options have examples."""
    name = one.pointer.removeprefix("/")
    if "user_message" in (name, one.detail.partition(" ")[0]):
        detail = one.detail.replace("user_message", "message")
        return one.model_copy(update={"pointer": one.pointer.replace("user_message", "message"), "detail": detail})
    if one.code in _MAPPING and name in _FOR_EXAMPLE:
        return one.model_copy(update={"detail": f"{one.detail}, such as {_FOR_EXAMPLE[name]}"})
    return _with_own_options(one, waits=waits)


def _with_own_options(one: ProblemDetail, *, waits: bool) -> ProblemDetail:
    """Say of an unknown option of a task what was meant, among all that Python takes and what other frameworks have."""
    name = one.pointer.removeprefix("/")
    if one.code != "extra_forbidden" or "/" in name or "belongs inside" in one.detail:
        return one
    known = [*TaskKeywords.__annotations__, *(_BESIDE if waits else ("plan",))]
    instead = TASK_OPTIONS if waits else TASK_OPTIONS | WAITING_OPTIONS
    said = f": {instead[name]}" if name in instead else suggest_or_list(name, known)
    return one.model_copy(update={"detail": f"there is no field {name!r}{said}"})


def _script_json(given: Any) -> Any:
    """Return the decisions of a script as JSON: moves are taken too, and `script([…])` of towpath.testing."""
    entries = getattr(given, "entries", given)
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        return given
    return [move_json(one) for one in entries]


def _current_span() -> RemoteSpan | None:
    """Return the span that the caller's code runs in, where its program uses OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    context = None if api is None else api.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return None
    return RemoteSpan(trace_id=context.trace_id, span_id=context.span_id, sampled=context.trace_flags.sampled)


def _deadline_ms(deadline: str | float) -> int:
    try:
        return round(seconds(deadline) * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise RefusedError(problem("request_invalid", f"deadline: {error}")) from error
