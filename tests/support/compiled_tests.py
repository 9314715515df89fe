"""Compiles the test modules and what they import, once, before several processes would each do the same."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
HALVES = (("tests/unit",), ("tests", "--ignore=tests/unit"))
"""Collected side by side, on two cores: about as much to compile in each."""


def compile_tests() -> None:
    """Collect the tests of a fresh checkout in two processes, which leaves their compiled modules behind.

    Six processes that begin together compile everything six times: in a fresh clone 25 s of CPU more. What is wrong
    with a module is told by the tests themselves, which collect it again.
    """
    if any(TESTS.glob("unit/*/__pycache__/*-pytest-*.pyc")):
        return
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider")
    collecting = [
        subprocess.Popen((*command, *paths), cwd=TESTS.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for paths in HALVES
    ]
    for process in collecting:
        process.wait()
