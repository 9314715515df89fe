"""Finds out what a command of user code serves, so that its credential is for that and nothing else.

The code is asked through its own program, which also says why its tools can't be served: that is raised. Where it fails
otherwise the command gets no rights; its start then reports why, better than this module could.
"""

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from towpath_contracts.authority import NatsUserRights, agent_rights, worker_rights
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_embedded.processes import child_process
from towpath_embedded.processes.role_process import AgentLaunch, UserCode, WorkerLaunch
from towpath_embedded.processes.supervisor import KILL_TIMEOUT_S
from towpath_fabric.process_protection import without_secrets

ASK_TIMEOUT_S = 60  # imports alone take half a minute on a machine that is very busy
ANSWER_LINES = 200
"""How far before its end the answer of a program is looked for."""

ANSWER_BYTES = 4 * 1024 * 1024
"""How much of its output is looked through: an answer has every imported file of a user's folder, in one line."""

BUILTIN = "builtin"

REFUSED = 2
"""How a program ends whose code has to be corrected."""

Answer = TypeVar("Answer")


class WorkerInventory(NamedTuple):
    """What a worker serves: its toolsets, the tools of each of its modules, and the files that these were read from."""

    toolsets: tuple[str, ...] = ()
    tools: Mapping[str, tuple[str, ...]] = {}
    files: tuple[Path, ...] = ()


async def rights_of(
    code: UserCode,
    command: Sequence[str],
    user: str,
    *,
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
) -> tuple[NatsUserRights, WorkerInventory]:
    """Return what the credential *user* of *code* may do, and what a worker serves.

    *output* is the file that its program may write into.
    """
    project = environment.get("TOWPATH_PROJECT", "default")
    if isinstance(code, WorkerLaunch):
        found = await inventory_of(code, command, output=output, environment=environment, spawn=spawn)
        return worker_rights(user, project, found.toolsets), found
    name = await agent_name_of(code, command, output=output, environment=environment, spawn=spawn)
    nothing = NatsUserRights(account=f"AGENTS_{user}", publish=(), subscribe=())
    return agent_rights(user, project, name) if name else nothing, WorkerInventory()


async def inventory_of(
    worker: WorkerLaunch,
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
) -> WorkerInventory:
    """Return what *worker* serves, asking its program where that can't be known without; nothing on a failure.

    *output* is the file that the program writes into. Raises the ProblemError by which it refuses its modules.
    """
    if worker.builtin and not worker.modules:
        return WorkerInventory((BUILTIN,))
    ask = (*command, *worker.arguments(names_only=True))
    found = await _ask_program(worker, ask, output, environment, spawn, _inventory)
    if isinstance(found, Problem):
        raise ProblemError(found)
    return found or WorkerInventory()


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
    found = await _ask_program(agent, ask, output, environment, spawn, _name)
    return found if isinstance(found, str) else ""


async def _ask_program(
    code: UserCode,
    command: Sequence[str],
    output: Path,
    environment: Mapping[str, str],
    spawn: child_process.ProcessSpawner,
    read: Callable[[Any], Answer | None],
) -> Answer | Problem | None:
    """Return the last answer that *read* finds in a line of the program, or its refusal; None on another failure.

    The code that it imports may print as well, also while it ends: lines that are no answer are passed over. Raises
    ProblemError where the program does not end in time.
    """
    since = child_process.log_end(output)
    child = spawn(
        command,
        log=output,
        environment=_for_import(environment),
        death_signal=signal.SIGTERM,
        directory=code.directory or Path.cwd(),
    )
    try:
        ended = await child_process.wait_exit(child, timeout_s=ASK_TIMEOUT_S)
    finally:  # also where nobody waits for the answer any more
        child.kill()
        with contextlib.suppress(TimeoutExpired):
            child.wait(KILL_TIMEOUT_S)
    if ended is None:
        detail = f"{code.role}: nothing was answered within {ASK_TIMEOUT_S} s: its code waits while it is imported"
        remedy = "Have what waits or loops done by a function, and not by the module itself."
        raise ProblemError(problem("service_failed", detail, remedy=remedy))
    if child.returncode not in {0, REFUSED}:
        return None
    read_end = partial(child_process.log_tail, output, lines=ANSWER_LINES, since=since, most_bytes=ANSWER_BYTES)
    told = await asyncio.to_thread(read_end)
    lines = told.splitlines()
    look_for: Callable[[Any], Answer | Problem | None] = read if child.returncode == 0 else _problem
    answers = (look_for(_parsed(line.strip())) for line in reversed(lines))
    return next((answer for answer in answers if answer is not None), None)


def _for_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Return *environment* without the platform's secrets: what is asked connects to nothing, and imports the code."""
    plain, secrets = without_secrets(environment)
    return {**plain, **{name: value for name, value in secrets.items() if not name.startswith("TOWPATH_")}}


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _inventory(said: Any) -> WorkerInventory | None:
    try:
        tools = {str(module): tuple(map(str, names)) for module, names in said["tools"].items()}
        files = tuple(Path(file) for file in said["files"])
        return WorkerInventory(tuple(map(str, said["toolsets"])), tools, files)
    except (KeyError, TypeError, AttributeError):
        return None


def _problem(said: Any) -> Problem | None:
    try:
        return Problem.model_validate(said)
    except ValidationError:
        return None


def _name(said: Any) -> str | None:
    return said if isinstance(said, str) and said else None
