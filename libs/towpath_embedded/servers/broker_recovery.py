"""Makes sure that the embedded broker serves every stream, whatever happened to its files.

The broker is not the record, so a store that the server can't serve is set aside whole and the server goes on with an
empty one; what still matters is sent again from Postgres. A full disk is not damage: the store stays, and the server is
restarted once there is room, because a stream that failed to write stays closed until then.
"""

import asyncio
import contextlib
import logging
import math
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.streams import STREAMS
from towpath_embedded.processes.child_process import failure
from towpath_embedded.servers.nats import HEALTH_SUBJECT, HEALTH_USER, Nats
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.broker_owner import connect
from towpath_fabric.nats.stream_declaration import declare_streams

_log = logging.getLogger(__name__)

LOOK_S = 0.25  # while the broker is down, or its streams are not declared
TRIES = 2  # a server that is just starting refuses for a moment; damage stays
CONNECT_TIMEOUT_S = 5
LOOK_AT_FILES_S = 5.0
ASK_S = 30.0  # how often the broker is asked for its health, though its disk has room: that wakes it
WRITE_ERROR = b"write error"  # what the server's health reports for a stream that no longer takes messages
ROOM_BYTES = 8 * 1024 * 1024  # with less space than this a refusal is no sign of damaged files
SERVER_ERRORS = 500


class BrokerStoreDamagedError(Exception):
    """The server runs and can't serve what lies in its store."""


class BrokerRecovery:
    """Declares the streams after every start of the broker, and replaces a store that can't be served.

    *hold* ends the broker and keeps it down, *release* starts it again; *notice* gets one line per event
    for people.
    """

    def __init__(
        self,
        nats: Nats,
        hold: Callable[[], Awaitable[None]],
        release: Callable[[], None],
        notice: Callable[[str], None],
    ) -> None:
        self._nats = nats
        self._notice = notice
        self._hold = hold
        self._release = release
        self._declared_for: int | None = None
        self._restarted = asyncio.Event()
        self._asked_s = monotonic()

    async def declare(self) -> None:
        """Declare every stream; a damaged store is replaced, once. Raises `service_failed` when that did not help."""
        try:
            try:
                await self._declare_now()
            except BrokerStoreDamagedError:
                await self.replace()
                await self._declare_now()
        except (BrokerStoreDamagedError, OSError, NatsError) as error:
            reason = f"the streams could not be declared: {type(error).__name__} {error}"
            raise ProblemError(failure(self._nats.name, self._nats.log, reason)) from error

    def restarted(self) -> None:
        """Look at once: a process was started again, perhaps the broker."""
        self._restarted.set()

    async def run(self) -> None:
        """Declare again whenever the broker was started again, for ever; cancel to stop."""
        while not _cancelled():
            await self._wait_restart()
            pid = self._pid()
            if pid is None or not await self._nats.ready():
                continue
            try:
                if pid != self._declared_for:
                    await self._declare_or_replace()
                else:
                    await self._start_without_files()
                    await self._open_streams_again()
            except (OSError, NatsError):  # it has just gone down again, or its disk is full
                continue

    async def _wait_restart(self) -> None:
        """Return when the broker may be another one, or is to be looked at anyway."""
        serves = self._declared_for is not None and self._pid() == self._declared_for
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AT_FILES_S if serves else LOOK_S):
                await self._restarted.wait()
        self._restarted.clear()

    async def _open_streams_again(self) -> None:
        """Start the server again that stopped writing when its disk was full, once it is not any more."""
        if not self._has_room():
            self._asked_s = -math.inf  # it is asked as soon as there is room
        elif monotonic() - self._asked_s >= ASK_S:
            self._asked_s = monotonic()
            if WRITE_ERROR in await self._health():
                self._notice(
                    "nats had no space and has stopped to store messages; it is restarted, there is room again"
                )
                await self._hold()
                self._release()

    async def _start_without_files(self) -> None:
        """Start the server again whose files were deleted under it: it runs on, answers, and stores nothing."""
        if await asyncio.to_thread(_lost_streams, self._nats.store):
            self._notice("the files of nats were deleted while it ran; it is started again with an empty store")
            await self.replace()

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._nats.store).free > ROOM_BYTES

    async def _declare_or_replace(self) -> None:
        try:
            await self._declare_now()
        except BrokerStoreDamagedError:
            await self.replace()

    async def replace(self) -> None:
        """Set the store aside and start the broker again, empty."""
        await self._hold()
        try:
            self._nats.set_store_aside()
        finally:
            self._release()
        while self._pid() is None or not await self._nats.ready():  # noqa: ASYNC110 - a child does not report it
            await asyncio.sleep(LOOK_S)

    def _pid(self) -> int | None:
        process = self._nats.process
        return process.pid if process is not None and process.poll() is None else None

    async def _declare_now(self) -> None:
        pid = self._pid()
        async with self._connected("deploy") as connection:
            await self._declare_through(connection)
        self._declared_for = pid

    async def _health(self) -> bytes:
        """Return what the server says of itself, as JSON; raises OSError or nats.errors.Error."""
        async with self._connected(HEALTH_USER) as connection:
            return (await connection.request(HEALTH_SUBJECT, b"", timeout=CONNECT_TIMEOUT_S)).data

    @contextlib.asynccontextmanager
    async def _connected(self, user: str) -> AsyncIterator[Client]:
        connection = await connect(
            self._nats.url(user),
            owner=os.geteuid(),
            inbox_prefix=f"_INBOX_{user}".encode(),
            connect_timeout=CONNECT_TIMEOUT_S,
            allow_reconnect=False,
            error_cb=_log_connection_error,
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def _declare_through(self, connection: Client) -> None:
        for tried in range(1, TRIES + 1):
            try:
                await declare_streams(connection)
                await require_served(connection, self._nats.store)
            except APIError as error:
                if tried == TRIES:
                    if _is_damage(error) and self._has_room():
                        raise BrokerStoreDamagedError(str(error)) from error
                    raise
            else:
                return
            await asyncio.sleep(LOOK_S)


async def require_served(connection: Client, store: Path) -> None:
    """Raise NotFoundError for a consumer that lies in *store* and that the server does not serve.

    Those of pools and toolsets are declared by others, so the server's own refusal would not be seen here.
    """
    js = connection.jetstream()
    for stream, consumer in _stored_consumers(store):
        await js.consumer_info(stream, consumer)


def _lost_streams(store: Path) -> list[str]:
    """Return the streams that the running server must have files of, and has not."""
    return [one.name for one in STREAMS if not any(store.glob(f"jetstream/*/streams/{one.name}/meta.inf"))]


def _stored_consumers(store: Path) -> list[tuple[str, str]]:
    places = store.glob("jetstream/*/streams/*/obs/*")
    return sorted((place.parent.parent.name, place.name) for place in places if place.is_dir())


def _cancelled() -> bool:
    """Return whether this task was cancelled: nats-py forgets a cancellation that comes while a connection closes."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _log_connection_error(error: Exception) -> None:
    """The failing call raises the error; nats-py would also log it with a traceback."""
    _log.debug("the connection says: %s", error)


def _is_damage(error: APIError) -> bool:
    return isinstance(error, NotFoundError) or (error.code or 0) >= SERVER_ERRORS
