"""Plans on the command line: the options of `towpath run`, and files that hold a plan."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.json_syntax import describe_json_error
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem

if TYPE_CHECKING:
    from towpath_readings.yaml_lines import LineNumbers

_REQUEST = ("plan", "bindings", "max_parallel", "timeout_ms")

Many = Annotated[tuple[str, ...], Parameter(negative="")]


@Parameter(name="*", group=Group("A plan", sort_key=27))
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What makes the run one that carries out a plan."""

    plan: Path | None = None
    "A YAML or JSON file with the steps of the plan; see towpath plans check."
    plan_prompt: str | None = None
    "What a model is to make a plan for."
    set: Many = ()
    "key=value, or key:=JSON: a value for {{ bindings.key }}; may be given more than once."
    max_parallel: int | None = None
    "Let at most so many agents of a plan work at the same time; it can only lower what holds anyway."

    def options(self) -> dict[str, Any]:
        """Return the plan as a field of SubmitTask; raises ProblemError for bad files, and parts without one."""
        if self.plan is not None and self.plan_prompt is not None:
            raise ProblemError(problem("request_invalid", "choose one of --plan and --plan-prompt"))
        if self.plan is None and self.plan_prompt is None:
            if self.set or self.max_parallel is not None:
                raise ProblemError(problem("request_invalid", "--set and --max-parallel belong to a --plan"))
            return {}
        task: JsonObject = {"prompt": self.plan_prompt} if self.plan is None else read_plan(self.plan).task
        bindings = {**task.get("bindings", {}), **read_values(self.set)}
        limit = {} if self.max_parallel is None else {"max_parallel": self.max_parallel}
        return {"plan": {**task, **({"bindings": bindings} if bindings else {}), **limit}}


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A file with a plan: what it asks for, and where in it the plan stands."""

    path: Path
    task: JsonObject
    pointer: str
    lines: "LineNumbers"

    def refusal(self, faults: Iterable[ProblemDetail]) -> ProblemError:
        """Return the refusal of the plan with the line of every fault."""
        from towpath.networks.spec_files import locate_problems

        placed = [one.model_copy(update={"pointer": f"{self.pointer}{one.pointer}"}) for one in faults]
        return ProblemError(locate_problems("plan_invalid", self.path, self.lines, placed))


def read_plan(file: Path) -> PlanFile:
    """Return what *file* asks for: a plan, a request with a plan in it, or a whole task. Raises ProblemError."""
    from towpath.networks.spec_files import read_yaml

    found, lines, _text = read_yaml(file, "plan_invalid")
    inner = found.get("plan")
    if "steps" in found or not isinstance(inner, dict):
        return PlanFile(file, {"plan": found}, "", lines)
    if "plan" in inner or "prompt" in inner:
        return PlanFile(file, inner, "/plan/plan", lines)  # a whole task brings its plan along
    task: JsonObject = {name: found[name] for name in _REQUEST if name in found}
    return PlanFile(file, task, "/plan", lines)


def read_values(pairs: Iterable[str]) -> JsonObject:
    """Return `key=text` and `key:=JSON` pairs as values; raises ProblemError for any other word."""
    values: JsonObject = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.removesuffix(":"):
            raise ProblemError(problem("request_invalid", f"--set takes key=value or key:=JSON, not {pair}"))
        try:
            values[key.removesuffix(":")] = json.loads(text) if key.endswith(":") else text
        except ValueError as error:
            raise ProblemError(
                problem("request_invalid", f"--set {key}: not JSON: {describe_json_error(error)}")
            ) from error
    return values
