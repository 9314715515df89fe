"""`towpath up --attach`: what the terminal of the platform on a folder shows, in another terminal.

The platform is neither started nor stopped here: Ctrl-C ends the view, and the end of the platform does.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from nats.errors import Error as NatsError

from towpath.client.settings import read_token, running_state
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.console import UpConsole
from towpath_embedded.followers import keep_following
from towpath_embedded.platform_state import data_option
from towpath_embedded.refused_files import RefusedFiles
from towpath_embedded.running_servers import RunningServers
from towpath_embedded.terminal.log_notices import show_log_line
from towpath_embedded.terminal.own_gateway import read_queue_loads, waiting_line
from towpath_embedded.terminal.run_notices import RunNotices
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.untaken_calls import UntakenCalls
from towpath_fabric.telemetry.log_follower import LogFollower

POLL_S = 0.5
GATEWAY = "gateway"
"""The user of the broker who hears of every run."""


async def attach(data: Path, screen: UpConsole, stopping: asyncio.Event) -> int:
    """Show what happens on the platform on *data* until *stopping* or its end; returns the exit status.

    Raises ProblemError `not_found` where no platform of this user is ready there.
    """
    state = await asyncio.to_thread(running_state, data)
    if state is None or not state.get("gateway_url"):
        detail = f"no platform of yours is ready on {data}, so there is nothing to attach to"
        remedy = "Start one: towpath up; or name the folder of one that runs: towpath up --attach --data FOLDER."
        raise ProblemError(problem("not_found", detail, remedy=remedy))
    view = AttachedView(data, state, screen)
    screen.attached(state)
    has_ended = await view.show_until(stopping)
    goes_on = f"detached; the platform goes on, until: towpath down{data_option(data)}"
    screen.notice("the platform has ended" if has_ended else goes_on)
    return 0


class AttachedView:
    """The lines of runs, of processes that were started again, and of logs, of the platform on *data*."""

    def __init__(self, data: Path, state: Mapping[str, Any], screen: UpConsole) -> None:
        self._data = data
        self._screen = screen
        self._restarts = restarts_of(state)
        self._client_url = _with_token(state)
        self._untaken = UntakenCalls(partial(read_queue_loads, self._client_url), screen.notice)
        self._runs = RunNotices(_nats_url(data), screen.notice, self._untaken.notice_activity)
        refused = RefusedFiles(screen.refused, lambda _: None)
        show = partial(show_log_line, screen, refused, ServedTools(), ())
        self._logs = LogFollower(data.absolute() / "logs", show)

    async def show_until(self, stopping: asyncio.Event) -> bool:
        """Show lines until *stopping*; True where the platform has ended first."""
        notice = self._screen.notice
        works = (
            self._follow_runs(),
            keep_following("looking at calls that nobody takes", self._untaken.follow, notice),
            keep_following("reading the logs", self._logs.follow, notice),
        )
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(work) for work in works]
        ending = asyncio.create_task(self._watch_processes())
        waiting = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({ending, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                ending.result()  # what it could not read, if there is anything
            return ending.done()
        finally:
            for task in (*tasks, ending, waiting):
                task.cancel()
            await asyncio.gather(*tasks, ending, waiting, return_exceptions=True)
            self._logs.read_new_lines()
            await self._runs.stop()

    async def _follow_runs(self) -> None:
        try:
            await self._runs.start()
        except (NatsError, OSError) as error:
            self._screen.notice(f"runs are not followed here: {type(error).__name__}; look: towpath runs list")
        if line := await waiting_line(self._client_url):
            self._screen.notice(line, "yellow")

    async def _watch_processes(self) -> None:
        """Tell which processes were started again, until none of the platform is left."""
        while (state := await asyncio.to_thread(running_state, self._data)) is not None:
            now = restarts_of(state)
            for name, count in now.items():
                if count > self._restarts.get(name, 0):
                    self._screen.notice(f"{name} ended and was started again; why: towpath logs {name}", "yellow")
            self._restarts = {**self._restarts, **now}
            await asyncio.sleep(POLL_S)


def restarts_of(state: Mapping[str, Any]) -> dict[str, int]:
    """Return how often each process of a platform was started again; one of another version may not say so."""
    found = {name: process.get("restarts") for name, process in state.get("processes", {}).items()}
    return {name: count for name, count in found.items() if isinstance(count, int)}


def _with_token(state: Mapping[str, Any]) -> str:
    token, address = read_token(dict(state)), str(state["gateway_url"])
    return address.replace("://", f"://local:{quote(token, safe='')}@", 1) if token else address


def _nats_url(data: Path) -> str:
    """Return the broker's address as who hears of every run; ProblemError where none runs on *data* any more."""
    servers = RunningServers.on(data)
    if servers is None:
        raise ProblemError(
            problem("not_found", f"the platform on {data} has just ended", remedy="Start it: towpath up.")
        )
    return f"nats://{GATEWAY}:{quote(servers.password(GATEWAY))}@{urlsplit(servers.nats_url).netloc}"
