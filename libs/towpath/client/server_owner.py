"""Connections to the platform of this machine, over which its token is sent to nobody but its own user.

Where it was is where another OS user can listen once it has stopped, for as long as a client tries again. So every new
connection is looked at before a byte goes over it: the kernel is asked whose process has accepted it. A connection that
waits to be accepted belongs to nobody yet, and neither does the answer. Where the kernel can't be asked, as on macOS,
what let the token be read has to hold still.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx2

from towpath.client.settings import local_token
from towpath.errors import RefusedError
from towpath_contracts.problems.registry import problem
from towpath_fabric.clock import monotonic
from towpath_fabric.socket_owners import Address, connection_user, socket_tables

ACCEPT_S = 30.0
"""A gateway that is started again accepts what came meanwhile: as long as an answer may take."""
FIRST_LOOK_S = 0.001
LONGEST_PAUSE_S = 0.05
CONNECTED = "connection.connect_tcp.complete"
"""The event of the HTTP client after which it has a connection and has sent nothing."""


class ServerOwnerCheck:
    """Refuses connections to *server* but those to a process of *user*, by default this one.

    *folder* is the data folder of the platform there.
    """

    def __init__(self, server: str, folder: Path, user: int | None = None) -> None:
        self._server = server
        self._folder = folder
        self._user = os.getuid() if user is None else user

    async def on_request(self, request: httpx2.Request) -> None:
        """Have the connection that *request* opens looked at, if it opens one."""
        request.extensions = {**request.extensions, "trace": self._on_event}

    async def _on_event(self, event: str, information: dict[str, Any]) -> None:
        if event != CONNECTED:
            return
        stream = information["return_value"]
        try:
            await self._check(stream.get_extra_info("client_addr"), stream.get_extra_info("server_addr"))
        except BaseException:
            await stream.aclose()
            raise

    async def _check(self, here: Address | None, there: Address | None) -> None:
        until, pause = monotonic() + ACCEPT_S, FIRST_LOOK_S
        while True:
            owner = _owner(here, there)
            if owner == self._user:
                return
            if owner is not None:
                raise RefusedError(_refusal(self._server, owner))
            if not _can_be_asked():
                if local_token(self._server, self._folder) is None:
                    msg = f"no platform runs on {self._folder} any more, so its token is not sent"
                    raise httpx2.ConnectError(msg)
                return
            if monotonic() > until:
                raise httpx2.ConnectTimeout("no process accepted the connection")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)


def _owner(here: Address | None, there: Address | None) -> int | None:
    if here is None or there is None or sys.platform != "linux":
        return None
    return connection_user(there[:2], here[:2])


def _can_be_asked() -> bool:
    return sys.platform == "linux" and bool(socket_tables())


def _refusal(server: str, owner: int) -> Any:
    return problem("server_not_yours", f"at {server} answers a process of another user ({owner}); it was sent nothing")
