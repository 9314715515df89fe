"""Runs one service: FastStream application, health paths, background loops, graceful stop.

This is the only place that starts and stops things. Order: database, broker connection, service's own start, RPC
subscribers, loops; stop in reverse. A loop that ends by an error ends the process, and the supervisor starts it again.
"""

import asyncio
import contextlib
import functools
import importlib
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from email.utils import formatdate
from importlib.metadata import version
from types import FrameType
from typing import Any

import uvicorn
from faststream.asgi import AsgiFastStream, AsgiResponse, get
from faststream.specification import AsyncAPI
from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from uvicorn.server import ServerState

from towpath_contracts.problems.registry import Problem, ProblemError
from towpath_fabric import garbage_collector
from towpath_fabric.clock import NS, wall_ns
from towpath_fabric.health import EventLoopWatchdog, Health, Receive, Scope, Send, refused_host
from towpath_fabric.http.connections import ConnectionLimits, bounded_protocol
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.faststream_handlers import HandlerArguments
from towpath_fabric.outages.outage import Outage, ServerGauge
from towpath_fabric.settings import Settings
from towpath_fabric.startup.process_end import FAILED, exit_code, log_end
from towpath_fabric.telemetry.logs import Logger, configure_logging
from towpath_fabric.telemetry.recorder import SpanRecorder
from towpath_fabric.turns.shared_answers import RequestSlots
from towpath_fabric.turns.task_end import end_tasks

BackgroundLoop = Callable[[], Coroutine[Any, Any, None]]
LifecycleHook = Callable[[], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH_PATHS = frozenset({"/livez", "/readyz", "/metrics"})

MAX_HEAD_BYTES = 16_384
"""Of a request's head: h11's own default. Reading one of 64 KB with thousands of lines takes 50 ms."""

HEALTH_CONNECTIONS = 64
"""Held on a port that has the health paths alone: more than whoever scrapes and probes a replica opens."""

KEYLESS_PATHS = HEALTH_PATHS | {"/asyncapi.json", "/openapi.json"}


class DateHeaderServerState(ServerState):
    """Renews the Date header when a response needs it; uvicorn does so by a timer, which wakes an idle service."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._config = config
        self._second = -1
        self._headers: list[tuple[bytes, bytes]] = []
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """Return what begins every response's headers."""
        second = wall_ns() // NS
        if second != self._second:
            self._second = second
            self._headers = [(b"date", formatdate(second, usegmt=True).encode()), *self._config.encoded_headers]
        return self._headers

    @default_headers.setter
    def default_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._headers, self._second = headers, -1


class _StoppableServer(uvicorn.Server):
    """Notifies the service as soon as a signal asks it to stop; uvicorn alone waits for open streams to end first.

    *stopping* is the event that *notify* sets.
    """

    def __init__(self, config: uvicorn.Config, notify: Callable[[], None], stopping: asyncio.Event) -> None:
        super().__init__(config)
        self.server_state = DateHeaderServerState(config)
        self._notify = notify
        self._stopping = stopping

    async def main_loop(self) -> None:
        """Serve until the process is to stop; uvicorn looks for that, and for a new Date, ten times a second."""
        await self._stopping.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # else uvicorn raises them again at the end, and a clean stop looks like a crash
        self._notify()


class Service:
    """One process of the platform. A service's `__main__` makes one, adds handlers and loops, and calls `run`."""

    def __init__(self, role: str, settings: Settings) -> None:
        self.role = role
        self.settings = settings
        self.log: Logger = configure_logging(role, settings)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.health = Health(self.registry)
        self.telemetry = SpanRecorder(role, settings, self.registry)
        self.bus = Bus(role, settings, self.telemetry.requests)
        self._servers = ServerGauge(self.registry)
        self._servers.watch("broker", self.bus.outage)
        self.pool: Any = None
        self._starts: list[LifecycleHook] = []
        self._stops: list[LifecycleHook] = []
        self._loops: list[BackgroundLoop] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._server: uvicorn.Server | None = None
        self._app: AsgiApp | None = None
        self._descriptor = settings.listener_descriptor
        self._address = (settings.health_host, settings.health_port)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._missing_right: Callable[[BaseException], Problem | None] = lambda _error: None
        self.problem: Problem | None = None
        """Why the process ends by itself, where the start or a loop ended with a ProblemError: it says what to do."""
        self.stopping = asyncio.Event()
        """Set as soon as the process is asked to stop: long responses, such as event streams, end then."""

    def serve_app(self, app: AsgiApp, host: str, port: int) -> None:
        """Answer HTTP at *host*:*port* with *app*; the health paths there stay the service's own."""
        self._app = app
        self._address = (host, port)

    def on_start(self, step: LifecycleHook) -> None:
        """Run *step* once database and broker are connected, before requests are answered."""
        self._starts.append(step)

    def on_stop(self, step: LifecycleHook) -> None:
        """Run *step* at the end, last added first, while broker and database are still there."""
        self._stops.append(step)

    def loop(self, loop: BackgroundLoop) -> None:
        """Keep *loop* running until the service stops."""
        self._loops.append(loop)

    async def open_database(self) -> None:
        """Open the pool, wait for Postgres as long as it takes, and add a readiness check."""
        db = importlib.import_module("towpath_fabric.postgres.pool")  # a worker is installed without asyncpg
        migrations = importlib.import_module("towpath_fabric.postgres.migrations")
        self._missing_right = importlib.import_module("towpath_fabric.postgres.connection_refusals").missing_right
        self.bus.replies.unavailable_errors = db.DATABASE_DOWN
        refused = importlib.import_module("towpath_fabric.postgres.refused_values")
        self.bus.replies.invalid_data_errors = refused.INVALID_DATA
        outage = Outage(self.role, "postgres", "Start Postgres, or correct the address: TOWPATH_DATABASE_URL.")
        self._servers.watch("postgres", outage)
        newer: list[str] = []
        otherwise: list[str] = []
        while self.pool is None:
            try:
                pool = await db.open_pool(
                    self.settings.dsn(),
                    self.settings.database_pool,
                    f"towpath_{self.role} {version('towpath')}",
                    outage,
                    statement_cache=self.settings.database_statement_cache,
                )
                try:
                    newer = await migrations.check_applied(pool)
                    otherwise = await db.differing_settings(pool)
                except BaseException:
                    pool.terminate()
                    raise
                self.pool = pool
            except db.DATABASE_STARTING as error:
                outage.failed(error)
                await asyncio.sleep(0.5)
        if newer:
            self.log.warning("the database is newer than this version, which works beside newer ones", migrations=newer)
        if otherwise:
            remedy = "Set them for the role of this service, as 0001_roles.sql does: docs/guides/deploying.md."
            self.log.warning("sessions of the database have other settings", settings=otherwise, remedy=remedy)
        times = importlib.import_module("towpath_fabric.postgres.database_time")
        clock = times.clock_check(self.pool, self.registry, self.log)
        await clock.check()
        self.loop(clock.run)
        probe = importlib.import_module("towpath_fabric.postgres.database_probe")
        self.bus.replies.silence = probe.DatabaseProbe(self.pool, self.settings.dsn(), self.role).silence

        async def answers() -> None:
            await self.pool.fetchval("SELECT 1")

        self.health.check("postgres", answers)

    async def _connected(self) -> None:
        if not self.bus.nc.is_connected:
            msg = "not connected to NATS"
            raise ConnectionError(msg)
        await self.bus.nc.flush(timeout=1)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or self._server is None:
            return
        error = task.exception()
        if error is not None:
            if not self._note_problem(error, loop=task.get_name()):
                self.log.error("a loop failed, the process ends", loop=task.get_name(), exc_info=error)
            self._failed = True
            self._server.should_exit = True
            self._notify_stopping()

    def _note_problem(self, error: BaseException, **about: str) -> bool:
        """Return whether *error*, or the one of its group, has a problem; keep and log it: it needs no traceback."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        found = error.problem if isinstance(error, ProblemError) else self._missing_right(error)
        if found is None:
            return False
        self.problem = found
        log_end(self.log, found, **about)
        return True

    def _tells_something(self, record: logging.LogRecord) -> bool:
        """Return whether uvicorn's line tells anything: no traceback of a known problem, to a person no step of its."""
        return self.problem is None and not (sys.stderr.isatty() and record.levelno <= logging.INFO)

    def _notify_stopping(self) -> None:
        if self._event_loop is not None:
            self._event_loop.call_soon_threadsafe(self.stopping.set)

    @contextlib.asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        self._event_loop = asyncio.get_running_loop()
        if self._server is not None and self._server.should_exit:  # the signal came before the event loop ran
            self.stopping.set()
        watchdog = asyncio.create_task(EventLoopWatchdog().run())
        try:
            await self._unless_stopped(self._start_parts())
        except Exception as error:
            self._note_problem(error)
            raise
        for loop in self._loops:
            task = asyncio.create_task(loop(), name=getattr(loop, "__qualname__", repr(loop)))
            task.add_done_callback(self._finished)
            self._tasks.append(task)
        garbage_collector.collect_rarely()
        self.log.info("started")
        try:
            yield
        finally:
            await self._stop_parts()  # again, for a start that failed half way
            watchdog.cancel()
            await asyncio.gather(watchdog, return_exceptions=True)
            await self.telemetry.flush()
            if self.pool is not None:
                # Nothing uses it any more, and `close` would wait for the connections that loops had pinned.
                self.pool.terminate()

    async def _start_parts(self) -> None:
        if self.settings.database_url is not None:
            await self.open_database()
        await self.bus.connect()
        self.health.check("nats", self._connected)
        for step in self._starts:
            await step()

    async def _unless_stopped(self, start: Coroutine[Any, Any, None]) -> None:
        """Run *start*, which may wait for the broker or the database for ever, until the process is asked to stop.

        uvicorn checks its signal only after the start, so a service that waits would never end.
        """
        starting, stop = asyncio.create_task(start), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({starting, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                self.log.info("asked to stop before the start was complete")
                sys.stdout.flush()
                os._exit(0)  # nothing is open yet that could lose data, and an error would look like a failure
            await starting
        finally:
            for task in (starting, stop):
                task.cancel()
            await asyncio.gather(starting, stop, return_exceptions=True)

    async def _stop_parts(self) -> None:
        """Run the stop steps and end the loops; safe to call twice.

        FastStream closes the broker before it leaves the lifespan, so this runs as its shutdown hook: what a service
        sends at its end (acks, messages returned to their streams) must still reach the broker.
        """
        stops, self._stops = self._stops, []
        tasks, self._tasks = self._tasks, []
        if stops or tasks:
            self.log.info("stopping")
        for step in reversed(stops):
            await step()
        await end_tasks(tasks)

    def asgi(self) -> AsgiApp:
        """Return the FastStream application with the health paths, in front of the service's own HTTP app if any."""
        specification = AsyncAPI(title=f"Towpath {self.role}", description="What this process answers.")

        @functools.cache
        def description() -> bytes:
            return json.dumps(specification.to_specification().to_jsonable()).encode()

        @get(include_in_schema=False)
        async def asyncapi(_scope: Scope) -> AsgiResponse:
            return AsgiResponse(description(), 200, {"content-type": "application/json"})

        stream = AsgiFastStream(
            self.bus.broker,
            asgi_routes=(
                ("/livez", self.health.livez),
                ("/readyz", self.health.readyz),
                ("/metrics", self.health.metrics),
                ("/asyncapi.json", asyncapi),
            ),
            lifespan=self._lifespan,
            on_shutdown=(self._stop_parts,),
            logger=None,
            serializer=HandlerArguments(use_fastdepends_errors=False),
            specification=specification,
        )
        app, slots = self._app, RequestSlots()
        known = frozenset(name.strip().lower() for name in self.settings.http_hosts.split(","))

        async def front(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and sum(name == b"host" for name, _ in scope["headers"]) > 1:
                # A proxy may have believed the other one (RFC 9112, 3.2).
                await AsgiResponse(b"the request has more than one Host\n", 400)(scope, receive, send)
                return
            if scope["type"] == "http" and scope["path"] in KEYLESS_PATHS:
                refused = refused_host(scope["headers"], known)
                if refused is not None:
                    await AsgiResponse(f"{refused}\n".encode(), 421)(scope, receive, send)
                    return
            if app is None or scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
                if scope["type"] == "http":
                    await slots.wait()
                await stream(scope, receive, send)
            else:
                await app(scope, receive, send)

        return front

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code, one of `towpath_fabric.startup.process_end`."""
        self._failed = False
        config = uvicorn.Config(
            self.asgi(),
            host=self._address[0],
            port=self._address[1],
            log_config=None,
            access_log=False,
            lifespan="on",
            loop="uvloop",
            http=bounded_protocol(
                ConnectionLimits(
                    header_s=self.settings.http_header_s,
                    strangers=min(self.settings.http_max_strangers, HEALTH_CONNECTIONS)
                    if self._app is None
                    else self.settings.http_max_strangers,
                    idle=self.settings.http_max_idle,
                )
            ),
            ws="none",
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=self.settings.http_idle_s,
            timeout_graceful_shutdown=int(self.settings.stop_grace_s),
        )
        self._server = _StoppableServer(config, self._notify_stopping, self.stopping)
        sockets = None if self._descriptor is None else [_inherited_socket(self._descriptor)]
        startup_log = logging.getLogger("uvicorn.error")
        startup_log.addFilter(self._tells_something)
        try:
            self._server.run(sockets)
        except SystemExit:  # uvicorn's, after a start that failed
            if self.problem is None:
                raise
        finally:
            startup_log.removeFilter(self._tells_something)
        if self.problem is not None:
            return exit_code(self.problem)
        return FAILED if self._failed or not self._server.started else 0


def _inherited_socket(descriptor: int) -> socket.socket:
    listener = socket.socket(fileno=descriptor)
    listener.set_inheritable(False)  # to whatever this process executes
    return listener
