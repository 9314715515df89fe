"""Finds out what a command of user code serves, so that its credential is for that and nothing else.

The code is asked through its own program. If that fails the command gets no rights; its start then reports why, better
than this module could.
"""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from towpath_contracts.authority import NatsUserRights, agent_rights, worker_rights
from towpath_embedded.processes import child_process
from towpath_embedded.processes.role_process import AgentLaunch, UserCode, WorkerLaunch
from towpath_fabric.process_protection import without_secrets

ASK_TIMEOUT_S = 60  # imports alone take half a minute on a machine that is very busy
ANSWER_LINES = 200
"""How far before its end the answer of a program is looked for."""

BUILTIN = "builtin"

Answer = TypeVar("Answer")


async def rights_of(
    code: UserCode,
    command: Sequence[str],
    user: str,
    *,
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
) -> NatsUserRights:
    """Return what the credential *user* of *code* may do; *output* is the file that its program may write into."""
    project = environment.get("TOWPATH_PROJECT", "default")
    if isinstance(code, WorkerLaunch):
        found = await toolsets_of(code, command, output=output, environment=environment, spawn=spawn)
        return worker_rights(user, project, found)
    name = await agent_name_of(code, command, output=output, environment=environment, spawn=spawn)
    return (
        agent_rights(user, project, name)
        if name
        else NatsUserRights(account=f"AGENTS_{user}", publish=(), subscribe=())
    )


async def toolsets_of(
    worker: WorkerLaunch,
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
) -> tuple[str, ...]:
    """Return the toolsets of *worker*, asking `command --toolsets` where they can't be known without; () on a failure.

    *output* is the file that the program writes into.
    """
    if worker.builtin and not worker.modules:
        return (BUILTIN,)
    ask = (*command, *worker.arguments(names_only=True))
    return tuple(await _ask_program(worker, ask, output, environment, spawn, _names) or ())


async def agent_name_of(
    agent: AgentLaunch,
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
) -> str:
    """Return the name of *agent*, asking `command --name-only` where it is not known; empty on a failure."""
    if agent.name:
        return agent.name
    ask = (*command, *agent.arguments(names_only=True))
    return await _ask_program(agent, ask, output, environment, spawn, _name) or ""


async def _ask_program(
    code: UserCode,
    command: Sequence[str],
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
    read: Callable[[Any], Answer | None],
) -> Answer | None:
    """Return the last answer that *read* finds in a line of the program; None where it failed.

    The code that it imports may print as well, also while it ends: lines that are no answer are passed over.
    """
    child = spawn(
        command,
        log=output,
        environment=without_secrets(environment)[0],  # it imports the code, and connects to nothing
        death_signal=signal.SIGTERM,
        directory=code.directory or Path.cwd(),
    )
    if await child_process.wait_exit(child, timeout_s=ASK_TIMEOUT_S) is None:
        await child_process.stop(child, with_signal=signal.SIGKILL, timeout_s=ASK_TIMEOUT_S)
    if child.returncode != 0:
        return None
    lines = (await asyncio.to_thread(child_process.log_tail, output, lines=ANSWER_LINES)).splitlines()
    answers = (read(_parsed(line.strip())) for line in reversed(lines))
    return next((answer for answer in answers if answer is not None), None)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _names(said: Any) -> list[str] | None:
    return said if isinstance(said, list) and said and all(isinstance(name, str) for name in said) else None


def _name(said: Any) -> str | None:
    return said if isinstance(said, str) and said else None
