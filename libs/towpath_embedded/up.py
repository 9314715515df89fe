"""`towpath up`: the whole platform in one terminal, from the first line to an ordered stop.

What can't be done is reported with its remedy and without a traceback. Ctrl-C always stops everything.
"""

import asyncio
import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.console import UpConsole
from towpath_embedded.followers import finished_first, keep_following, stop_on_signals
from towpath_embedded.launch_options import (
    mcp_worker,
    own_worker,
    policy_environment,
    policy_file,
    role_environment,
    sample_environment,
    with_project,
    with_sample,
    workers,
)
from towpath_embedded.local_access import NO_AUTHORITIES, OPEN_TO_ALL
from towpath_embedded.network_files.script_watch import ScriptWatch, script_folder
from towpath_embedded.platform import Platform
from towpath_embedded.platform_state import keep_ports, last_ports
from towpath_embedded.processes.child_process import PRIVATE_UMASK, with_log_gone
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_embedded.start_checks import (
    UpOptions,
    check_attached,
    check_files,
    check_only,
    check_syntax,
    refused_at_start,
)
from towpath_embedded.terminal.log_notices import Told, read_at_start, show_log_line, tell_warnings
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_fabric.clock import monotonic, process_began
from towpath_fabric.telemetry.log_follower import LogFollower

if TYPE_CHECKING:
    from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
    from towpath_embedded.terminal.live_view import LiveView
    from towpath_embedded.terminal.worker_reload import WorkerReload
    from towpath_embedded.terminal.worker_replacement import AfterReload

DEMO_MODEL = "gemini:gemini-2.5-flash"
"""Who decides in the sample where there is a key."""

UNFINISHED = ("queued", "running", "waiting", "cancelling")
PAGE = 200
GATEWAY_TIMEOUT_S = 2.0  # the count of unfinished runs never holds up a stop for longer


def up(options: UpOptions) -> int:
    """Run the platform until Ctrl-C or SIGTERM; return the exit status."""
    screen = UpConsole(as_json=options.as_json, shows_logs=options.logs)
    try:
        if options.attach:
            check_attached(options)
            return asyncio.run(_attach(options, screen))
        options = with_project(options)
        screen.stops_where_refused = options.strict
        check_files(options)
        check_syntax(() if options.strict else options.workers)  # strict reads them with everything else
        if options.only:
            check_only(options)
            return asyncio.run(_run_only(options, screen))
        with _data_folder(options) as data:
            return asyncio.run(_run(with_sample(options, data), data, screen))
    except ProblemError as error:
        from towpath.cli.shared.exit_codes import exit_code  # what no other start needs

        screen.problem(with_log_gone(error.problem) if options.ephemeral else error.problem)
        return exit_code(error.problem)
    except KeyboardInterrupt:  # before the loop took over the signals
        return 130


async def _attach(options: UpOptions, screen: UpConsole) -> int:
    from towpath_embedded.attached_view import attach  # an HTTP client, which no start waits for

    return await attach(options.data, screen, stop_on_signals())


async def _run_only(options: UpOptions, screen: UpConsole) -> int:
    from towpath_embedded.single_services import run_only  # what no other start needs

    return await run_only(options, screen, stop_on_signals())


async def _run(options: UpOptions, data: Path, screen: UpConsole) -> int:
    stopping = stop_on_signals()
    if options.strict:
        from towpath_embedded.strict_checks import check_strictly  # reads YAML: not on the way of others to readiness

        checking = asyncio.create_task(check_strictly(options, screen))
        if not await finished_first(checking, stopping):
            return 130
        await checking  # the problem that it found, if it found one
    began = process_began()
    last = last_ports(data, but={options.gateway_port, options.nats_port})
    platform = Platform(
        data,
        workers=workers(options),
        environment={**policy_environment(options), **sample_environment(options)},
        role_environment=role_environment(options),
        gateway_port=last.get("gateway") if options.gateway_port is None else options.gateway_port,
        nats_port=last.get("nats") if options.nats_port is None else options.nats_port,
        durable=not options.ephemeral,
        notice=screen.notice,
        working=screen.working,
        starts="exec" if options.servers_only else "fork",
    )
    platform.is_starting = not options.servers_only  # who starts these alone starts a gateway anywhere
    os.umask(PRIVATE_UMASK)  # from here on; user code goes on with the one that the platform has found
    told_at_start: Told = {}
    refused = RefusedFiles(screen.refused, platform.keep_refused)
    served = ServedTools()
    logs_of_the_start = LogFollower(platform.logs, partial(read_at_start, screen, refused, served, told_at_start))
    starting = asyncio.create_task(platform.start_servers() if options.servers_only else platform.start())
    importing = asyncio.create_task(asyncio.to_thread(import_for_later, options))
    if not await finished_first(starting, stopping):
        await platform.stop()
        return 130
    try:
        await starting  # its problem, if it has one
        await importing
        logs_of_the_start.read_new_lines()
        return await _serve(options, platform, screen, refused, served, stopping, began, told_at_start)
    finally:
        await platform.stop()


async def _tell_policy_warnings(options: UpOptions, platform: Platform, screen: UpConsole, told: Told) -> None:
    if options.policy is not None and not options.servers_only:
        from towpath_embedded.terminal.own_gateway import policy_warnings  # an HTTP client, as below

        tell_warnings(screen, told, *await policy_warnings(platform.client_url, options.policy))


def import_for_later(options: UpOptions) -> None:
    """Import what is needed once the services are ready (an HTTP client, YAML): until then this process waits."""
    needed = [] if options.networks is None else ["network_files.network_folder"]
    needed += ["terminal.worker_reload"] if options.workers or options.project else []
    needed += ["terminal.mcp_reload"] if options.mcp or options.project else []
    needed += [] if options.as_json else ["terminal.key_actions", "terminal.live_view"]
    for module in () if options.servers_only else needed:
        importlib.import_module(f"towpath_embedded.{module}")


async def _serve(
    options: UpOptions,
    platform: Platform,
    screen: UpConsole,
    refused: RefusedFiles,
    served: ServedTools,
    stopping: asyncio.Event,
    began: float,
    told: Told,
) -> int:
    views: list[LiveView] = []
    logs = LogFollower(platform.logs, partial(show_log_line, screen, refused, served, views))
    tasks = [asyncio.create_task(logs.follow())]
    folder, models = None, [] if options.servers_only else _models_with_key(platform, screen, told)
    look, reload = None, None
    try:
        if options.networks is not None and not options.servers_only:
            model = DEMO_MODEL if options.sample and "gemini" in models else ""
            folder = _publisher(options, options.networks, platform, screen, refused, model)
            with screen.working("Publishing", "the networks"):
                await folder.publish_changed()
            if options.sample:
                from towpath_embedded.sample import first_look

                await first_look(platform.client_url, screen.notice)
            look = partial(_tell_unserved, folder, platform, screen, served, told)
            await look()
            watch = keep_following("publishing saved networks", partial(folder.watch, look), screen.notice)
            tasks.append(asyncio.create_task(watch))
        if options.strict and refused.faults:
            raise ProblemError(refused_at_start(refused.faults))
        await _tell_policy_warnings(options, platform, screen, told)
        screen.stops_where_refused = False
        _keep_chosen_ports(options, platform)
        platform.is_starting = False  # networks and the policy are there, too
        platform.write_state()
        state = {**platform.describe(), **refused.told_of_policy(told), "project": options.project}
        if folder is not None:
            from towpath_embedded.terminal.own_gateway import tools_that_may_wait  # an HTTP client, as above

            waiting = await tools_that_may_wait(platform.client_url, folder.specs)
            state["loaded"] = {**folder.counts(), "need_approval": waiting, "refused": len(refused.faults)}
            state["loaded"]["warnings"] = len(told.get("warnings", ()))
        if not options.servers_only:
            named = options.workers or options.agents or options.networks or options.mcp
            state |= {"models": models, "sample": str(options.networks) if options.sample else ""}
            state |= {"is_bare": not named}
            screen.tell_of_projects_nearby(is_bare=not named)
            state["sign_in_url"] = platform.access.sign_in_url(platform.gateway_url)
            if options.single_person:
                screen.notice(
                    "single person: who submits a run may approve its calls here; the audit marks such approvals"
                )
            if platform.access.is_open_to_all:
                screen.notice(OPEN_TO_ALL)
        if not options.servers_only:
            reload, following = _reloads(
                options, platform, screen, refused, served, (folder, look, logs.read_new_lines)
            )
            tasks += map(asyncio.create_task, following)
        screen.ready(state, seconds=monotonic() - began, ephemeral=options.ephemeral)
        async with _live_view(options, platform, screen, refused, folder, reload, stopping, views):
            await stopping.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    counts = {} if options.servers_only else await count_unfinished_runs(platform.client_url)
    screen.notice(stop_message(counts, ephemeral=options.ephemeral))
    return 0


def _publisher(
    options: UpOptions, networks: Path, platform: Platform, screen: UpConsole, refused: RefusedFiles, model: str
) -> "NetworkFolderPublisher":
    # An HTTP client: not on the way to readiness.
    from towpath_embedded.network_files.network_folder import NetworkFolderPublisher

    return NetworkFolderPublisher(
        networks,
        platform.client_url,
        screen.notice,
        model=model,
        memory=platform.data / "published-networks.json",
        refused=refused.put,
        refused_new=refused.put_new,
        awaits_tools=options.mcp is not None,
        scripts=ScriptWatch(script_folder(networks), refused.put_script, screen.notice),
    )


def _models_with_key(platform: Platform, screen: UpConsole, told: Told) -> list[str]:
    """Return the providers that can be asked from here, and tell of a key of Towpath in the place of theirs."""
    from towpath.model_keys import ModelKeys, no_provider_key  # settings: not on the way to readiness

    keys, own = ModelKeys(), platform.access.own_keys()
    if mistaken := keys.taken_for_keys(own):
        tell_warnings(screen, told, no_provider_key(mistaken))
    return list(keys.found(own))


async def _tell_unserved(
    folder: "NetworkFolderPublisher", platform: Platform, screen: UpConsole, served: ServedTools, told: Told
) -> None:
    from towpath_embedded.terminal.own_gateway import tools_without_worker  # an HTTP client, as above

    tell_warnings(screen, told, *await tools_without_worker(platform.client_url, folder.specs, served))


def _keep_chosen_ports(options: UpOptions, platform: Platform) -> None:
    """Keep the ports that were chosen here; those that were named are named again."""
    chosen = {"nats": platform.nats.port} if options.nats_port is None else {}
    if options.gateway_port is None and not options.servers_only:
        chosen["gateway"] = urlsplit(platform.gateway_url).port or 0
    if chosen and not options.ephemeral:
        keep_ports(platform.data, chosen)


async def count_unfinished_runs(gateway_url: str) -> dict[str, str]:
    """Return how many runs are in each unfinished status; `200+` stands for more than a page.

    Empty statuses are left out; the result is empty where the gateway does not answer.
    """
    import httpx2  # an HTTP client: not on the way to readiness

    found: dict[str, str] = {}
    try:
        async with httpx2.AsyncClient(
            base_url=gateway_url, verify=NO_AUTHORITIES, timeout=GATEWAY_TIMEOUT_S, trust_env=False
        ) as client:
            for status in UNFINISHED:
                response = await client.get("/v1/runs", params={"status": status, "limit": PAGE})
                page: Any = response.raise_for_status().json()
                if page["runs"]:
                    found[status] = f"{PAGE}+" if page.get("next_before") else str(len(page["runs"]))
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return {}
    return found


def stop_message(counts: dict[str, str], *, ephemeral: bool) -> str:
    """Return what `towpath up` shows when it begins to stop."""
    if not counts:
        return "stopping"
    fate = "thrown away" if ephemeral else "kept; they go on with the next start"
    return f"stopping; unfinished runs are {fate}: {', '.join(f'{n} {status}' for status, n in counts.items())}"


def _reloads(
    options: UpOptions,
    platform: Platform,
    screen: UpConsole,
    refused: RefusedFiles,
    served: ServedTools,
    then: "AfterReload",
) -> "tuple[WorkerReload | None, list[Coroutine[Any, Any, None]]]":
    """Return what restarts the worker at key `r`, and what follows the files that workers serve; *then* is done."""
    following: list[Coroutine[Any, Any, None]] = []
    if reload := _worker_reload(options, platform, screen, refused, served, then):
        following.append(keep_following("serving saved files with tools", reload.follow, screen.notice))
    if options.mcp is not None or options.project:
        from towpath_embedded.terminal.mcp_reload import McpReload  # reads YAML: not on the way to readiness

        project = Path(options.project) if options.project else None
        mcp = McpReload(platform, mcp_worker(options), project, screen.notice, refused, served, then)
        following.append(keep_following("serving MCP servers", mcp.follow, screen.notice))
    return reload, following


def _worker_reload(
    options: UpOptions,
    platform: Platform,
    screen: UpConsole,
    refused: RefusedFiles,
    served: ServedTools,
    then: "AfterReload",
) -> "WorkerReload | None":
    """Return what restarts the worker when its files change; None where there is nothing to look at."""
    from towpath_embedded.terminal.tool_files import ToolFiles, tool_places  # reads YAML: not on the way to readiness
    from towpath_embedded.terminal.worker_reload import WorkerReload

    places = tool_places(options.workers)
    if not (options.workers or places or options.project):
        return None
    project = Path(options.project) if options.project else None
    files = ToolFiles(options.workers, places, project=project, since=platform.started_at)
    return WorkerReload(platform, own_worker(options), files, screen.notice, refused, served, then)


@contextlib.asynccontextmanager
async def _live_view(
    options: UpOptions,
    platform: Platform,
    screen: UpConsole,
    refused: RefusedFiles,
    folder: "NetworkFolderPublisher | None",
    worker: "WorkerReload | None",
    stopping: asyncio.Event,
    views: "list[LiveView]",
) -> AsyncIterator[None]:
    """Tell a person what happens, and take their keys; a program asks the platform itself."""
    if options.as_json or options.servers_only:
        yield
        return
    from towpath_embedded.terminal.key_actions import KeyActions  # an HTTP client: not on the way to readiness
    from towpath_embedded.terminal.live_view import LiveView

    policy = policy_file(options)
    keys = KeyActions(platform, screen, refused, stopping, folder=folder, policy=policy, worker=worker)
    async with LiveView(platform, screen, keys) as view:
        views.append(view)
        yield
        views.clear()


@contextlib.contextmanager
def _data_folder(options: UpOptions) -> Iterator[Path]:
    if options.ephemeral:
        with temporary_folder() as folder:
            yield folder
    else:
        yield options.data
