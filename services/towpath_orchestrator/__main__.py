"""Starts one replica of the orchestrator on Postgres and NATS."""

import asyncio
import sys
from functools import partial

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_contracts.streams import INBOX_CONSUMER, TASKS_CONSUMER
    from towpath_fabric.nats.pull_consumer import PullConsumer
    from towpath_fabric.nats.streams import backlog, ensure_consumer, ensure_streams, purge_run_events
    from towpath_fabric.postgres.read_replica import reading_database
    from towpath_fabric.postgres.run_erasures import RunErasureLoop
    from towpath_fabric.service import Service
    from towpath_fabric.startup.process_end import run_process
    from towpath_orchestrator.adapters.notice_targets import load_receivers
    from towpath_orchestrator.adapters.run_store import ERASURES
    from towpath_orchestrator.app.api import replay_command
    from towpath_orchestrator.app.api.handlers import serve_agents, serve_notices
    from towpath_orchestrator.app.commit.run_telemetry import RunTracing
    from towpath_orchestrator.app.operating_gauges import OperatingGauges
    from towpath_orchestrator.app.stored_bytes import StoredBytesLoop
    from towpath_orchestrator.app.unused_blobs import UnusedBlobLoop
    from towpath_orchestrator.app.webhook_delivery import GateNoticeLoop
    from towpath_orchestrator.metrics import OperatingMetrics, OrchestratorMetrics, StorageMetrics
    from towpath_orchestrator.settings import OrchestratorSettings
    from towpath_orchestrator.wiring import OrchestratorPorts, OrchestratorWiring


class Orchestrator:
    """Wires the parts of one replica once database and broker are there."""

    def __init__(self, service: Service, settings: OrchestratorSettings) -> None:
        self._service = service
        self._settings = settings
        self._metrics = OrchestratorMetrics(service.registry)
        self._receivers = load_receivers(settings.webhooks_file, settings.approval_notices_file)

    async def start(self) -> None:
        """Declare streams, answer requests, begin to fold."""
        service, bus, pool = self._service, self._service.bus, self._service.pool
        await self._ensure()
        arrived = asyncio.Event()
        rebind = self._ensure
        inbox = PullConsumer(bus.nc, INBOX_CONSUMER, window=1024, rebind=rebind, arrived=arrived, extends=True)
        tasks = PullConsumer(bus.nc, TASKS_CONSUMER, window=128, rebind=rebind, extends=True)
        ports = OrchestratorPorts(
            pool=pool,
            reads=reading_database(service),
            bus=bus,
            inbox=inbox,
            tasks=tasks,
            arrived=arrived,
            ensure=self._ensure,
            backlog=self._backlog,
            trace_run=RunTracing(pool, service.telemetry, service.log).ended,
        )
        wiring = OrchestratorWiring(ports, self._settings, self._metrics, service.log)
        service.on_stop(await wiring.answer())
        serve_agents(bus, wiring.dead_letters, partial(ensure_consumer, bus.nc))
        console_url, pause = self._settings.console_url, wiring.activity.pause
        notices = GateNoticeLoop(pool, self._receivers, service.log, pause=pause, console_url=console_url)
        serve_notices(bus, notices)
        service.loop(notices.run)
        purge = partial(purge_run_events, bus.nc)
        service.loop(RunErasureLoop(pool, ERASURES, service.log, purge=purge).run)
        service.loop(OperatingGauges(pool, OperatingMetrics(service.registry), service.log).run)
        service.loop(UnusedBlobLoop(pool, self._metrics, service.log).run)
        service.loop(StoredBytesLoop(pool, wiring.stored, StorageMetrics(service.registry), service.log).run)
        await inbox.start()
        await tasks.start()
        service.on_stop(inbox.stop)
        service.on_stop(tasks.stop)
        for loop in wiring.loops:
            service.loop(loop)

    async def _backlog(self, stream: str, durable: str) -> int | None:
        return await backlog(self._service.bus.nc, stream, durable)

    async def _ensure(self) -> None:
        await ensure_streams(self._service.bus.nc, replicas=self._settings.stream_replicas)


def main() -> int:
    """Run one replica, or with `replay` a replay of stored runs; returns the exit code."""
    if sys.argv[1:2] == ["replay"]:
        return replay_command.main(sys.argv[2:])
    return run_process("orchestrator", OrchestratorSettings.load, serve, needs_database=True)


def serve(settings: OrchestratorSettings) -> int:
    """Serve until asked to stop; returns the exit code."""
    service = Service("orchestrator", settings)
    service.on_start(Orchestrator(service, settings).start)
    return service.run()


if __name__ == "__main__":
    sys.exit(main())
