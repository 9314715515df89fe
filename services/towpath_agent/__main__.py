"""`python -m towpath_agent MODULE:CLASS [--count N]`: serves an agent that stands in a module or a file.

With `--count` this process runs several others: an agent that computes needs a process per core. One that ends by
itself is started again; when this one is asked to stop, all are, and it ends after them.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import forget_credentials, protect_process, secrets_pipe

if __name__ == "__main__":
    protect_process()

with paused():
    from pydantic import ValidationError

    from towpath.errors import DeclarationError
    from towpath.process_arguments import AgentArguments
    from towpath.toolbox import leave_out_working_folder
    from towpath_agent.settings import AgentSettings
    from towpath_agent.wiring import find_agent, make_agent_server
    from towpath_fabric.service import Service
    from towpath_fabric.settings import describe_wrong_settings
    from towpath_fabric.startup.process_end import run_process


USAGE_ERROR = 2
MAX_PROCESSES = 64
RESTART_S = 1.0
"""Before a process that ended by itself is started again."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until asked to stop; returns the exit code."""
    options = _read_arguments(sys.argv[1:] if argv is None else argv)
    if not 1 <= options.count <= MAX_PROCESSES:
        sys.stderr.write(f"towpath agents: --count is 1 to {MAX_PROCESSES}\n")
        return USAGE_ERROR
    given = {} if options.concurrency is None else {"agent_concurrency": options.concurrency}
    leave_out_working_folder()
    try:
        settings = AgentSettings.load(**given).model_copy(update={"database_url": None})
        credentials = forget_credentials()
        agent, hooks = find_agent(options.target)
    except ValidationError as error:
        sys.stderr.write(f"towpath agents: {describe_wrong_settings(error)}\n")
        return USAGE_ERROR
    except DeclarationError as error:
        sys.stderr.write(f"towpath agents: {error}\n")
        return USAGE_ERROR
    if options.name_only:
        sys.stdout.write(json.dumps(agent.name) + "\n")
        sys.stdout.flush()
        return 0
    if options.count > 1:
        return asyncio.run(_run_processes(options, credentials))
    return run_process("agent", lambda: settings, lambda _settings: _serve(settings, agent, hooks))


def _read_arguments(words: Sequence[str]) -> AgentArguments:
    handed = AgentArguments.handed_over(words)
    if handed is not None:
        return handed
    from towpath.cli.administration.agents_commands import agent_arguments  # noqa: PLC0415 - the start of most has none

    return agent_arguments(words)


def _serve(settings: AgentSettings, agent: Any, hooks: Any) -> int:
    service = Service("agent", settings)
    make_agent_server(service, settings, agent, hooks)
    return service.run()


async def _run_processes(options: AgentArguments, credentials: Mapping[str, str]) -> int:
    """Run as many processes as *options* say until SIGTERM or SIGINT; returns the exit code.

    They get *credentials* on top of this process's environment.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    command = (sys.executable, "-P", "-m", "towpath_agent", *options.model_copy(update={"count": 1}).words())
    codes = await asyncio.gather(*(_keep_running(command, credentials, stopping) for _ in range(options.count)))
    return max(codes)


async def _keep_running(command: Sequence[str], credentials: Mapping[str, str], stopping: asyncio.Event) -> int:
    stop = asyncio.create_task(stopping.wait())
    while True:
        with secrets_pipe(credentials) as (descriptors, variables):
            process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=descriptors,
                env={**os.environ, **variables},  # noqa: TID251 - what user code finds there is not known here
            )
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        if stop.done():
            if process.returncode is None:
                process.terminate()
            return abs(await ended)
        await asyncio.wait({stop}, timeout=RESTART_S)
        if stop.done():
            return abs(await ended)


if __name__ == "__main__":
    sys.exit(main())
