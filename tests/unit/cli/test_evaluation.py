"""`towpath eval` and `towpath test` as a person meets them: tables, exit codes, JSON and JUnit."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.support.forked_python import forked_python

from towpath.cli import main
from towpath.cli.evaluation.eval_command import money
from towpath.cli.evaluation.evaluation_report import by_case, by_model, write_junit
from towpath.cli.evaluation.test_command import _begin_line, _counts
from towpath.cli.evaluation.test_files import has_python_tests, yaml_tests
from towpath.project.scaffold import create_project

SUITE = """
kind: Evaluation
network: ../networks/support.yaml
policy: ../policies.yaml
tools: [../tools]
cases:
  - {name: greets, input: Hello}
  - {name: thanks, input: Hello, expect: {contains: [Thank you]}}
"""


def run_of(case: str, model: str, *, passed: bool, usd: float | None = 0.5, attempt: int = 1) -> dict[str, Any]:
    about = {"suite": "a.yaml", "case": case, "model": model, "attempt": attempt, "line": 3}
    failures = [] if passed else ["it cost \x1b[31m too much", "and more"]
    return {**about, "passed": passed, "failures": failures, "usd": usd, "tokens": 10, "seconds": 0.25}


RUNS = [
    run_of("one", "m:a", passed=True),
    run_of("one", "m:a", passed=False, attempt=2),
    run_of("one", "m:b", passed=True, usd=None),
]


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    with forked_python("towpath_testing.evaluation", "pytest") as program:
        yield program


@pytest.fixture
def own_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is evaluated by a process which is started as a person's is."""
    create_project(tmp_path)
    (tmp_path / "tests" / "evaluation.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shop(own_shop: Path, python: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is evaluated by forks of a process that has imported the services."""
    monkeypatch.setattr(sys, "executable", python)
    return own_shop


def test_the_models_of_an_evaluation_stand_beside_each_other() -> None:
    assert [(row["model"], row["passed"], row["runs"], row["pass_rate"]) for row in by_model(RUNS)] == [
        ("m:a", 1, 2, 0.5), ("m:b", 1, 1, 1.0)
    ]  # fmt: skip
    assert [(row["usd"], row["tokens"], row["seconds"]) for row in by_model(RUNS)] == [(1.0, 20, 0.5), (None, 10, 0.25)]
    assert [(row["case"], row["model"], row["passed"]) for row in by_case(RUNS)] == [
        ("one", "m:a", 1),
        ("one", "m:b", 1),
    ]
    assert (money(None), money(0.00123)) == ("unknown", "$0.0012")


def test_junit_has_a_suite_for_each_model_and_takes_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "build" / "junit.xml"
    write_junit(path, RUNS)
    root = ET.parse(path).getroot()
    assert root.attrib == {"tests": "3", "failures": "1", "time": "0.750"}
    assert [suite.attrib["name"] for suite in root] == ["a.yaml [m:a]", "a.yaml [m:b]"]
    assert [case.attrib["name"] for case in root.iter("testcase")] == ["one #1", "one #2", "one"]
    (failure,) = root.iter("failure")
    assert failure.attrib["message"] == "it cost \N{REPLACEMENT CHARACTER}[31m too much"
    assert (failure.text or "").splitlines()[1] == "and more"


def test_an_evaluation_says_what_failed_where_and_counts(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--repeat", "2", "--junit", "junit.xml", "-o", "table"]) == 1
    said = capfd.readouterr().out
    assert said.count("✓ greets  ") == 2
    assert "✗ thanks  tests/evaluation.yaml:8" in said
    assert "the answer does not contain 'Thank you'" in said
    assert "2 of 4 runs passed" in said
    assert len(list(ET.parse("junit.xml").getroot().iter("testcase"))) == 4


def test_an_evaluation_for_programs_passes_where_enough_does(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (shop / "tools" / "loud.py").write_text("print('a tool that prints when it is loaded')\n")
    assert main(["eval", "tests/evaluation.yaml", "--min-pass", "0.5", "-o", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["runs"], found["passed"], found["pass_rate"], found["ok"]) == (2, 1, 0.5, True)
    assert [row["passed"] for row in found["cases"]] == [1, 0]
    assert found["models"][0]["model"] == "the network's"
    assert [run["status"] for run in found["results"]] == ["completed", "completed"]


def test_yaml_tests_of_a_project_are_run_and_what_fails_is_explained(
    shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (shop / "tests" / "live.yaml").write_text("kind: PolicyTest\ncases: [{tool: a, verdict: deny}]\n")
    (shop / "tests" / "test_support.py").unlink()
    file = shop / "tests" / "verdicts.yaml"
    file.write_text(file.read_text().replace("verdict: allow", "verdict: deny", 1))
    assert main(["test", "-o", "table"]) == 1
    said = capfd.readouterr().out
    assert "✗ thanks  tests/evaluation.yaml:8" in said
    assert "orders are looked up: expected deny, got allow by look-up-orders" in said
    told = [line.split(maxsplit=3) for line in said.splitlines() if re.match(r"tests/\S+\.yaml ", line)]
    assert [row[:3] for row in told] == [
        ["tests/evaluation.yaml", "1", "1"], ["tests/live.yaml", "0", "0"], ["tests/verdicts.yaml", "3", "1"]
    ]  # fmt: skip
    assert told[1][3].startswith("it names no policy")
    assert said.splitlines()[-1] == "some tests failed"


def test_a_program_reads_json_and_people_are_told_what_is_tested_and_what_fails(
    own_shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = own_shop / "tests" / "verdicts.yaml"
    file.write_text(file.read_text().replace("verdict: allow", "verdict: deny", 1))
    (own_shop / "tests" / "test_support.py").write_text("def test_nothing():\n    pass\n")
    assert main(["test", "-o", "json"]) == 1
    said = capfd.readouterr()
    assert [row["failed"] for row in json.loads(said.out)["files"]] == [0, 1, 1]
    first, *others = said.err.splitlines()
    assert first.startswith("Running pytest, tests/evaluation.yaml, tests/verdicts.yaml: no platform is started")
    assert "1 passed" in others[1]
    assert any("the answer does not contain 'Thank you'" in line for line in others)
    assert any("orders are looked up: expected deny, got allow by look-up-orders" in line for line in others)


@pytest.mark.parametrize(
    ("tools", "told"),
    [("def find(\n", "not Python"), ("@tool\ndef find() -> str: ...\n", "write at its head: from towpath import tool")],
)
def test_tools_that_can_not_be_loaded_are_told_with_their_line(
    shop: Path, capfd: pytest.CaptureFixture[str], tools: str, told: str
) -> None:
    (shop / "tools" / "broken.py").write_text(tools)
    assert main(["test", "tests/evaluation.yaml", "-o", "table"]) == 2
    said = capfd.readouterr().err
    assert "tools/broken.py:1: " in said and told in said
    assert "project_invalid" in said and "trace_id" not in said


def test_python_files_without_a_test_are_told_how_tests_are_named(
    own_shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = own_shop / "tests" / "test_support.py"
    file.write_text("def check_a_refund():\n    pass\n")
    assert main(["test", str(file), "-o", "table"]) == 1
    assert "pytest found no test: files are named test_NAME.py, and functions in them begin with test_" in (
        capfd.readouterr().out
    )


def test_of_many_files_of_tests_the_first_are_named() -> None:
    assert _begin_line(["pytest", "b", "c", "d"]).startswith("Running pytest, b, c, d: ")
    assert _begin_line(["pytest", "b", "c", "d", "e", "f"]).startswith("Running pytest, b, c, d and 2 more: ")


@pytest.mark.prints("test")
def test_a_file_that_pytest_can_not_read_is_no_success(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = shop / "tests" / "test_broken.py"
    file.write_text("import nothing_of_this_name\n")
    assert main(["test", str(file), "-o", "json"]) == 1
    assert json.loads(capfd.readouterr().out)["failed"] == 1


def test_where_there_is_nothing_to_test_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["test"]) == 3
    said = capsys.readouterr().err
    assert "there are no tests at ." in said and "as towpath new network NAME --ask TOOL does" in said
    assert main(["eval"]) == 3
    assert "kind: Evaluation" in capsys.readouterr().err
    assert main(["test", "nowhere"]) == 2
    assert main(["eval", "a.yaml", "b.yaml", "--record", "c"]) == 2
    assert "--record takes one suite" in capsys.readouterr().err
    assert main(["eval", "a.yaml"]) == 2
    assert "file_missing" in capsys.readouterr().err
    for option, value in (("--repeat", "0"), ("--repeat", "1001"), ("--min-pass", "1.1"), ("--min-pass", "-1")):
        with pytest.raises(SystemExit, match="2"):
            main(["eval", "a.yaml", option, value])


def test_packages_that_are_missing_are_named_with_the_extra_that_has_them(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cel", None)
    assert main(["eval"]) == 2
    said = capsys.readouterr().err
    assert "cel: not installed here" in said
    assert "pip install 'towpath[testing]'" in said


def test_tests_are_found_by_what_they_say_they_are(tmp_path: Path) -> None:
    for name, text in {
        "a/suite.yml": "# first\nkind: Evaluation\n",
        "a/verdicts.yaml": "kind: 'PolicyTest'\n",
        "a/policy.yaml": "kind: Policy\n",
        "a/EvaluationKind.yaml": "kind: Evaluations\n",
        ".hidden/suite.yaml": "kind: Evaluation\n",
        "node_modules/suite.yaml": "kind: Evaluation\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "a" / "bytes.yaml").write_bytes(b"kind: Evaluation\xff")
    found = {path.name: kind for path, kind in yaml_tests(tmp_path).items()}
    assert found == {"suite.yml": "Evaluation", "verdicts.yaml": "PolicyTest"}
    assert not has_python_tests(tmp_path)
    (tmp_path / "a" / "orders_test.py").touch()
    assert has_python_tests(tmp_path)


@pytest.mark.parametrize(
    ("ends", "status", "told"),
    [
        ("sys.exit(0)", 2, "a file with tools ended the process that evaluates it: SystemExit(0)"),
        ("os._exit(0)", 1, "ended with status 0 after 0 of 2 runs"),
        ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)", 1, "ended with status -15 after 0 of 2 runs"),
    ],
)
def test_a_tool_that_ends_the_process_is_no_success(
    own_shop: Path, capfd: pytest.CaptureFixture[str], ends: str, status: int, told: str
) -> None:
    (own_shop / "tools" / "ends.py").write_text(f"import os, signal, sys, time\n{ends}\n")
    assert main(["test", "tests/evaluation.yaml", "-o", "table"]) == status
    said = capfd.readouterr()
    assert told.lower() in said.err.lower()
    assert "passed" not in said.out


def test_where_everything_was_left_out_nothing_is_said_to_have_passed(
    shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = shop / "networks" / "support.yaml"
    network.write_text(network.read_text().replace("model: scripted:support", "model: gemini:x"))
    assert main(["test", "tests/evaluation.yaml", "-o", "table"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "no test was run"


def test_what_was_left_out_is_not_among_the_tests_that_passed(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (shop / "tests" / "live.yaml").write_text("kind: PolicyTest\ncases: [{tool: a, verdict: deny}]\n")
    for name in ("test_support.py", "evaluation.yaml"):
        (shop / "tests" / name).unlink()
    assert main(["test", "-o", "table"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "all tests that were run passed"
    assert main(["test", "tests/verdicts.yaml", "-o", "table"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "all tests passed"


@pytest.mark.prints("eval")
def test_a_case_is_looked_for_in_all_suites_before_any_is_run(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (shop / "tests" / "more.yaml").write_text(SUITE.replace("thanks", "asks"))
    suites = ["tests/evaluation.yaml", "tests/more.yaml"]
    assert main(["eval", *suites, "--case", "thank", "-o", "table"]) == 3
    said = capfd.readouterr()
    assert "did you mean 'thanks'" in said.err and said.out == ""
    assert main(["eval", *suites, "--case", "thanks", "--case", "asks", "-o", "json"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert [(run["suite"], run["case"]) for run in found["results"]] == [(suites[0], "thanks"), (suites[1], "asks")]


def test_what_has_run_is_in_the_report_though_the_next_suite_fails(
    shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (shop / "tools" / "more").mkdir()
    (shop / "tools" / "more" / "ends.py").write_text("import os\nos._exit(0)\n")
    (shop / "tests" / "more.yaml").write_text(SUITE.replace("../tools", "../tools/more"))
    suites = ["tests/evaluation.yaml", "tests/more.yaml"]
    assert main(["eval", *suites, "--case", "greets", "--junit", "junit.xml", "-o", "table"]) == 1
    assert "after 0 of 1 runs" in capfd.readouterr().err
    assert [case.attrib["name"] for case in ET.parse("junit.xml").getroot().iter("testcase")] == ["greets"]


def test_a_report_that_pytest_did_not_finish_counts_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert _counts(report)["tests"] == 0
    report.write_text("<testsuites><testsuite tests=")
    assert _counts(report)["tests"] == 0


def test_the_platform_is_imported_once_and_no_test_sees_what_another_has_left(
    own_shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (own_shop / "tools" / "told.py").write_text(
        "import os, sys\nfrom pathlib import Path\n"
        "with Path('told').open('a') as told:\n"
        "    print(os.getppid(), os.getpid(), hasattr(sys, 'left_by_a_test'), file=told)\nsys.left_by_a_test = True\n"
    )
    (own_shop / "tests" / "test_support.py").write_text("from tools import told\n\ndef test_tools(): pass\n")
    (own_shop / "tests" / "evaluation.yaml").write_text(SUITE.replace("[Thank you]", "[]"))
    assert main(["test", "-o", "table"]) == 0
    assert "1 passed" in capfd.readouterr().out
    of_pytest, of_suite, *_ = [line.split() for line in (own_shop / "told").read_text().splitlines()]
    assert of_pytest[0] == of_suite[0] and of_pytest[1] != of_suite[1]
    assert of_pytest[2] == of_suite[2] == "False"


def test_a_test_asks_the_person_who_runs_it(own_shop: Path, tmp_path: Path) -> None:
    (own_shop / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = -s\n")
    file = own_shop / "tests" / "test_support.py"
    file.write_text("def test_asks():\n    assert input() == 'yes'\n")
    command = [sys.executable, "-m", "towpath.cli", "test", str(file), "-o", "json"]
    ended = subprocess.run(command, input="yes\n", capture_output=True, text=True, check=False)
    assert (ended.returncode, json.loads(ended.stdout)["passed"]) == (0, 1)
    assert "1 passed" in ended.stderr
