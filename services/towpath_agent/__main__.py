"""`python -m towpath_agent MODULE:CLASS [--count N]`: serves an agent that stands in a module or a file.

With `--count` this process runs several others: an agent that computes needs a process per core. One that ends by
itself is started again; when this one is asked to stop, all are, and it ends after them.
"""

import argparse
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


def make_parser() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(
        prog="towpath agents serve",
        description="Serve an agent in user code.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Examples:\n  towpath agents serve agents.review:Reviewer\n"
        "  towpath agents serve agents/review.py:Reviewer --count 2",
    )
    parser.add_argument("target", metavar="MODULE:CLASS", help="dotted module or path of a .py file, and the class")
    parser.add_argument("--count", type=int, default=1, help="how many processes (default 1)")
    parser.add_argument("--concurrency", type=int, help="how many requests one process answers at once (default 16)")
    parser.add_argument("--name-only", action="store_true", help="print the agent's name as JSON, and end")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until asked to stop; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = make_parser().parse_args(arguments)
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
        return asyncio.run(_run_processes(options.count, arguments, credentials))
    return run_process("agent", lambda: settings, lambda _settings: _serve(settings, agent, hooks))


def _serve(settings: AgentSettings, agent: Any, hooks: Any) -> int:
    service = Service("agent", settings)
    make_agent_server(service, settings, agent, hooks)
    return service.run()


async def _run_processes(count: int, arguments: Sequence[str], credentials: Mapping[str, str]) -> int:
    """Run *count* processes with the command line *arguments* until SIGTERM or SIGINT; returns the exit code.

    They get *credentials* on top of this process's environment.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    command = (sys.executable, "-P", "-m", "towpath_agent", *arguments, "--count", "1")  # an option's last value counts
    codes = await asyncio.gather(*(_keep_running(command, credentials, stopping) for _ in range(count)))
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
