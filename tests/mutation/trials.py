"""Tries a mutation: writes it to its file, runs tests, and puts the file back as it was.

The tests run on the code as it is first, in the form in which mutated files are written: tests that fail anyway notice
nothing. The file is put back however the trial ends, Ctrl-C included.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutation.mutations import Mutation, mutated_file, printed
from tests.support.places import ROOT

TIMEOUT_S = 900

Verdict = Literal["caught", "survived", "broken"]
"""Tests failed; all passed; or nothing can be said, as they fail without the mutation or can't be run with it."""


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What became of a mutation; `detail` names the first test that failed, or says why nothing can be said."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class TestRun:
    """The end of pytest: its exit code, and the lines of its output that name what failed."""

    __test__ = False  # pytest collects no class of this name

    code: int
    failures: tuple[str, ...] = ()


RunTests = Callable[[Path, Sequence[str]], TestRun]


def run_pytest(root: Path, tests: Sequence[str]) -> TestRun:
    """Run *tests* on the checkout *root* until the first one fails."""
    paths = os.pathsep.join(str(root / part) for part in ("libs", "services", "."))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            words, cwd=root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return TestRun(code=1, failures=(f"not finished after {TIMEOUT_S} s",))  # what hangs is noticed
    lines = (*done.stdout.splitlines(), *done.stderr.splitlines())
    return TestRun(code=done.returncode, failures=tuple(li for li in lines if li.startswith(("FAILED", "ERROR"))))


def tried(
    mutation: Mutation, tests: Sequence[str], root: Path = ROOT, *, trusting: bool = False, run: RunTests = run_pytest
) -> TrialResult:
    """Say whether *tests* notice *mutation*; raises MutationError, with nothing changed, where it can't be made.

    With *trusting* they are known to pass on the code as it is.
    """
    made = mutated_file(mutation, root)
    with _kept(made.path):
        if not trusting:
            _write(made.path, printed(made.path), 1)
            before = run(root, tests)
            if before.code != 0:
                return TrialResult(verdict="broken", detail=_told("the tests fail as it is", before))
        _write(made.path, made.source, 2)
        done = run(root, tests)
    if done.code == 0:
        return TrialResult(verdict="survived")
    if done.code == 1:
        return TrialResult(verdict="caught", detail="; ".join(done.failures))
    return TrialResult(verdict="broken", detail=_told("the mutant can't be tested", done))


def _told(what: str, done: TestRun) -> str:
    return "; ".join((f"{what} (pytest ended with {done.code})", *done.failures))


def _write(path: Path, source: str, version: int) -> None:
    """Write *path* with a time of its own: Python tells compiled forms apart by whole seconds and sizes alone."""
    path.write_text(source, "utf-8")
    stat = path.stat()
    os.utime(path, (stat.st_atime, int(stat.st_mtime) + 2 * version))


@contextlib.contextmanager
def _kept(path: Path) -> Iterator[None]:
    """Put *path* back at the end, with its times too, so that its compiled form stays valid."""
    whole, stat = path.read_bytes(), path.stat()
    try:
        yield
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
