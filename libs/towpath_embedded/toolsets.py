"""Which toolsets a worker command serves, so that its credential is for them and for nothing else.

Law: the worker's own code is asked, by its own program; where that fails the command gets no rights, and its start says
why better than anything here could.
"""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from towpath_embedded import process as processes
from towpath_embedded.roles import WorkerCommand

ASK_TIMEOUT_S = 60  # imports alone take half a minute on a machine that is very busy
BUILTIN = "builtin"


async def toolsets_of(
    worker: WorkerCommand,
    command: Sequence[str],
    *,
    said: Path,
    environment: Mapping[str, str],
    spawn: processes.Spawn,
) -> tuple[str, ...]:
    """Return the toolsets of *worker*, asking `command --toolsets` where they can't be known without; () on a failure.

    *said* is the file that the program writes into.
    """
    if worker.builtin and not worker.modules:
        return (BUILTIN,)
    child = spawn(
        (*command, *worker.words(), "--toolsets"),
        log=said,
        environment=environment,
        death_signal=signal.SIGTERM,
        directory=worker.directory or Path.cwd(),
    )
    if await processes.wait_exit(child, timeout_s=ASK_TIMEOUT_S) is None:
        await processes.stop(child, with_signal=signal.SIGKILL, timeout_s=ASK_TIMEOUT_S)
    last = (await asyncio.to_thread(processes.log_tail, said, lines=1)).strip()
    return _names(last) if child.returncode == 0 else ()


def _names(line: str) -> tuple[str, ...]:
    try:
        said = json.loads(line)
    except ValueError:
        return ()
    return tuple(str(name) for name in said) if isinstance(said, list) else ()
