"""Commands that become another program: `up`, `worker`, `serve`.

Services are started with `python -m` and never imported here. What is typed after `up` goes on as it is; a worker is
handed its arguments as they were read here, and has no parser of its own.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from towpath.cli.administration.platform_start import replace_process, start_platform
from towpath.cli.shared.options import STATE
from towpath.process_arguments import WorkerArguments
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import ProblemError, problem

Arguments = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
Flag = Annotated[bool, Parameter(negative="")]

PASSWORDS = Path("nats") / "passwords.json"
FOLLOWED = ("lock", "state.json", "nats", str(PASSWORDS))
"""What lies in a data folder and has to be its user's alone, before a program joins the platform there."""
SHARED_REMEDY = "Start it where the folder is yours, or name the broker yourself: TOWPATH_NATS_URL, TOWPATH_NATS_USER."

SERVICES = ("gateway", "orchestrator", "decider", "tas", "worker", "log_writer", "watchdog")


ELSEWHERE = {
    "console": ": the console is part of the gateway, so it is served by towpath serve gateway",
    "all": ": each service is a process of its own; all of them run on one machine by towpath up",
}
"""Names that people look for among the services, and what has it."""


def up(*arguments: Arguments) -> None:
    """Start the whole platform on this machine; `towpath up --help` lists its options."""
    start_platform(arguments)


def worker(
    *modules: str,
    concurrency: int | None = None,
    mcp: Path | None = None,
    sandbox: Literal["required", "preferred", "none"] | None = None,
    builtin: Flag = False,
    toolsets: Flag = False,
    inspect: Flag = False,
) -> None:
    """Run a tool worker, which serves the tools of modules and files until Ctrl-C.

    Args:
        modules: Dotted modules, or paths of .py files, with functions under @tool.
        concurrency: How many calls run at once; else TOWPATH_WORKER_CONCURRENCY, or 16.
        mcp: Serve the tools of the MCP servers in this YAML file too.
        sandbox: Run programs of tools and MCP servers in one; else TOWPATH_WORKER_SANDBOX, or none.
        builtin: Serve the built-in toolset too.
        toolsets: Print the names of the toolsets as JSON, and end.
        inspect: Print what the MCP servers offer as JSON, and end; needs --mcp.
    """
    given = WorkerArguments(
        modules=modules, concurrency=concurrency, mcp=mcp, sandbox=sandbox, builtin=builtin,
        toolsets=toolsets, inspect=inspect,
    )  # fmt: skip
    join_platform("worker")
    replace_process("towpath_worker", *given.words())


def worker_arguments(words: Sequence[str]) -> WorkerArguments:
    """Return what `towpath worker` followed by *words* says; exits where that can't be read, or asks for help."""
    return WorkerArguments.model_validate(parse_process_words(("worker", *words), worker))


def parse_process_words(words: Sequence[str], command: Callable[..., object]) -> Mapping[str, Any]:
    """Return the arguments that *words* give to *command* of the command line, which is not called."""
    from towpath.cli.app import make_app
    from towpath.cli.shared.usage_errors import usage_panel

    called, bound, _ = make_app().parse_args(list(words), error_formatter=usage_panel)
    if called is not command:  # what prints the help
        called(*bound.args, **bound.kwargs)
        sys.exit(0)
    return bound.arguments


def join_platform(user: str) -> None:
    """Let a program find the platform that runs on ./.towpath as *user*, unless the environment names a broker."""
    from towpath.client.settings import is_mine, running_state
    from towpath_fabric.settings import Settings

    if Settings().model_fields_set & {"nats_url", "nats_user"}:
        return
    state, passwords = running_state(STATE), STATE / PASSWORDS  # what the state says of files is not followed
    named = (STATE, *(STATE / name for name in FOLLOWED))
    others = [path for path in named if os.path.lexists(path) and not is_mine(path)]  # what is closed to us isn't seen
    if others:
        listed = ", ".join(map(str, others))
        detail = f"{listed}: another user's, or writable by others, so nothing there is followed or shown a password"
        raise ProblemError(problem("data_folder_shared", detail, remedy=SHARED_REMEDY))
    if state is None:
        return
    try:
        known = json.loads(passwords.read_text("utf-8"))
        owner = str(STATE.stat().st_uid)  # who made the folder runs the broker
        names = {
            "NATS_URL": state["nats_url"],
            "NATS_USER": user,
            "NATS_PASSWORD": known[user],
            "NATS_OWNER": owner,
        }
    except (OSError, ValueError, KeyError) as error:
        raise ProblemError(problem("file_missing", f"the broker's password can't be read: {error}")) from error
    names["STATE_FILE"] = str((STATE / "state.json").absolute())  # a worker hides this platform from its programs
    for name, value in names.items():
        os.putenv(f"TOWPATH_{name}", value)  # for the program this process becomes; nothing here reads it


def serve(role: str, /, *arguments: Arguments) -> None:
    """Run one service in this process, with its settings from TOWPATH_*."""
    name = role.replace("-", "_")
    if name not in SERVICES:
        hint = ELSEWHERE.get(name) or suggest_or_list(role, SERVICES)
        detail = f"{role} is no service{hint}"
        raise ProblemError(problem("not_found", detail, remedy="Name a service: towpath serve gateway."))
    words = worker_arguments(arguments).words() if name == "worker" else arguments
    replace_process(f"towpath_{name}", *words)
