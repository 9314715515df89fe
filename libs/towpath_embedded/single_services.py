"""`towpath up --only gateway,worker`: the named services alone, beside servers that run already.

These are the ones that the environment names, or else those of the platform on the data folder. Nothing else is
started, and nothing that ran before is stopped.
"""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.console import UpConsole
from towpath_embedded.launch_options import mcp_worker, own_worker, policy_environment, role_environment
from towpath_embedded.local_access import LocalAccess
from towpath_embedded.platform_state import refuse_shared_folder
from towpath_embedded.processes.ports import LOOPBACK
from towpath_embedded.processes.role_process import RoleProcess, WorkerLaunch, module_command
from towpath_embedded.processes.supervisor import Supervisor
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.running_servers import RunningServers, environment_beside_named
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.terminal.log_notices import show_log_line
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_fabric.clock import monotonic, process_began
from towpath_fabric.settings import Settings
from towpath_fabric.telemetry.log_follower import LogFollower

SERVICES = ("gateway", "orchestrator", "decider", "tas", "worker", "log_writer", "watchdog")
STOP_ORDER = ("watchdog", "gateway", "worker", "decider", "orchestrator", "tas", "log_writer")

SET_UP = (
    "Start them: python -m towpath_embedded servers, or towpath up; or name your own: TOWPATH_NATS_URL and "
    "TOWPATH_DATABASE_URL."
)


def services_of(words: str) -> tuple[str, ...]:
    """Return the services that `--only` names, with commas between; ProblemError `not_found` for an unknown one."""
    names = tuple(dict.fromkeys(word.strip().replace("-", "_") for word in words.split(",") if word.strip()))
    for name in names:
        if name not in SERVICES:
            detail = f"--only: {name} is no service{suggest_or_list(name, SERVICES)}"
            raise ProblemError(
                problem("not_found", detail, remedy="Name them as in: towpath up --only gateway,worker.")
            )
    if not names:
        raise ProblemError(problem("request_invalid", f"--only names no service; there are {', '.join(SERVICES)}"))
    return names


async def run_only(options: UpOptions, screen: UpConsole, stopping: asyncio.Event) -> int:
    """Run the services of *options* until *stopping*; returns the exit status."""
    began, services = process_began(), services_of(options.only)
    units = await asyncio.to_thread(_units, options, services)
    supervisor = Supervisor(screen.notice, lambda: None, working=screen.working)
    show = partial(show_log_line, screen, RefusedFiles(screen.refused, lambda _: None), ServedTools(), ())
    ours = {unit.name for unit in units}
    logs = LogFollower(units[0].log.parent, lambda name, line: show(name, line) if name in ours else None)
    following = asyncio.create_task(logs.follow())
    starting = asyncio.create_task(supervisor.start(units))
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()  # its problem, if it has one
            screen.services(_described(units), seconds=monotonic() - began)
            await waiting
            screen.notice("stopping these services; everything else goes on")
        return 0
    finally:
        for task in (starting, waiting, following):
            task.cancel()
        await asyncio.gather(starting, waiting, following, return_exceptions=True)
        role_of = {unit.name: unit.name.partition("-")[0] for unit in units}
        await supervisor.stop([[name for name in role_of if role_of[name] == role] for role in STOP_ORDER])


def _units(options: UpOptions, services: tuple[str, ...]) -> list[RoleProcess]:
    data = options.data.absolute()
    own = bool(Settings().model_fields_set & {"nats_url"})
    servers = None if own else RunningServers.on(data)
    if servers is None and not own:
        detail = f"--only {','.join(services)} starts no NATS and no Postgres, and none of yours run on {options.data}"
        raise ProblemError(problem("not_found", detail, remedy=SET_UP))
    access = LocalAccess(data, os.environ.get("TOWPATH_AUTH", "auto"))
    logs = _log_folder(data)
    units = []
    for role in services:
        for number, launch in enumerate(_launches(options) if role == "worker" else [None], 1):
            name = f"{role}-only" if number == 1 else f"{role}-only-{number}"
            instance = f"{name}-{os.getpid()}"  # two of them never take each other's leases
            known = (
                environment_beside_named(role) if servers is None else servers.environment_of(role, instance, access)
            )
            more = {**policy_environment(options), **role_environment(options).get(role, {})}
            is_gateway = role == "gateway"
            units.append(
                RoleProcess(
                    name,
                    (*module_command(role), *(launch.arguments() if launch else ())),
                    log=logs / f"{name}.log",
                    environment={**known, "TOWPATH_INSTANCE": instance, **more},
                    port_variable="TOWPATH_GATEWAY_PORT" if is_gateway else "TOWPATH_HEALTH_PORT",
                    port=options.gateway_port if is_gateway else None,
                    keeps_port=True,
                )
            )
    return units


def _launches(options: UpOptions) -> list[WorkerLaunch]:
    return [own_worker(options), *([mcp_worker(options)] if options.mcp is not None else [])]


def _log_folder(data: Path) -> Path:
    data.mkdir(mode=0o711, parents=True, exist_ok=True)
    refuse_shared_folder(data, os.geteuid())
    (data / "logs").mkdir(mode=0o700, exist_ok=True)
    return data / "logs"


def _described(units: list[RoleProcess]) -> dict[str, Any]:
    """Return where the services answer, as `--json` prints it."""
    return {
        "schema_version": 1,
        "pid": os.getpid(),
        "gateway_url": next((_address(unit) for unit in units if unit.name == "gateway-only"), None),
        "processes": {
            unit.name: {
                "pid": None if unit.process is None else unit.process.pid,
                "restarts": 0,
                "log": str(unit.log),
                "health_url": _address(unit),
            }
            for unit in units
        },
    }


def _address(unit: RoleProcess) -> str:
    return f"http://{LOOPBACK}:{unit.port}"
