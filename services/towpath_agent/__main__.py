"""`python -m towpath_agent MODULE:CLASS [--count N]`: serves an agent that stands in a module or a file.

The only place where the parts of an agent's process are chosen and put together.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from towpath.agents.base import BaseAgent
from towpath.agents.lookup import find_agent
from towpath.errors import DeclarationError
from towpath.hooks import Hook
from towpath_agent.app.server import AgentOptions, AgentServer
from towpath_agent.settings import AgentSettings
from towpath_fabric.service import Service

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


USAGE_ERROR = 2
MOST_PROCESSES = 64


def arguments() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(prog="towpath agents serve", description="Serve an agent in user code.")
    parser.add_argument("target", metavar="MODULE:CLASS", help="dotted module or path of a .py file, and the class")
    parser.add_argument("--count", type=int, default=1, help="how many processes (default 1)")
    parser.add_argument("--concurrency", type=int, help="how many requests one process answers at once (default 16)")
    parser.add_argument("--name-only", action="store_true", help="print the agent's name as JSON, and end")
    return parser


def make(service: Service, settings: AgentSettings, agent: BaseAgent, hooks: Sequence[Hook]) -> AgentServer:
    """Put the server of *agent* together and add it to the service."""
    server = AgentServer(
        service.bus,
        agent,
        options=AgentOptions(
            worker=settings.instance, project=settings.project, concurrency=settings.agent_concurrency
        ),
        log=service.log,
        registry=service.registry,
        hooks=hooks,
        telemetry=service.telemetry,
    )
    service.health.check("agent", server.ready)
    service.loop(server.run)
    service.on_stop(server.stop)
    return server


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    asked = arguments().parse_args(words)
    if not 1 <= asked.count <= MOST_PROCESSES:
        sys.stderr.write(f"towpath agents: --count is 1 to {MOST_PROCESSES}\n")
        return USAGE_ERROR
    given = {} if asked.concurrency is None else {"agent_concurrency": asked.concurrency}
    try:
        settings = AgentSettings.load(**given).model_copy(update={"database_url": None})
        agent, hooks = find_agent(asked.target)
    except (DeclarationError, ValidationError) as error:
        sys.stderr.write(f"towpath agents: {error}\n")
        return USAGE_ERROR
    if asked.name_only:
        sys.stdout.write(json.dumps(agent.name) + "\n")
        sys.stdout.flush()
        return 0
    if asked.count > 1:
        return keep_running(asked.count, words)
    service = Service("agent", settings)
    make(service, settings, agent, hooks)
    return service.run()


if __name__ == "__main__":
    sys.exit(main())
