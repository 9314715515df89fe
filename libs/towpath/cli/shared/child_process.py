"""Runs another package of the platform as a child process: services are started with `python -m`, never imported.

A child is stopped however this process leaves, by an error or Ctrl-C too.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from towpath.cli.shared.exit_codes import INTERRUPTED, USAGE
from towpath.extras import require_packages
from towpath_contracts.problems.registry import Problem, ProblemError, problem

LINE_BYTES = 64 * 1024 * 1024
"""The document of a chaos campaign of 100,000 faults is one line."""

STOP_TIMEOUT_S = 60.0


class StoppableProcess(Protocol):
    """What is needed of a process in order to end it."""

    @property
    def returncode(self) -> int | None:
        """The exit status, once it has ended and was waited for."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""

    async def wait(self) -> int:
        """Return the exit status, once it has ended."""


async def run_module(module: str, *arguments: str, **environment: str) -> tuple[int, Any]:
    """Run `python -P -m module arguments` to its end and return its exit code and the JSON document that it printed.

    Its stderr is ours, and so is its environment but for what is named. Raises ProblemError with the problem that the
    child printed, and KeyboardInterrupt where the child was interrupted.
    """
    require_packages(module)
    return await _run(module, ("-P", "-m", module, *arguments), None, environment)


async def run_in_checkout(folder: Path, module: str, *arguments: str) -> tuple[int, Any]:
    """Do what `run_module` does, for a module of the checkout *folder* that is installed nowhere; it runs there."""
    return await _run(module, ("-m", module, *arguments), folder, {})


async def _run(
    module: str, words: Sequence[str], folder: Path | None, environment: Mapping[str, str]
) -> tuple[int, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=folder,
        stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, limit=LINE_BYTES, start_new_session=True,
        env={**os.environ, **environment},  # noqa: TID251 - handed on
    )  # fmt: skip
    async with ending_with_us(process):
        assert process.stdout is not None
        line = await process.stdout.readline()
        code = await process.wait()
    return code, _document(module, code, line)


@contextlib.asynccontextmanager
async def ending_with_us(process: StoppableProcess) -> AsyncIterator[None]:
    """End *process* with the block, however that is left; SIGTERM, which would end this process alone, goes to it."""
    loop = asyncio.get_running_loop()

    def pass_on() -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            process.terminate()

    loop.add_signal_handler(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        await stop_process(process)
        loop.remove_signal_handler(signal.SIGTERM)


def _document(module: str, code: int, line: bytes) -> Any:
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    try:
        found = json.loads(line)
    except ValueError as error:
        detail = f"{module} ended with status {code} and printed no JSON document"
        raise ProblemError(problem("service_failed", detail)) from error
    if code == USAGE or "code" in found:
        raise ProblemError(Problem.model_validate(found))
    return found


async def stop_process(process: StoppableProcess) -> None:
    """End *process* and wait for it, even while this task is being cancelled: nothing may stay behind."""
    if process.returncode is not None:
        return
    process.terminate()
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait_for(asyncio.shield(waiting), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await waiting
    except asyncio.CancelledError:
        await asyncio.wait({waiting}, timeout=STOP_TIMEOUT_S)
        raise
