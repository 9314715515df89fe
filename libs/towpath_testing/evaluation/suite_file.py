"""Reads a suite: what is wrong in it is told with file and line, before anything runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic import ValidationError

from towpath.errors import RefusedError
from towpath.networks.spec_files import load_network, locate_problems, read_yaml
from towpath.project.project_file import tool_files
from towpath.tasks.task import task_of
from towpath_contracts.files.evaluation_suite import EvaluationCase, EvaluationSuite
from towpath_contracts.problems.cel_library import cel_library
from towpath_contracts.problems.given_values import in_words_of_a_file
from towpath_contracts.problems.input_faults import details_of
from towpath_contracts.problems.registry import ProblemDetail

CODE = "evaluation_invalid"
OWN_OPTIONS = frozenset({"network", "user_message", "labels", "model"})
"""Options of a task that a case has elsewhere, or that the command gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSuite:
    """A suite and where its parts lie; `lines` are those of its cases. `network` is None where no such file is."""

    path: Path
    suite: EvaluationSuite
    lines: tuple[int, ...]
    network: Path | None
    policy: Path | None
    tools: tuple[Path, ...]
    replay: Path | None

    @property
    def network_name(self) -> str:
        """Return the name under which the network is published."""
        return self.suite.network if self.network is None else load_network(self.network).name

    def models(self) -> frozenset[str]:
        """Return the models that the network names, and those that its agents name."""
        if self.network is None:
            return frozenset()
        spec = load_network(self.network)
        named = [spec.model, *spec.fallback_models]
        named += [model for agent in spec.agents for model in (agent.model or spec.model, *agent.fallback_models)]
        return frozenset(named)


def read_suite(path: Path) -> ReadSuite:
    """Read the suite at *path*; raises RefusedError `evaluation_invalid` with every problem and its `file:line`."""
    written, lines, _ = read_yaml(path, CODE)
    try:
        suite = EvaluationSuite.model_validate(written)
    except ValidationError as error:
        details = in_words_of_a_file(details_of(error, EvaluationSuite), written)
        raise RefusedError(locate_problems(CODE, path, lines, details)) from None
    folder = path.parent
    found = ReadSuite(
        path=path,
        suite=suite,
        lines=tuple(lines.of(f"/cases/{place}") for place in range(len(suite.cases))),
        network=folder / suite.network if (folder / suite.network).is_file() else None,
        policy=None if suite.policy is None else folder / suite.policy,
        tools=tuple(file for place in suite.tools for file in tool_files(folder / place)),
        replay=None if suite.replay is None else folder / suite.replay,
    )
    problems = [*_missing(found), *_doubled(suite)]
    for place, case in enumerate(suite.cases):
        problems += _faults(case, f"/cases/{place}")
    if problems:
        raise RefusedError(locate_problems(CODE, path, lines, problems))
    return found


def _missing(found: ReadSuite) -> Iterator[ProblemDetail]:
    named = [("policy", found.policy)]
    named += [(f"tools/{place}", found.path.parent / tools) for place, tools in enumerate(found.suite.tools)]
    for pointer, place in named:
        if place is not None and not place.exists():
            yield ProblemDetail(pointer=f"/{pointer}", code="file_missing", detail=f"{place} does not exist")


def _doubled(suite: EvaluationSuite) -> Iterator[ProblemDetail]:
    names = [case.name for case in suite.cases]
    for place, name in enumerate(names):
        if name in names[:place]:
            yield ProblemDetail(pointer=f"/cases/{place}/name", code="name_twice", detail=f"{name!r} is there already")


def _faults(case: EvaluationCase, at: str) -> Iterator[ProblemDetail]:
    expect = case.expect
    for place, text in enumerate(expect.that):
        if why := _expression_fault(text):
            yield ProblemDetail(pointer=f"{at}/expect/that/{place}", code="expression", detail=why)
    try:
        re.compile(expect.matches or "")
    except re.error as error:
        yield ProblemDetail(pointer=f"{at}/expect/matches", code="pattern", detail=f"no regular expression: {error}")
    try:
        validator_for(expect.output or {}, default=Draft202012Validator).check_schema(expect.output or {})
    except SchemaError as error:
        yield ProblemDetail(pointer=f"{at}/expect/output", code="schema", detail=f"no JSON Schema: {error.message}")
    for option in sorted(OWN_OPTIONS & case.task.keys()):
        detail = f"{option} is no part of task: a case has input and labels, --model names another model"
        yield ProblemDetail(pointer=f"{at}/task/{option}", code="option", detail=detail)
        return
    try:
        task_of("network", case.input, {"labels": case.labels, **case.task})
    except RefusedError as refused:
        for one in refused.problem.errors:
            detail = re.sub("^message ", "input ", one.detail)
            yield one.model_copy(update={"pointer": f"{at}/task{one.pointer}", "detail": detail})


def _expression_fault(text: str) -> str:
    try:
        program: Any = cel_library().compile(text)
    except (RuntimeError, TypeError, ValueError) as error:
        return f"no CEL expression: {' '.join(str(error).split())}"
    return "" if "result" in program.variables() else "it does not look at result, so it always or never holds"
