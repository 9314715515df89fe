"""What a command of user code serves, so that its credential is for that and for nothing else.

The code itself is asked, by its own program; where that fails the command gets no rights, and its start says why
better than anything here could.
"""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from towpath_contracts.authority import UserRights, agent_rights, worker_rights
from towpath_embedded import process as processes
from towpath_embedded.role_process import AgentCommand, UserCode, WorkerCommand

ASK_TIMEOUT_S = 60  # imports alone take half a minute on a machine that is very busy
BUILTIN = "builtin"


async def rights_of(
    code: UserCode,
    command: Sequence[str],
    user: str,
    *,
    said: Path,
    environment: Mapping[str, str],
    spawn: processes.Spawn,
) -> UserRights:
    """Return what the credential *user* of *code* may do; *said* is the file that its program may write into."""
    project = environment.get("TOWPATH_PROJECT", "default")
    if isinstance(code, WorkerCommand):
        found = await toolsets_of(code, command, said=said, environment=environment, spawn=spawn)
        return worker_rights(user, project, found)
    name = await agent_name_of(code, command, said=said, environment=environment, spawn=spawn)
    return agent_rights(user, project, name) if name else UserRights(account=f"AGENTS_{user}", publish=(), subscribe=())


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
    return _names(await _ask_program(worker, (*command, *worker.words(), "--toolsets"), said, environment, spawn))


async def agent_name_of(
    agent: AgentCommand,
    command: Sequence[str],
    *,
    said: Path,
    environment: Mapping[str, str],
    spawn: processes.Spawn,
) -> str:
    """Return the name of *agent*, asking `command --name-only` where it is not known; empty on a failure."""
    if agent.name:
        return agent.name
    answer = _parsed(await _ask_program(agent, (*command, *agent.words(), "--name-only"), said, environment, spawn))
    return answer if isinstance(answer, str) else ""


async def _ask_program(
    code: UserCode, command: Sequence[str], said: Path, environment: Mapping[str, str], spawn: processes.Spawn
) -> str:
    """Return the last line that the program printed; empty where it failed."""
    child = spawn(
        command,
        log=said,
        environment=environment,
        death_signal=signal.SIGTERM,
        directory=code.directory or Path.cwd(),
    )
    if await processes.wait_exit(child, timeout_s=ASK_TIMEOUT_S) is None:
        await processes.stop(child, with_signal=signal.SIGKILL, timeout_s=ASK_TIMEOUT_S)
    last = (await asyncio.to_thread(processes.log_tail, said, lines=1)).strip()
    return last if child.returncode == 0 else ""


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _names(line: str) -> tuple[str, ...]:
    said = _parsed(line)
    return tuple(str(name) for name in said) if isinstance(said, list) else ()
