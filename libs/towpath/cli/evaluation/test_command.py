"""`towpath test`: the tests of a project, whatever they are written in, without a platform and without a key."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from towpath.cli.access.policy_cases import FileCases, read_cases
from towpath.cli.evaluation.eval_command import show_run
from towpath.cli.evaluation.evaluation_process import MODULE, SuiteAnswers
from towpath.cli.evaluation.project_test_process import ProjectTestProcess, run_project_tests
from towpath.cli.evaluation.test_files import has_python_tests, yaml_tests
from towpath.cli.shared.exit_codes import INTERRUPTED, OK, RUN_FAILED
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column, OutputPrinter, print_notice
from towpath.extras import require_packages
from towpath_contracts.problems.registry import ProblemError, problem

Row = dict[str, Any]
HERE = Path()
NO_TESTS = 5
"""How pytest ends where it has collected nothing."""

NAMED = 4
"""How many files of tests are named before the others are counted."""

COLUMNS = (
    Column("tests", "tests"),
    Column("passed", "passed"),
    Column("failed", "failed"),
    Column("left out", lambda row: row["left_out"] or ""),
)


async def test(path: Path = HERE, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> int:
    """Run the tests of the project: pytest, verdicts of the policy, evaluations that need no model.

    Nothing is started and nobody is asked: an evaluation whose network names a model of a provider is left out, unless
    it has a recording to replay. The exit code is 1 where a test fails.

    Args:
        path: A folder or a file; this folder where none is named.
    """
    out = printed.out()
    python, yaml = _found(path)
    print_notice(_begin_line([*(["pytest"] if python else []), *map(str, yaml)]))
    told = out if out.for_people else OutputPrinter("table", aside=True)  # what fails is explained to people, too
    rows = [row async for row in _tested(path, yaml, told, python=python, to_stderr=not out.for_people)]
    passed, failed = sum(row["passed"] for row in rows), sum(row["failed"] for row in rows)
    if not out.for_people:
        out.data({"passed": passed, "failed": failed, "files": rows})
    else:
        out.write("")
        out.rows("files", rows, COLUMNS, empty="")
        said = "all tests that were run passed" if any(row["left_out"] for row in rows) else "all tests passed"
        said = said if passed else "no test was run"
        out.write("some tests failed" if failed else said, "bold red" if failed else "bold")
    return RUN_FAILED if failed else OK


def _begin_line(names: Sequence[str]) -> str:
    """Return what is said at once: it takes seconds until the first test has run."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"Running {', '.join(names[:NAMED])}{more}: no platform is started, and no person is asked."


def _found(path: Path) -> tuple[bool, dict[Path, str]]:
    """Return whether there are Python tests at *path*, and the YAML tests with their kinds."""
    if not path.exists():
        raise ProblemError(problem("file_missing", f"{path} is not there"))
    python, yaml = has_python_tests(path), yaml_tests(path)
    if not python and not yaml:
        remedy = (
            "Write tests/test_NAME.py, as towpath new network NAME --ask TOOL does, or a file with kind: PolicyTest or "
            "kind: Evaluation."
        )
        raise ProblemError(problem("not_found", f"there are no tests at {path}", remedy=remedy))
    return python, yaml


async def _tested(
    path: Path, yaml: Mapping[Path, str], out: OutputPrinter, *, python: bool, to_stderr: bool
) -> AsyncIterator[Row]:
    """Yield a row for pytest, whose output goes to people, and one for each file of *yaml*."""
    verdicts = {file: read_cases(file) for file, kind in yaml.items() if kind == "PolicyTest"}
    if python or len(verdicts) < len(yaml):
        require_packages("towpath_testing", *(("pytest",) if python else ()))
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        report = Path(folder) / "report.xml"
        words = ["-q", f"--junit-xml={report}", "-o", "junit_family=xunit2", str(path)]
        tests = [
            *([("pytest", words)] if python else []),
            *((kind, verdicts[file].asked if file in verdicts else _asked(file)) for file, kind in yaml.items()),
        ]
        async with run_project_tests(tests, to_stderr=to_stderr) as process:
            if python:
                yield _pytest(await process.status(), _counts(report))
            for file in yaml:
                yield await (
                    _verdicts(verdicts[file], process, out) if file in verdicts else _evaluation(file, process, out)
                )


def _pytest(code: int, counts: Mapping[str, int]) -> Row:
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code == NO_TESTS:
        left_out = "pytest found no test: files are named test_NAME.py, and functions in them begin with test_"
        return {"tests": "pytest", "passed": 0, "failed": 1, "left_out": left_out}
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    left_out = f"{counts['skipped']} skipped" if counts["skipped"] else ""
    # Whatever else it ends with, such as a file that it can't import, is no success.
    return {"tests": "pytest", "passed": passed, "failed": failed or int(code != 0), "left_out": left_out}


def _counts(report: Path) -> dict[str, int]:
    names = ("tests", "failures", "errors", "skipped")
    try:
        suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest has just written it
    except (FileNotFoundError, ET.ParseError):  # it ended before, or while, it wrote it
        return dict.fromkeys(names, 0)
    found = [suite.attrib for suite in suites]
    return {name: sum(int(one.get(name, 0)) for one in found) for name in names}


async def _verdicts(cases: FileCases, process: ProjectTestProcess, out: OutputPrinter) -> Row:
    answers = [line async for line in process.lines()]
    if process.ended_with != 0:
        detail = f"the policy can't be weighed here: exit code {process.ended_with}"
        raise ProblemError(problem("binary_missing", detail))
    found = cases.judge(answers[0], out)
    if found is None:
        left_out = f"it names no policy: towpath policy test {cases.file} --live"
        return {"tests": str(cases.file), "passed": 0, "failed": 0, "left_out": left_out}
    passed, failed = found
    return {"tests": str(cases.file), "passed": passed, "failed": failed, "left_out": ""}


def _asked(file: Path) -> Row:
    return {"suite": str(file), "offline": True}


async def _evaluation(file: Path, process: ProjectTestProcess, out: OutputPrinter) -> Row:
    runs: list[Mapping[str, Any]] = []
    answers = SuiteAnswers()
    left_out = ""
    with out.progress(f"Evaluating {file}"):
        async for line in process.lines():
            found = answers.take(line)
            left_out = found.get("left_out", left_out)
            if "run" in found:
                runs.append({"suite": str(file), **found["run"]})
                show_run(runs[-1], out)
        answers.end(process.ended_with, MODULE)
    failed = sum(not run["passed"] for run in runs)
    return {"tests": str(file), "passed": len(runs) - failed, "failed": failed, "left_out": left_out}
