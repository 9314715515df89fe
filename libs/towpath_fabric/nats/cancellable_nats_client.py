"""A NATS client whose connecting and requests end when they are cancelled, and that closes whatever the broker does.

One that knows several nodes of a cluster leaves a lost one for another, with the login of the addresses it was given.

nats-py waits for each answer with `asyncio.wait_for`, which in Python 3.11 forgets a cancellation that comes together
with the answer (https://github.com/python/cpython/issues/86296). nats-py would then go on to connect for ever, as would
a loop that asks the broker, and whoever waited for the end of its task would hang.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError


class CancellableNatsClient(Client):
    """Overrides `request`, and private methods between which every attempt to connect and to reconnect passes."""

    _connecting: "asyncio.Task[Any] | None" = None
    _cancelled_before = 0

    async def connect(self, *arguments: Any, **options: Any) -> None:
        """Connect; where that fails or is cancelled, no socket is left open."""
        self._connecting = asyncio.current_task()
        if self._connecting is not None:  # what cleans up in a task that was cancelled before may still connect
            self._cancelled_before = self._connecting.cancelling()
        try:
            await super().connect(*arguments, **options)
        except BaseException:
            self._hang_up()
            raise
        finally:
            self._connecting = None

    async def request(self, *arguments: Any, **options: Any) -> Msg:
        """Ask as nats-py does; a cancellation that comes together with the answer is no less one."""
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0  # what cleans up after a cancellation may still ask
        try:
            return await super().request(*arguments, **options)
        finally:
            if task is not None and task.cancelling() > before:
                raise asyncio.CancelledError

    async def close_within(self, limit_s: float, draining: Coroutine[Any, Any, None]) -> bool:
        """Let *draining* close the connection; where it has not within *limit_s*, or is cancelled, close it by force.

        Returns whether it was drained.
        """
        task = asyncio.create_task(draining)
        try:
            await asyncio.wait([task], timeout=limit_s)
            drained = task.done() and not isinstance(task.exception(), NatsError)
            if drained:
                task.result()
            return drained
        finally:
            if not self.is_closed:
                await self._abandon()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])  # which has nothing left to wait for
                task.cancelled() or task.exception()

    async def _abandon(self) -> None:
        """Close without the broker: what it has not taken yet is dropped."""
        self._pending = []
        self._pending_data_size = 0
        self._break_off()
        await self.close()

    def _break_off(self) -> None:
        """End the connection without a word to the other side."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    def _tell_end_without_tls(self) -> None:
        """Tell of the end of a connection on which TLS failed: asyncio tells it to nobody, and nats-py waits for it."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None and writer.transport.get_protocol() is not writer._protocol:
            writer._protocol.connection_lost(None)

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]

    async def _attempt_reconnect(self) -> None:
        """Leave a connection that failed at once: nobody on a lost machine answers the goodbye of TLS.

        nats-py says it, and asyncio awaits the answer for half a minute before another node is tried.
        """
        self._break_off()
        await super()._attempt_reconnect()

    def _know_tls(self) -> None:
        """Let the protocol that nats-py made know of TLS: asyncio warns of each end of a connection where it does not.

        asyncio tells it where a connection is opened with TLS, and nats-py begins TLS on an open one.
        """
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None or writer.get_extra_info("sslcontext") is None:
            return
        protocol = writer.transport.get_protocol()
        if isinstance(protocol, asyncio.StreamReaderProtocol):  # there is none any more where the connection was lost
            protocol._over_ssl = True  # type: ignore[attr-defined]

    def _is_cancelled(self) -> bool:
        task = asyncio.current_task()
        before = self._cancelled_before if task is self._connecting else 0
        return task is not None and task.cancelling() > before

    async def _select_next_server(self) -> None:
        """Try every other node before the one that was lost: a frozen one takes a connection and says nothing."""
        pool, lost = self._server_pool, self._current_server
        if lost is not None and len(pool) > 1 and pool[0] is lost:
            pool.append(pool.pop(0))
        await super()._select_next_server()

    def _connect_command(self) -> bytes:
        """Log in to a node that the cluster told of as to the one that was named: nats-py gives it no login."""
        here = self._current_server
        named = next((node for node in self._server_pool if node.uri.username is not None), None)
        if here is None or named is None or here.uri.username is not None or not here.discovered:
            return super()._connect_command()
        self._current_server = named
        try:
            return super()._connect_command()
        finally:
            self._current_server = here

    async def _connect_to_server(self, s: Any) -> None:
        if not self._is_cancelled():
            await super()._connect_to_server(s)
            self._know_tls()
        if self._is_cancelled():
            self._hang_up()
            raise asyncio.CancelledError

    async def _process_connect_init(self) -> None:
        """Begin TLS and log in; where that fails, the connection has ended."""
        try:
            await super()._process_connect_init()
        except BaseException:
            self._break_off()
            self._tell_end_without_tls()
            raise
        self._know_tls()
        if self._is_cancelled():
            await self.close()
            raise asyncio.CancelledError
