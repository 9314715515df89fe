"""Several processes of one agent: for agents that compute, since Python uses one core per process.

A process that ends by itself is started again; when this one is told to stop, all are, and it ends after them.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence

RESTART_S = 1.0
"""Before a process that ended by itself is started again."""


def keep_running(count: int, words: Sequence[str]) -> int:
    """Run *count* processes with the command line *words* until SIGTERM or SIGINT; returns the exit code."""
    return asyncio.run(_keep_running(count, words))


async def _keep_running(count: int, words: Sequence[str]) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    command = (sys.executable, "-m", "towpath_agent", *words, "--count", "1")  # the last word of an option counts
    codes = await asyncio.gather(*(_keep_one(command, stopping) for _ in range(count)))
    return max(codes)


async def _keep_one(command: Sequence[str], stopping: asyncio.Event) -> int:
    stop = asyncio.create_task(stopping.wait())
    while True:
        process = await asyncio.create_subprocess_exec(*command)
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            if process.returncode is None:
                process.terminate()
            return abs(await ended)
        await asyncio.wait({stop}, timeout=RESTART_S)
        if stop.done():
            return abs(await ended)
