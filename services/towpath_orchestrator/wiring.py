"""The parts of one replica, put together on whatever stands for the database and the broker.

The only place that knows which part needs which other. `__main__` gives it Postgres and NATS; the simulation gives
it tables and a broker in memory, so that what is simulated is what runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from towpath_fabric.dead_letters import DeadLetters
from towpath_fabric.ports import Database, Feed, Wire
from towpath_fabric.telemetry.logs import Logger
from towpath_orchestrator.adapters.model_prices import Prices
from towpath_orchestrator.adapters.run_store import RunTables
from towpath_orchestrator.app.api.budgets import Budgets
from towpath_orchestrator.app.api.commands import Acting
from towpath_orchestrator.app.api.dead_letters import Letters
from towpath_orchestrator.app.api.forks import Forks
from towpath_orchestrator.app.api.handlers import (
    Clients,
    Enqueued,
    serve_budgets,
    serve_clients,
    serve_letters,
    serve_records,
    serve_services,
    serve_submits,
    serve_waking,
)
from towpath_orchestrator.app.api.network_registry import Registry
from towpath_orchestrator.app.api.queries import Reading
from towpath_orchestrator.app.api.replay_jobs import ReplayGate
from towpath_orchestrator.app.api.submit import Intake
from towpath_orchestrator.app.loop.admission import Admission
from towpath_orchestrator.app.loop.budget_limits import Limits
from towpath_orchestrator.app.loop.child_runs import Children
from towpath_orchestrator.app.loop.commit_loop import CommitLoop
from towpath_orchestrator.app.loop.dispatch_windows import Backlog, Windows
from towpath_orchestrator.app.loop.effect_dispatcher import Sender
from towpath_orchestrator.app.loop.held_request_timers import Holding
from towpath_orchestrator.app.loop.reconciler import Reconciler
from towpath_orchestrator.app.loop.startup_resend import Resuming
from towpath_orchestrator.app.loop.switch_resume import Waking
from towpath_orchestrator.metrics import Metrics
from towpath_orchestrator.settings import OrchestratorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where a replica touches the world. `arrived` is set by *inbox*; `ensure` declares the broker's streams.

    `backlog` says what waits at the broker; without it windows stay as wide as they are set.
    """

    pool: Database
    bus: Wire
    inbox: Feed
    tasks: Feed
    arrived: asyncio.Event
    ensure: Callable[[], Awaitable[None]]
    backlog: Backlog | None = None


class Parts:
    """One replica. `answer` registers what it answers; then every one of `loops` runs for ever, or until it returns."""

    def __init__(self, ports: Ports, settings: OrchestratorSettings, metrics: Metrics, log: Logger) -> None:
        pool, bus = ports.pool, ports.bus
        prices = Prices(settings.model_prices_file)
        self._bus = bus
        self._settings = settings
        self._tables = tables = RunTables(pool)
        limits = Limits(pool, prices.price_of)
        self._budgets = Budgets(pool, bus, limits)
        self._registry = Registry(pool, tables, bus)
        self.loop = loop = CommitLoop(pool, tables, ports.inbox, ports.arrived, settings, metrics, log, limits)
        sender = loop.sender = Sender(bus, metrics, loop.add)
        self._windows = windows = sender.windows = Windows(sender.request, settings, metrics, ports.backlog)
        sender.children = loop.children = Children(pool, bus, log)
        admission = loop.admission = Admission(pool, settings, metrics, loop.add, log)
        self._intake = intake = Intake(pool, tables, loop, settings, self._registry.find, bus, limits, admission)
        self._reading = Reading(pool, loop.waiters, loop.endings)
        self._acting = Acting(self._reading, bus)
        self.letters = Letters(pool, bus, loop, metrics, log)
        self._replays = ReplayGate(pool)
        self._waking = Waking(pool, loop)
        self._forks = Forks(pool, intake, bus, settings, self._registry.find)
        reconciler = Reconciler(pool, loop, admission, settings, log, limits)
        dead = DeadLetters(pool, "TASKS", metrics.dead, log)
        self.loops: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
            loop.run,
            intake.run,
            reconciler.run,
            admission.run,
            windows.run,
            Holding(pool, tables, loop.cache, windows, log).run,
            partial(sender.follow_reconnects, loop.cache.states, ports.ensure),
            reconciler.keep_house,
            Resuming(pool, tables, sender, log, most=settings.max_active_runs).run,
            Enqueued(ports.tasks, intake, dead, log).run,
        )

    async def answer(self) -> Callable[[], Awaitable[None]]:
        """Answer clients and services; returns what ends the taking of tasks."""
        clients = Clients(self._intake, self._reading, self._acting)
        serve_clients(self._bus, clients)
        serve_services(self._bus, self._reading, self._acting, self._registry)
        serve_letters(self._bus, self.letters)
        serve_records(self._bus, self._replays, self._forks)
        serve_waking(self._bus, self._waking)
        serve_budgets(self._bus, self._budgets)
        return await serve_submits(self._bus, clients, self._settings, self._windows)
