"""`python -P -m towpath_testing.project_tests STDIN STDOUT`: the tests of a project, for `towpath test`.

The platform is imported once, which takes longer than most tests, and each file is tested by a fork: what a test leaves
behind is not seen by the next. They run one after the other, since the tools of a project may share files and ports.
This process has no thread and no event loop, because a fork would break them.

Reads a `ProjectTests` from stdin and writes JSON lines to stdout: those of a test, and a line with its exit status.
What most projects need is imported until the request is there: `towpath test` starts this before it looks for tests.
STDIN and STDOUT are descriptors for pytest, whose debugger asks the person at the terminal.
"""

import gc
import importlib
import json
import os
import select
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict

from towpath_fabric.garbage_collector import without_collections

INTERRUPTED = 130
_OWN_PLUGIN = "ignore:Module already imported so cannot be rewritten; towpath:pytest.PytestAssertRewriteWarning"
"""pytest would rewrite the assertions of each package that has a plugin, and those of the platform are imported."""

_running: list[int] = []


class ProjectTest(BaseModel):
    """What one fork does: *asked* are the words of pytest, or the request of an evaluation or a policy test."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["pytest", "Evaluation", "PolicyTest"]
    asked: Any


class ProjectTests(BaseModel):
    """The tests, in their order."""

    model_config = ConfigDict(frozen=True)

    tests: tuple[ProjectTest, ...]
    to_stderr: bool = False
    """Whether a program reads what the command prints, so that pytest prints to stderr."""


_OF_TOOLS = ("griffe", "jsonschema_rs", "cel")
"""Read the docstrings of tools, and check their arguments and the conditions of a policy."""

_OF_RUNS = ("pytest", "Evaluation")
"""The kinds whose forks have a harness."""

_MODULES = {
    "pytest": ("pytest", "_pytest.junitxml", "towpath.testing", *_OF_TOOLS),
    "Evaluation": ("towpath_testing.evaluation.__main__", "towpath_decider.adapters.keyed_providers", *_OF_TOOLS),
    "PolicyTest": ("towpath_tas.app.policy.policy_test_runner",),
}


_MEANWHILE = (
    "pytest",
    "towpath_contracts.events.log",
    "towpath_tas.app.policy.policy_test_runner",
    "towpath_testing.platform",
    *_MODULES["pytest"],
    "towpath_testing.evaluation.__main__",
)


def main(words: list[str]) -> int:
    """Run what stdin asks for; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to the tests as well, and who started this ends it
    signal.signal(signal.SIGTERM, _end_running)
    descriptors = [int(word) for word in words]
    with without_collections():
        _import_until_asked()
        request = sys.stdin.buffer.read()
        if not request:  # there is nothing to test, or who started this has ended
            return 0
        wanted = ProjectTests.model_validate_json(request)
        if wanted.to_stderr:
            os.dup2(2, descriptors[1])
        for kind in {test.kind for test in wanted.tests}:
            for module in _MODULES[kind]:
                importlib.import_module(module)
        if sum(test.kind in _OF_RUNS for test in wanted.tests) > 1:
            _build_messages()
    gc.freeze()  # collections in forks leave all this alone
    for test in wanted.tests:
        status = _in_fork(test, descriptors)
        print(json.dumps({"status": status}), flush=True)  # noqa: T201 - it is the answer
        if status == INTERRUPTED:
            return status
    return 0


def _import_until_asked() -> None:
    """Import step by step: where the request comes meanwhile, only what it needs is imported further."""
    for module in _MEANWHILE:
        if select.select([sys.stdin], [], [], 0)[0]:
            return
        importlib.import_module(module)


def _build_messages() -> None:
    """Build what reads and writes the largest messages of every run, which each fork would build for itself."""
    from towpath_contracts.events.log import LogEntry, RunCreated, event_adapter  # noqa: PLC0415 - few tests need it
    from towpath_contracts.facts import fact_adapter  # noqa: PLC0415 - as above
    from towpath_contracts.networks.spec import NetworkSpec  # noqa: PLC0415 - as above
    from towpath_contracts.tasks import SubmitTask  # noqa: PLC0415 - as above

    for message in (SubmitTask, NetworkSpec, RunCreated, LogEntry):
        message.model_rebuild()
    for adapter in (event_adapter, fact_adapter):
        adapter.rebuild()


def _in_fork(test: ProjectTest, descriptors: list[int]) -> int:
    """Return the exit status of *test*; one that a signal ended is negative."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        status = _run(test, descriptors)
        if test.kind in _OF_RUNS:
            sys.exit(status)  # what tests and tools have registered for the end of a process is called
        _end_at_once(status)
    _running[:] = [pid]
    _, status = os.waitpid(pid, 0)
    _running.clear()
    return os.waitstatus_to_exitcode(status)


def _end_at_once(status: int) -> NoReturn:
    """End without taking down what was imported, one after the other, which takes as long as many tests."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _end_running(number: int, _frame: FrameType | None) -> None:
    """End as the signal says, and the test that runs with it."""
    for pid in _running:
        os.kill(pid, number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _run(test: ProjectTest, descriptors: list[int]) -> int:
    match test.kind:
        case "pytest":
            return _pytest(test.asked, descriptors)
        case "Evaluation":
            from towpath_testing.evaluation.__main__ import answer  # noqa: PLC0415 - few tests need all kinds

            return answer(json.dumps(test.asked))
        case "PolicyTest":
            from towpath_tas.app.policy.policy_test_runner import run_test  # noqa: PLC0415 - as above

            print(json.dumps(run_test(test.asked)), flush=True)  # noqa: T201 - as above
            return 0


def _pytest(words: list[str], descriptors: list[int]) -> int:
    import pytest  # noqa: PLC0415 - as above

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # it was opened on the pipe
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m pytest` does
    sys.argv = [pytest.__file__, *words]
    return int(pytest.main(["-W", _OWN_PLUGIN, *words]))


if __name__ == "__main__":
    _end_at_once(main(sys.argv[1:]))
