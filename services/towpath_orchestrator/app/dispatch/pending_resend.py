"""Sends pending effects again that may have been lost: at the start of a process, and after the broker came back.

It decides nothing. The attempt stays the same, so the broker drops what it has already, and whoever gets a request
twice answers it once. Without this a lost decision request would wait for the end of its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable

from nats import errors as nats_errors

from towpath_fabric.ports import Database, MessageBus
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.run_store import QUERIES, RunStore
from towpath_orchestrator.app.dispatch.effect_dispatcher import EffectDispatcher
from towpath_orchestrator.app.state_cache import StateCache

RECENT_S = 60
"""Runs that moved within this time are looked at. It is less than the broker's memory of message ids (120 s); what is
older is close to its own resend."""

DATABASE_RETRY_S = 1.0

STREAMS_RETRY_S = 0.5


class StartupResend:
    """Sends what a process that died had committed and perhaps not sent. Runs once."""

    def __init__(
        self, pool: Database, store: RunStore, dispatcher: EffectDispatcher, log: Logger, *, most: int
    ) -> None:
        """Look at *most* runs, the latest first."""
        self._pool = pool
        self._store = store
        self._dispatcher = dispatcher
        self._log = log
        self._most = most

    async def run(self) -> None:
        """Send again what is pending in runs that moved lately; waits while Postgres is away."""
        while True:
            try:
                await self._resend()
            except DATABASE_DOWN as error:
                self._log.debug("postgres is away, pending effects are sent again later", error=str(error))
                await asyncio.sleep(DATABASE_RETRY_S)
            else:
                return

    async def _resend(self) -> None:
        for row in await self._pool.fetch(QUERIES.moved_lately, float(RECENT_S), self._most):
            try:
                state = await self._store.load(row["run_id"])
            except DATABASE_DOWN:
                raise
            except Exception as error:  # noqa: BLE001 - the commit loop deals with logs that can't be read
                self._log.warning("a run can't be loaded", run_id=str(row["run_id"]), error=type(error).__name__)
                continue
            if state is not None:
                await self._dispatcher.send_pending_again(state)


class ReconnectResend:
    """Sends again what is pending in cached runs whenever the broker came back: what was on its way may be lost."""

    def __init__(
        self,
        bus: MessageBus,
        cache: StateCache,
        dispatcher: EffectDispatcher,
        ensure_streams: Callable[[], Awaitable[None]],
    ) -> None:
        """*ensure_streams* declares what a broker without its data lacks: messages sent before it are lost."""
        self._bus = bus
        self._cache = cache
        self._dispatcher = dispatcher
        self._ensure_streams = ensure_streams

    async def run(self) -> None:
        seen = self._bus.reconnects
        while True:
            now = await self._bus.wait_reconnect(seen)
            try:
                await self._ensure_streams()
            except (TimeoutError, nats_errors.Error):  # the broker is not ready yet
                await asyncio.sleep(STREAMS_RETRY_S)
                continue
            seen = now
            for state in self._cache.states():
                await self._dispatcher.send_pending_again(state)
