"""What is wrong with the files of a start, found before anything is started: `towpath up --strict`.

The policy is read by the code that applies it, and tools by the program that serves them, each in a process of its own.
Which tools are registered only a platform knows, so a network with one that is not is refused by its start.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from towpath.errors import RefusedError
from towpath.networks.script_files import TASK, played_scripts, read_script_file, script_path
from towpath.networks.spec_files import declared_twice, load_network
from towpath.project.network_files import has_network, network_files
from towpath_contracts.network_checks.network_agents import graph_problems
from towpath_contracts.network_checks.swarms import swarm_problems
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm_members import members_by_swarm
from towpath_contracts.problems.input_faults import locate_fault
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_embedded.console import UpConsole
from towpath_embedded.launch_options import own_worker, policy_file
from towpath_embedded.network_files.network_folder import network_faults
from towpath_embedded.network_files.script_watch import script_folder
from towpath_embedded.processes import child_process, role_process
from towpath_embedded.refused_files import FileFate, RefusedFiles
from towpath_embedded.start_checks import UpOptions, check_syntax, refused_at_start
from towpath_embedded.user_code_rights import inventory_of

POLICY_READER = "towpath_tas.app.policy.policy_test_runner"


async def check_strictly(options: UpOptions, screen: UpConsole) -> None:
    """Tell what is wrong with each file, and raise ProblemError `project_invalid` with all of it."""
    refused = RefusedFiles(screen.refused, lambda _faults: None)
    policy = policy_file(options)
    with screen.working("Checking", "the files"):
        of_policy, of_tools = await asyncio.gather(_policy_faults(policy), _tool_faults(options))
    if policy is not None:
        refused.put(policy.name, of_policy, FileFate.NEW)
    for path, faults in () if options.networks is None else _network_faults(options.networks):
        refused.put(str(path), faults, FileFate.NEW)
    refused.put(", ".join(_named(options.workers, of_tools)), of_tools, FileFate.NEW)
    if refused.faults:
        raise ProblemError(refused_at_start(refused.faults))


async def _policy_faults(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        text = await asyncio.to_thread(path.read_text, "utf-8")
    except (OSError, ValueError) as error:
        return [f"{path.name}: it can't be read: {' '.join(str(error).split())}"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", POLICY_READER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        told, _ = await process.communicate(json.dumps({"test": None, "policy": text}).encode())
    finally:  # also where nobody waits for the answer any more
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    found: dict[str, Any] = json.loads(told or b"{}")
    return [locate_fault(path.name, one["detail"]) for one in found.get("problems", ())]


async def _tool_faults(options: UpOptions) -> list[str]:
    worker = own_worker(options)
    with tempfile.TemporaryDirectory(prefix="towpath-check-") as folder:
        try:
            check_syntax(options.workers)  # of all of them; the import ends at the first
            await inventory_of(
                worker,
                role_process.module_command(worker.role),
                output=Path(folder) / "served",
                environment=role_process.inherited(worker.role),
                spawn=partial(child_process.spawn, umask=child_process.current_umask()),
            )
        except ProblemError as error:
            return _details(error.problem)
    return []


def _named(workers: Sequence[str], faults: Sequence[str]) -> Sequence[str]:
    """Return those of *workers* that *faults* name at their beginnings; all where they name none."""
    return [one for one in workers if any(fault.startswith(f"{one}:") for fault in faults)] or workers


def _details(found: Problem) -> list[str]:
    return [one.detail for one in found.errors] or [found.detail]


def _network_faults(place: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each file of networks and scripts at *place* with what is wrong with it, which may be nothing."""
    named: dict[str, Path] = {}
    players: dict[str, list[str]] = {}
    for path in network_files(place):
        try:
            if not _is_network(path):
                continue
            spec = load_network(path)
            if spec.name in named:
                raise declared_twice(path, spec.name, named[spec.name])
        except RefusedError as error:
            yield path, _details(error.problem)
            continue
        named[spec.name] = path
        yield path, _graph_faults(path, spec)
        for name, agents in played_scripts(spec.model_dump(mode="json")).items():
            players.setdefault(name, []).extend(agents)
    for name, agents in players.items():
        if name != TASK:
            folder = script_folder(place)
            yield script_path(folder, name), read_script_file(script_path(folder, name), folder, agents)[1]


def _is_network(path: Path) -> bool:
    """Return whether *path* has a network, also one that can't be read."""
    try:
        return has_network(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, ValueError, yaml.YAMLError):
        return True


def _graph_faults(path: Path, spec: NetworkSpec) -> list[str]:
    """Return what is wrong with the agents of *spec* beside each other, with its lines in *path*."""
    rosters = members_by_swarm(spec)
    found = (*graph_problems(rosters), *swarm_problems(rosters))
    return network_faults(path, RefusedError(problem("network_invalid", "", errors=found))) if found else []
