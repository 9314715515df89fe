"""Limits of a server's HTTP connections: how long one may send nothing useful, and how many are held for strangers.

uvicorn bounds the time between two requests alone, and any byte ends that bound. Here a request's headers have to come
in within a time. A connection is a stranger's until a request on it has shown a credential; the server holds so many of
those, and then closes the oldest for the newest. A client that means it sends its headers at once, so it is never the
oldest for long, and a flood crowds out itself. A connection whose client takes next to nothing of what is sent to it is
closed too: what waits for it is memory.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from towpath_fabric.health import Receive, Scope, Send

TAKEN_BYTES = 64 * 1024
"""Less than any line carries that somebody waits at."""

VOUCH = "towpath.vouch"
"""The ASGI extension by which an application says that a request's credential is good."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds for headers and for a stranger's next request, and how many connections are held of each kind.

    While something waits to be taken by the client, it takes at least TAKEN_BYTES of it, or all, in `taken_s` seconds.
    """

    header_s: float
    strangers: int
    idle: int
    taken_s: float = 30.0


class BoundedConnections:
    """Connections in the order in which they came in; beyond *most*, the oldest is closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[BoundedHttpProtocol, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, connection: "BoundedHttpProtocol") -> None:
        """Hold *connection*, as the newest."""
        self._held[connection] = None
        if len(self._held) > self._most:
            oldest, _ = self._held.popitem(last=False)
            oldest.abort()

    def discard(self, connection: "BoundedHttpProtocol") -> None:
        """Hold it no longer."""
        self._held.pop(connection, None)


class BoundedHttpProtocol(H11Protocol):
    """One HTTP connection under the limits of its server."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        strangers: BoundedConnections,
        idle: BoundedConnections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._strangers = strangers
        self._idle = idle
        self._is_known = False
        self._deadline: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self._application = self.app
        self.app = self._serve

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._strangers.add(self)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hold it no longer."""
        self._strangers.discard(self)
        self._idle.discard(self)
        self._cancel_deadline()
        self._cancel_untaken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the client is slow, and give it its time."""
        super().pause_writing()
        self._look_again()

    def resume_writing(self) -> None:
        """Note that it has taken nearly all."""
        self._cancel_untaken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on; what has begun has to become a request in time, and what is left of a body that nobody reads too."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_known and self._waits_for_nothing():
            self._cancel_deadline()  # an answer went out before the body had come in, and now it has
            self._idle.add(self)
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        elif self._is_between_requests():
            self._set_deadline()
        else:
            self._idle.discard(self)
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.transport.is_closing() or not self._is_between_requests():
            return
        if self._is_known:
            self._idle.add(self)
        if not self._is_known or self.conn.their_state is h11.SEND_BODY:
            self._set_deadline()

    def abort(self) -> None:
        """Close the connection at once, whatever is under way on it."""
        self._cancel_deadline()
        self.transport.abort()

    def vouch(self) -> None:
        """Take the connection from those of strangers: a request on it has shown a good credential."""
        if not self._is_known:
            self._is_known = True
            self._strangers.discard(self)

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    def _waits_for_nothing(self) -> bool:
        """Return whether what came in so far are whole requests, all answered."""
        return self._is_between_requests() and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.header_s, self.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look_again(self) -> None:
        waits = self.transport.get_write_buffer_size()
        self._untaken = self.loop.call_later(self._limits.taken_s, self._abort_untaken, waits)

    def _abort_untaken(self, waited: int) -> None:
        if self.transport.get_write_buffer_size() > waited - TAKEN_BYTES:
            self.abort()
        else:
            self._look_again()

    def _cancel_untaken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope["headers"]}
        if {b"content-length", b"transfer-encoding"} <= names:
            send = _closing(send)
        scope.setdefault("extensions", {})[VOUCH] = {"vouch": self.vouch}
        await self._application(scope, receive, send)


def _closing(send: Send) -> Send:
    """Close the connection after the answer: a proxy may have seen another end of the request (RFC 9112, 6.1)."""

    async def send_and_close(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
        await send(message)

    return send_and_close


def bounded_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return what uvicorn makes a connection with; all connections made with it share *limits*."""
    made = partial(
        BoundedHttpProtocol,
        limits=limits,
        strangers=BoundedConnections(limits.strangers),
        idle=BoundedConnections(limits.idle),
    )
    return cast("type[asyncio.Protocol]", made)


def vouch_for_connection(scope: Scope) -> None:
    """Say that the request of *scope* has shown a good credential; does nothing under another server."""
    vouch: Callable[[], None] | None = scope.get("extensions", {}).get(VOUCH, {}).get("vouch")
    if vouch is not None:
        vouch()
