"""`towpath down`: stops the platform that `towpath up` runs on a folder, from another terminal."""

import asyncio
import os
import signal
from pathlib import Path

from towpath.cli.shared.options import OUTPUT_OPTIONS, STATE, OutputOptions
from towpath_contracts.problems.registry import ProblemError, problem

WAIT_S = 60.0
"""Longer than the platform takes to stop in order, with calls that use all of their time."""

STOP_POLL_S = 0.1


async def down(*, data: Path = STATE, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Stop the platform that towpath up runs in this folder, as Ctrl-C does in its terminal, and wait until it is gone.

    Unfinished runs are kept, and go on with the next start.

    Args:
        data: The data folder of the platform, where it was started with --data.
    """
    from towpath.client.settings import platform_pid

    out, pid = printed.out(), platform_pid(data)
    if pid is not None:
        with out.progress(f"Stopping the platform on {data}, pid {pid}"):
            await _stop(data, pid)
    out.write(f"no platform of yours runs on {data}" if pid is None else f"stopped: the platform on {data}, pid {pid}")
    if not out.for_people:
        out.data({"data": str(data), "pid": pid})


async def _stop(data: Path, pid: int) -> None:
    """Ask the process to end, and wait until nothing holds *data*; raises ProblemError where that takes too long."""
    from towpath.client.settings import platform_pid

    try:
        os.kill(pid, signal.SIGTERM)
        async with asyncio.timeout(WAIT_S):
            while platform_pid(data) == pid:  # noqa: ASYNC110 - no child of ours, so its end is not reported
                await asyncio.sleep(STOP_POLL_S)
    except ProcessLookupError:
        return
    except TimeoutError:
        detail = f"the platform on {data} was asked to stop, and its process {pid} still runs after {WAIT_S:.0f} s"
        raise ProblemError(problem("already_up", detail, remedy="Look at its terminal, or: towpath logs")) from None
