"""`towpath test`: the tests of a project, whatever they are written in, without a platform and without a key."""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from towpath.cli.access.policy_cases import judge_file
from towpath.cli.evaluation.eval_command import show_run
from towpath.cli.evaluation.evaluation_process import evaluate
from towpath.cli.evaluation.test_files import has_python_tests, yaml_tests
from towpath.cli.shared.child_process import ending_with_us
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.extras import require_packages
from towpath.project.project_file import OWN_TESTS
from towpath_contracts.problems.registry import ProblemError, problem

Row = dict[str, Any]
HERE = Path()

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
    rows = [await _pytest(path, out)] if python else []
    for file, kind in yaml.items():
        rows.append(await (_evaluation(file, out) if kind == "Evaluation" else _verdicts(file, out)))
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


def _found(path: Path) -> tuple[bool, dict[Path, str]]:
    """Return whether there are Python tests at *path*, and the YAML tests with their kinds."""
    if not path.exists():
        raise ProblemError(problem("file_missing", f"{path} is not there"))
    python, yaml = has_python_tests(path), yaml_tests(path)
    if not python and not yaml:
        remedy = f"Write a file with kind: PolicyTest or kind: Evaluation, or tests/test_NAME.py, as {OWN_TESTS}"
        raise ProblemError(problem("not_found", f"there are no tests at {path}", remedy=remedy))
    return python, yaml


async def _pytest(path: Path, out: OutputPrinter) -> Row:
    """Run pytest; what it prints goes to people, and its counts are taken from its report."""
    require_packages("towpath_testing", "pytest")
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-q", f"--junit-xml={report}", "-o", "junit_family=xunit2", str(path)]
        where = None if out.for_people else sys.stderr
        process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=where)
        async with ending_with_us(process):
            code = await process.wait()
        counts = _counts(report)
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


async def _verdicts(file: Path, out: OutputPrinter) -> Row:
    found = await asyncio.to_thread(judge_file, file, out)
    if found is None:
        left_out = f"it names no policy: towpath policy test {file} --live"
        return {"tests": str(file), "passed": 0, "failed": 0, "left_out": left_out}
    passed, failed = found
    return {"tests": str(file), "passed": passed, "failed": failed, "left_out": ""}


async def _evaluation(file: Path, out: OutputPrinter) -> Row:
    runs: list[Mapping[str, Any]] = []
    left_out = ""
    with out.progress(f"Evaluating {file}"):
        async for found in evaluate({"suite": str(file), "offline": True}):
            left_out = found.get("left_out", left_out)
            if "run" in found:
                runs.append({"suite": str(file), **found["run"]})
                show_run(runs[-1], out)
    failed = sum(not run["passed"] for run in runs)
    return {"tests": str(file), "passed": len(runs) - failed, "failed": failed, "left_out": left_out}
