"""`python -m towpath_worker [MODULE_OR_FILE…] [--builtin] [--mcp FILE]`: serves the tools that stand in the modules."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import forget_credentials, protect_process
from towpath_fabric.redaction import redact_output

if __name__ == "__main__":
    protect_process()

with paused():
    from pydantic import ValidationError

    from towpath.errors import DeclarationError, RefusedError, error_from, problem_of
    from towpath.process_arguments import WorkerArguments
    from towpath.toolbox import WorkerTools, leave_out_working_folder
    from towpath.tools.egress_rules import split_patterns
    from towpath.tools.isolation.data_folders import set_data_folder
    from towpath.tools.platform_address import PlatformAddressSettings
    from towpath.tools.sandbox import set_defaults
    from towpath_contracts.base import JsonObject
    from towpath_contracts.problems.input_faults import is_located
    from towpath_contracts.text import join_sentences
    from towpath_fabric.nats.login import LoginFileError
    from towpath_fabric.service import Service
    from towpath_fabric.settings import describe_wrong_settings
    from towpath_worker.settings import WorkerSettings
    from towpath_worker.wiring import (
        inventory,
        load_tools,
        make_worker,
        note_files_without_tools,
        note_sandboxes,
        refusal_of,
        require_sandboxes,
        tell_person,
    )


if TYPE_CHECKING:
    from towpath.project.mcp_servers import ServersFile

USAGE_ERROR = 2
"""As of the command line: `towpath.cli.shared.exit_codes`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is asked to stop; returns the exit code."""
    options = _read_arguments(sys.argv[1:] if argv is None else argv)
    if options.inspect:
        if options.mcp is None:
            return _say(DeclarationError("--inspect needs --mcp FILE"))
        return _print_servers(options.mcp)
    chosen = {"worker_concurrency": options.concurrency, "worker_sandbox": options.sandbox}
    given = {name: value for name, value in chosen.items() if value is not None}
    leave_out_working_folder()
    try:
        settings = WorkerSettings.load(**given).model_copy(update={"database_url": None})
        forget_credentials()
        redact_output()
        set_defaults(settings.worker_sandbox, split_patterns(settings.worker_sandbox_egress))
        if (state := PlatformAddressSettings().state_file) is not None:
            set_data_folder(state.parent)
        servers = _read_servers(options.mcp) if options.mcp is not None else None
        require_sandboxes(settings, servers)
        toolbox, hooks = load_tools(options.modules, with_builtin=options.builtin, allow_none=servers is not None)
    except (DeclarationError, RefusedError, ValidationError) as error:
        if options.inventory and not isinstance(error, ValidationError):
            _print_json(refusal_of(error).model_dump(mode="json"))
        return _say(error)
    if options.toolsets or options.inventory:
        return _print_served(options, toolbox, servers)
    try:
        service = Service("worker", settings)
    except LoginFileError as error:
        return _say(error)
    note_sandboxes(settings, servers, service.log)
    note_files_without_tools(options.modules, service.log)
    worker = make_worker(service, settings, toolbox, hooks, servers)
    tell_person(service, worker, toolbox)
    code = service.run()
    if worker.overrun:  # Python would wait for ever for the threads of tools that ignore their timeout
        sys.stderr.flush()
        os._exit(code)
    if service.problem is not None:
        _say(error_from(service.problem))
    return code


def _read_arguments(words: Sequence[str]) -> WorkerArguments:
    handed = WorkerArguments.handed_over(words)
    if handed is not None:
        return handed
    from towpath.cli.administration.process_commands import worker_arguments  # noqa: PLC0415 - the start of most has none

    return worker_arguments(words)


def _print_served(options: WorkerArguments, toolbox: WorkerTools, servers: "ServersFile | None") -> int:
    discovered = () if servers is None else (one.toolset or name for name, one in servers.servers.items())
    toolsets = sorted({*toolbox.toolsets(), *discovered})
    _print_json(inventory(options.modules, toolsets) if options.inventory else toolsets)
    return 0


def _say(error: Exception) -> int:
    """Print why there is no worker to stderr; returns the exit code for what whoever started it has to correct."""
    said: object = describe_wrong_settings(error) if isinstance(error, ValidationError) else error
    if isinstance(error, RefusedError) and is_located(error.problem.detail):
        said = join_sentences(error.problem.detail, error.remedy)  # of a line of a file the code says no more
    line = f"towpath worker: {said}"
    if sys.stderr.isatty():  # there it stands out from the log lines of the start, which are above it
        from rich.console import Console  # noqa: PLC0415 - the start of most refuses nothing
        from rich.text import Text  # noqa: PLC0415 - as above

        Console(stderr=True).print("", Text(line, style="bold red"), sep="\n", soft_wrap=True)
    else:
        sys.stderr.write(f"{line}\n")
    return USAGE_ERROR


def _read_servers(path: Path) -> "ServersFile":
    from towpath_worker.adapters.mcp.server_list import read_servers  # noqa: PLC0415 - brings YAML and MCP

    try:
        return read_servers(path)
    except RefusedError as error:
        if error.problem.code != "file_missing":
            raise
        raise RefusedError(error.problem.model_copy(update={"detail": f"--mcp: {error.problem.detail}"})) from error


def _print_servers(path: Path) -> int:
    """Print what the servers of the file offer, or the problem that prevents it (with exit code 2)."""
    try:
        _print_json(asyncio.run(_inspect(path)))
    except (DeclarationError, RefusedError, OSError) as error:
        _print_json(problem_of(error).model_dump(mode="json"))
        return USAGE_ERROR
    return 0


async def _inspect(path: Path) -> list[JsonObject]:
    from towpath_worker.adapters.mcp.server_list import inspect_servers, read_servers  # noqa: PLC0415 - as above

    task = asyncio.current_task()
    assert task is not None
    # Whoever started this stops it with SIGTERM; the programs of the servers must end with it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await inspect_servers(read_servers(path))


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
