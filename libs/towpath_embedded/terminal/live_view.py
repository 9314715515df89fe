"""What `towpath up` shows a person once it is ready, and the keys that it takes.

Lines come from the events that the platform publishes and from its logs. Nothing here holds up the platform.
"""

import asyncio
import contextlib
import json
import sys
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from nats.errors import Error as NatsError

from towpath_embedded.console import UpConsole
from towpath_embedded.followers import keep_following
from towpath_embedded.platform import Platform
from towpath_embedded.terminal.key_actions import KEYS, KeyActions
from towpath_embedded.terminal.key_reader import KeyReader
from towpath_embedded.terminal.own_gateway import (
    PolicyImpacts,
    read_queue_loads,
    version_in_force,
    waiting_line,
)
from towpath_embedded.terminal.run_notices import RunNotices
from towpath_embedded.terminal.server_watch import ServerWatch
from towpath_embedded.terminal.untaken_calls import UntakenCalls

_APPLIED, _UNCHANGED = "policy applied", "policy unchanged"


class LiveView:
    """The lines from the beginning of the block to its end, and the *keys* where a person is at a terminal."""

    def __init__(self, platform: Platform, screen: UpConsole, keys: KeyActions) -> None:
        self._platform = platform
        self._screen = screen
        self._keys = keys
        self._untaken = UntakenCalls(partial(read_queue_loads, platform.client_url), screen.notice)
        self._runs = RunNotices(platform.nats_url_of("gateway"), screen.notice, self._untaken.notice_activity)
        self._impacts = PolicyImpacts(platform.client_url)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        self._do(self._follow_runs())
        self._do(self._impacts.begin())
        servers = ServerWatch(self._platform, self._screen.notice)
        self._do(keep_following("looking at calls that nobody takes", self._untaken.follow, self._screen.notice))
        self._do(keep_following("looking at the servers", servers.follow, self._screen.notice))
        if (descriptor := terminal()) is not None:
            reader = KeyReader(descriptor, self._keys.by_key(), taken=lambda: self._screen.keys(KEYS))
            self._stack.enter_context(reader)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._keys.stop()
        await self._runs.stop()

    def read_log_line(self, name: str, line: str) -> bool:
        """Return whether *line* tells of a policy that came into force; what that changes is told in a moment."""
        if name.partition("-")[0] != "tas" or (_APPLIED not in line and _UNCHANGED not in line):
            return False
        try:
            record: Any = json.loads(line)
            if record["event"] == _UNCHANGED:
                self._do(self._tell_again(str(record["file"])))
                return True
            if record["event"] != _APPLIED:
                return False
            self._do(self._tell_policy(str(record["file"]), int(record["version"]), int(record["rules"])))
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _do(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_runs(self) -> None:
        try:
            await self._runs.start()
        except (NatsError, OSError) as error:
            self._screen.notice(f"runs are not followed here: {type(error).__name__}; look: towpath runs list")
        if line := await waiting_line(self._platform.client_url):
            self._screen.notice(line, "yellow")

    async def _tell_again(self, file: str) -> None:
        """Tell that a policy that was refused is as the one in force again."""
        self._screen.notice(f"{file} in force again{await version_in_force(self._platform.client_url)}")

    async def _tell_policy(self, file: str, version: int, rules: int) -> None:
        impact = await self._impacts.of_version(version)
        what = f"{file} in force: version {version}, {rules} rule{'' if rules == 1 else 's'}"
        self._screen.notice(f"{what} · {impact}" if impact else what)


def terminal() -> int | None:
    """Return the descriptor of the terminal that a person types at; None where there is none."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced by something without one
        if sys.stdin.isatty():
            return sys.stdin.fileno()
    return None
