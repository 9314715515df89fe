"""Typed answers: a pydantic model says what a run answers, and an instance of it comes back.

The platform holds the answer against the model's JSON Schema while the run can still mend it; here it is only
read.
"""

from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from towpath.errors import RefusedError
from towpath_contracts.problems.input_faults import entry_message
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.views import RunView

Output = TypeVar("Output", bound=BaseModel)


class TypedRun(RunView, Generic[Output]):
    """A run with its answer as an instance; `output` is None for a run that has none, such as a failed one."""

    output: Output | None = None


def read_output(view: RunView, output_type: type[Output]) -> Output | None:
    """Return the answer of a completed run as an instance of *output_type*; None for any other run.

    Raises RefusedError `output_invalid` for an answer that the model does not take: its validators may ask for more
    than its JSON Schema says, and what they say is the caller's business alone.
    """
    if view.status != "completed" or view.final is None:
        return None
    answer = view.final.get("deliverable") if view.kind == "background" else view.final
    if answer is None:
        return None
    try:
        return output_type.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "answer"
        message = f"the answer of run {view.run_id} is no {output_type.__name__}: {place}: {entry_message(first)}"
        raise RefusedError(problem("output_invalid", message, run_id=str(view.run_id))) from error


def typed(view: RunView, output_type: type[Output]) -> TypedRun[Output]:
    """Return the run with its answer read; raises RefusedError as `read_output` does."""
    values = {name: getattr(view, name) for name in RunView.model_fields}
    return TypedRun[Output].model_construct(**values, output=read_output(view, output_type))
