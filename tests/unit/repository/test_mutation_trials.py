"""A mutation that is tried leaves the file as it was, and what is said of it is what the tests said."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.mutation.__main__ import main
from tests.mutation.mutations import Mutation
from tests.mutation.trials import TestRun, tried

SOURCE = "# adds up\ndef total(items):\n    return sum(items)  # all of them\n"
TESTS = """
from shop.bills import total

def test_all_are_added():
    assert total([1, 2]) == 3

def test_one_is_itself():
    assert total([2]) == 2
"""
MAX = Mutation(symbol="shop:total", old="sum(items)", new="max(items)")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"libs/shop/__init__.py": "", "libs/shop/bills.py": SOURCE, "tests/test_bills.py": TESTS}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


class Runs:
    """Stands for pytest: ends with the given codes in turn, and keeps what the file held each time."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.held: list[str] = []

    def __call__(self, root: Path, tests: Sequence[str]) -> TestRun:
        assert list(tests) == ["tests/test_bills.py"]
        self.held.append((root / "libs/shop/bills.py").read_text("utf-8"))
        code = self.codes.pop(0)
        if code == 130:
            raise KeyboardInterrupt
        return TestRun(code=code, failures=("FAILED a_test",) if code else ())


WORDS = ("shop:total", "sum(items)", "max(items)")


def test_tests_that_are_really_run_catch_it_or_let_it_survive(root: Path) -> None:
    result = tried(MAX, ["tests/test_bills.py::test_all_are_added"], root, trusting=True)
    assert result.verdict == "caught"
    assert result.detail.startswith("FAILED tests/test_bills.py::test_all_are_added")
    assert tried(MAX, ["tests/test_bills.py::test_one_is_itself"], root, trusting=True).verdict == "survived"
    assert (root / "libs/shop/bills.py").read_text("utf-8") == SOURCE


@pytest.mark.parametrize(
    ("codes", "exit_code", "last_line"), [((0, 1), 0, "caught: FAILED a_test"), ((0, 0), 1, "survived")]
)
def test_the_command_shows_the_difference_and_says_whether_the_tests_that_are_named_caught_it(
    root: Path, capsys: pytest.CaptureFixture[str], codes: tuple[int, ...], exit_code: int, last_line: str
) -> None:
    assert main([*WORDS, "--run", "tests/test_bills.py"], root, run=Runs(*codes)) == exit_code
    said = capsys.readouterr().out.splitlines()
    assert "+    return max(items)" in said and said[-1] == last_line


def test_without_tests_the_command_shows_the_difference_and_writes_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs()
    assert main(WORDS, root, run=runs) == 0
    assert "+    return max(items)" in capsys.readouterr().out and runs.held == []


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [((0, 1), "caught"), ((0, 0), "survived"), ((1,), "broken"), ((5,), "broken"), ((0, 2), "broken")],
)
def test_tests_that_fail_as_it_is_or_cannot_be_run_catch_nothing(
    root: Path, codes: tuple[int, ...], verdict: str
) -> None:
    assert tried(MAX, ["tests/test_bills.py"], root, run=Runs(*codes)).verdict == verdict
    assert (root / "libs/shop/bills.py").read_text("utf-8") == SOURCE


def test_the_tests_run_on_the_code_as_it_is_and_then_with_the_mutation(root: Path) -> None:
    runs = Runs(0, 1)
    result = tried(MAX, ["tests/test_bills.py"], root, run=runs)
    assert ["sum(items)" in held for held in runs.held] == [True, False]
    assert (result.verdict, result.detail) == ("caught", "FAILED a_test")
    runs = Runs(1)
    assert tried(MAX, ["tests/test_bills.py"], root, trusting=True, run=runs).verdict == "caught"
    assert ["max(items)" in held for held in runs.held] == [True]


@pytest.mark.parametrize("codes", [(130,), (0, 130)])
def test_the_file_is_put_back_when_the_trial_is_interrupted(root: Path, codes: tuple[int, ...]) -> None:
    file = root / "libs/shop/bills.py"
    before = file.stat().st_mtime_ns
    with pytest.raises(KeyboardInterrupt):
        tried(MAX, ["tests/test_bills.py"], root, run=Runs(*codes))
    assert (file.read_text("utf-8"), file.stat().st_mtime_ns) == (SOURCE, before)
