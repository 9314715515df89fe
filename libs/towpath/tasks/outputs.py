"""Typed answers: a pydantic model, dataclass or TypedDict says what a run answers, and such a value comes back.

The platform holds the answer against its JSON Schema while the run can still mend it; here it is only read.
"""

from typing import Generic, TypeVar

from pydantic import PrivateAttr, PydanticUserError, TypeAdapter, ValidationError

from towpath.errors import DeclarationError, RefusedError, RunFailedError
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import RunView

Output = TypeVar("Output")


class FailedRun(RunView):
    """A run that has neither completed nor been cancelled: who asks for its answer is told why there is none."""

    @property
    def text(self) -> str:
        """Raise RunFailedError: an empty text would pass for an answer."""
        raise _failure_of(self)


class TypedRun(RunView, Generic[Output]):
    """A run with its answer in its type."""

    _output: Output | None = PrivateAttr(default=None)

    @property
    def output(self) -> Output | None:
        """The answer; None for a cancelled run. Raises RunFailedError for a run that failed."""
        if _is_failed(self):
            raise _failure_of(self)
        return self._output

    @property
    def text(self) -> str:
        """The answer's message, empty where there is none. Raises RunFailedError for a run that failed."""
        if _is_failed(self):
            raise _failure_of(self)
        return super().text


def told_if_failed(view: RunView) -> RunView:
    """Return a run that has ended as it is; one that failed so that its `text` says why."""
    if not _is_failed(view):
        return view
    return FailedRun.model_construct(**{name: getattr(view, name) for name in RunView.model_fields})


def output_schema(output_type: type[Output]) -> JsonObject:
    """Return the JSON Schema of the answers of *output_type*; raises DeclarationError for what is no object of JSON."""
    why = ""
    try:
        schema = TypeAdapter(output_type).json_schema()
    except PydanticUserError as error:
        schema = {}
        if error.code == "typed-dict-version":
            why = " In Python 3.11 a TypedDict has to be that of typing_extensions."
    if schema.get("type") != "object" and "$ref" not in schema:
        shown = getattr(output_type, "__name__", str(output_type))
        msg = f"output_type {shown} is no pydantic model, dataclass or TypedDict: an answer is an object.{why}"
        raise DeclarationError(msg)
    return schema


def read_output(view: RunView, output_type: type[Output]) -> Output | None:
    """Return the answer of a completed run as an *output_type*; None for any other run.

    Raises RefusedError `output_invalid` for an answer that the model does not take: its validators may ask for more
    than its JSON Schema says, and what they say is the caller's business alone.
    """
    if view.status != "completed" or view.final is None:
        return None
    answer = view.final.get("deliverable") if view.kind == "background" else view.final
    if answer is None:
        return None
    try:
        return TypeAdapter(output_type).validate_python(answer)
    except ValidationError as error:
        said = located_message(error.errors(include_url=False, include_input=False)[0], "answer")
        message = f"the answer of run {view.run_id} is no {output_type.__name__}: {said}"
        raise RefusedError(problem("output_invalid", message, run_id=str(view.run_id))) from error


def answer_of(view: RunView, output_type: type[Output]) -> Output:
    """Return the answer of a run that has ended as an *output_type*.

    Raises RunFailedError where it has none, and RefusedError as `read_output` does.
    """
    found = read_output(view, output_type)
    if found is None:
        raise _failure_of(view)
    return found


def typed(view: RunView, output_type: type[Output]) -> TypedRun[Output]:
    """Return the run with its answer read; raises RefusedError as `read_output` does."""
    values = {name: getattr(view, name) for name in RunView.model_fields}
    run = TypedRun[Output].model_construct(**values)
    run._output = read_output(view, output_type)
    return run


def _is_failed(view: RunView) -> bool:
    return view.status in FINAL_STATUSES - {"completed", "cancelled"}


def _failure_of(view: RunView) -> RunFailedError:
    said = view.message or view.reason or "no answer"
    return RunFailedError(problem("run_failed", f"{view.status}: {said}", run_id=str(view.run_id)))
