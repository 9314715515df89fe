"""Composition root of the orchestrator."""

import asyncio
import sys
from functools import partial

from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER
from towpath_fabric.dead_letters import DeadLetters
from towpath_fabric.pull import PullConsumer
from towpath_fabric.service import Service
from towpath_fabric.streams import ensure_streams
from towpath_orchestrator import replay_command
from towpath_orchestrator.acting import Acting
from towpath_orchestrator.adapters.run_tables import RunTables
from towpath_orchestrator.app import Clients, Enqueued, serve_clients, serve_letters, serve_records, serve_services
from towpath_orchestrator.forks import Forks
from towpath_orchestrator.gate import ReplayGate
from towpath_orchestrator.letters import Letters
from towpath_orchestrator.loop import CommitLoop
from towpath_orchestrator.metrics import Metrics
from towpath_orchestrator.reading import Reading
from towpath_orchestrator.reconciler import Reconciler
from towpath_orchestrator.registry import Registry
from towpath_orchestrator.resuming import Resuming
from towpath_orchestrator.sender import Sender
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_orchestrator.submit import Intake
from towpath_orchestrator.tracing import RunTracing


class Orchestrator:
    """Wires the parts of one replica once database and broker are there."""

    def __init__(self, service: Service, settings: OrchestratorSettings) -> None:
        self._service = service
        self._settings = settings
        self._metrics = Metrics(service.registry)
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Declare streams, answer requests, begin to fold."""
        service, bus, pool = self._service, self._service.bus, self._service.pool
        await self._ensure()
        arrived = asyncio.Event()
        inbox = PullConsumer(bus.nc, INBOX_CONSUMER, window=1024, rebind=self._ensure, arrived=arrived)
        tasks = PullConsumer(bus.nc, TASKS_CONSUMER, window=128, rebind=self._ensure)
        tables = RunTables(pool)
        registry = Registry(pool, tables, bus)
        loop = CommitLoop(pool, tables, inbox, arrived, self._settings, self._metrics, service.log)
        loop.tracing = RunTracing(pool, service.telemetry, service.log)
        sender = loop.sender = Sender(bus, self._metrics, loop.add)
        intake = Intake(pool, tables, loop, self._settings, registry.find)
        reading = Reading(pool, loop.waiters, loop.endings)
        acting = Acting(reading, bus)
        reconciler = Reconciler(pool, loop, intake, self._settings, self._metrics, service.log)
        serve_clients(bus, Clients(intake, reading, acting))
        serve_services(bus, reading, acting, registry)
        serve_letters(bus, Letters(pool, bus, loop, self._metrics))
        serve_records(bus, ReplayGate(pool), Forks(pool, intake, bus, self._settings, registry.find))
        await inbox.start()
        await tasks.start()
        service.on_stop(inbox.stop)
        service.on_stop(tasks.stop)
        service.loop(loop.run)
        service.loop(intake.run)
        service.loop(reconciler.run)
        service.loop(partial(sender.follow_reconnects, loop.cache.states, self._ensure))
        service.loop(reconciler.keep_house)
        service.loop(Resuming(pool, tables, sender, service.log, most=self._settings.max_active_runs).run)
        dead = DeadLetters(pool, "TASKS", self._metrics.dead, service.log)
        service.loop(Enqueued(tasks, intake, dead, service.log).run)

    async def _ensure(self) -> None:
        await ensure_streams(self._service.bus.nc)


def main() -> int:
    """Run one replica, or with `replay` a replay of stored runs; returns the exit code."""
    if sys.argv[1:2] == ["replay"]:
        return replay_command.main(sys.argv[2:])
    settings = OrchestratorSettings.load()
    service = Service("orchestrator", settings)
    service.on_start(Orchestrator(service, settings).start)
    return service.run()


if __name__ == "__main__":
    sys.exit(main())
