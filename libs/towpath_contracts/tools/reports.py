"""What a tool may report in a declared shape: the outcome of tests, and things that were made.

A report counts only where the tool's spec declares its shape (`ToolSpec.reports`). What can't be read is no
report: nothing is guessed from words.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from towpath_contracts.base import JsonObject, MessagePart
from towpath_contracts.problems.input_faults import located_message

Reports = Literal["", "tests", "artifacts"]
"""The shape of a tool's result: a TestReport, an ArtifactReport, or nothing that is declared."""

MAX_COUNT = 10_000_000
"""Of tests, lines or bytes; more is a mistake of the tool."""

MAX_ARTIFACTS = 64
"""Artifacts of one report, and of a run: the newest are kept."""

TEST_MEMBERS = ("passed", "failed", "errors", "total", "skipped", "coverage")
"""What a criterion may ask of `tests`: the members that `read_tests` returns."""

MAX_FAULTS = 5
"""Faults of one report that are listed; more would fill the context of a model."""

PARTLY = 0.9
"""The highest progress while a test fails."""

MADE = 0.7
"""The progress that artifacts alone show, where it is not known how many are expected."""


class _Reported(BaseModel):
    """Strict in its types, tolerant of further fields: a tool may say more."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", strict=True)


class TestReport(_Reported):
    """The result of a run of tests. `errors` are tests that could not run; `coverage` is a share from 0 to 1."""

    __test__ = False  # no test class for pytest

    passed: int = Field(ge=0, le=MAX_COUNT)
    failed: int = Field(ge=0, le=MAX_COUNT)
    errors: int = Field(default=0, ge=0, le=MAX_COUNT)
    skipped: int = Field(default=0, ge=0, le=MAX_COUNT)
    coverage: float | None = Field(default=None, ge=0, le=1)


class Artifact(_Reported):
    """One thing that was made. `kind` is file, code, dependency, or a name that the tool chose; `size` counts lines."""

    name: str = Field(min_length=1, max_length=512)
    kind: str = Field(default="file", max_length=64)
    size: int = Field(default=0, ge=0, le=MAX_COUNT)
    description: str = Field(default="", max_length=1_024)


class ArtifactReport(_Reported):
    """What a call made; `expected` is how many artifacts the work needs in all, where the tool knows."""

    artifacts: list[Artifact] = Field(max_length=MAX_ARTIFACTS)
    expected: int | None = Field(default=None, ge=1, le=MAX_COUNT)


class ProgressMeasure(MessagePart):
    """A progress from 0 to 1, and the metrics that it rests on."""

    score: float
    metrics: JsonObject = Field(default_factory=dict)


def read_tests(result: Any) -> JsonObject | None:
    """Return the test report that *result* is, as criteria see it; None for what is none.

    `failed` counts tests that could not run too, `total` all that were to. A run of no test at all is no report.
    """
    try:
        report = TestReport.model_validate(result)
    except ValidationError:
        return None
    failed = report.failed + report.errors
    total = report.passed + failed
    if total == 0:
        return None
    counted: JsonObject = {"passed": report.passed, "failed": failed, "errors": report.errors, "total": total}
    more = {} if report.coverage is None else {"coverage": report.coverage}
    return {**counted, "skipped": report.skipped, **more}


def read_artifacts(result: Any) -> tuple[tuple[JsonObject, ...], int | None] | None:
    """Return the artifacts that *result* reports, and how many are expected; None for what is no report."""
    try:
        report = ArtifactReport.model_validate(result)
    except ValidationError:
        return None
    return tuple(one.model_dump(mode="json") for one in report.artifacts), report.expected


def report_fault(shape: Reports, result: Any) -> str:
    """Return what keeps *result* from being a report of *shape*; empty where nothing does, and for no shape."""
    if not shape:
        return ""
    try:
        (TestReport if shape == "tests" else ArtifactReport).model_validate(result)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:MAX_FAULTS]
        faults = "; ".join(located_message(one, "result") for one in found)
        return f"is no report of the shape {shape}: {faults}"
    return ""


def progress_by_tests(now: JsonObject, before: JsonObject | None) -> ProgressMeasure:
    """Return 1.0 where no test fails, else the share that passes, at most 0.9; with what changed since *before*."""
    failing, total = now["failed"], now["total"]
    score = 1.0 if failing == 0 else min(PARTLY, now["passed"] / total)
    metrics: JsonObject = {**now, "failure_rate": round(failing / total, 4)}
    if before is not None:
        metrics["passing_increase"] = now["passed"] - before["passed"]
        metrics["failure_rate_decrease"] = round(before["failed"] / before["total"] - failing / total, 4)
        if "coverage" in now and "coverage" in before:
            metrics["coverage_increase"] = round(now["coverage"] - before["coverage"], 4)
    return ProgressMeasure(score=score, metrics=metrics)


def progress_by_artifacts(made: tuple[JsonObject, ...], expected: int | None) -> ProgressMeasure:
    """Return the share of the *expected* artifacts that exist, or 0.7 where that number is not known."""
    score = MADE if expected is None else min(1.0, len(made) / expected)
    metrics: JsonObject = {
        "artifacts": len(made),
        "files_created": sum(one.get("kind") in ("file", "code") for one in made),
        "code_written": sum(int(one.get("size", 0)) for one in made if one.get("kind") == "code"),
        "dependencies_added": sum(one.get("kind") == "dependency" for one in made),
    }
    return ProgressMeasure(score=score, metrics=metrics if expected is None else {**metrics, "expected": expected})
