"""Starts the process that evaluates a suite: it has the services of a platform, which are never imported here."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Any

from towpath.cli.shared.child_process import LINE_BYTES, ending_with_us
from towpath.cli.shared.exit_codes import INTERRUPTED
from towpath.extras import require_packages
from towpath_contracts.problems.registry import Problem, ProblemError, problem

MODULE = "towpath_testing.evaluation"


async def evaluate(asked: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Yield what the process says of a suite, line by line.

    Raises ProblemError with a problem that it found, and `service_failed` where it ended before its last run.
    """
    require_packages("towpath_testing")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", MODULE, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    answers = SuiteAnswers()
    async with ending_with_us(process):
        process.stdin.write(json.dumps(asked).encode())  # not as an argument: it may hold a key
        process.stdin.close()
        async for line in process.stdout:
            yield answers.take(json.loads(line))
        answers.end(await process.wait(), MODULE)


class SuiteAnswers:
    """Counts what is said of a suite: a process that ends before its last run has not evaluated it."""

    def __init__(self) -> None:
        self._announced: int | None = None
        self._ended = 0

    def take(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return *found* again; raises ProblemError with the problem that it is."""
        if "problem" in found:
            raise ProblemError(Problem.model_validate(found["problem"]))
        self._announced = 0 if "left_out" in found else found.get("runs", self._announced)
        self._ended += "run" in found
        return found

    def end(self, code: int, module: str) -> None:
        """Raise ProblemError `service_failed` where something of the suite was not said before *module* ended."""
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code != 0 or self._ended != self._announced:
            known = self._announced is not None
            count = f" after {self._ended} of {self._announced} runs" if known else " before it said what it runs"
            raise ProblemError(problem("service_failed", f"{module} ended with status {code}{count}"))
