"""Makes the objects of one watchdog and connects them."""

from towpath_contracts.streams import WATCHDOG_CONSUMER
from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_fabric.nats.streams import ensure_consumer
from towpath_fabric.service import Service
from towpath_watchdog.app.event_reader import WatchdogEventReader
from towpath_watchdog.app.fact_reporter import SOURCE, FindingReporter
from towpath_watchdog.app.run_sweep import WatchdogSweep
from towpath_watchdog.core.run_memory import WatchedRuns
from towpath_watchdog.metrics import WatchdogMetrics
from towpath_watchdog.settings import WatchdogSettings


def build_service(settings: WatchdogSettings) -> Service:
    """Return a watchdog that observes runs once the service runs."""
    service = Service(SOURCE, settings)

    async def start() -> None:
        bus, log = service.bus, service.log
        memory, metrics = WatchedRuns(), WatchdogMetrics(service.registry)
        reporter = FindingReporter(bus, memory, metrics, log)
        run_sweep = WatchdogSweep(bus, memory, settings, reporter, metrics, log)
        on_reconnect(bus.nc, run_sweep.moved)
        consumer = PullConsumer(
            bus.nc,
            WATCHDOG_CONSUMER,
            window=2 * settings.watchdog_batch,
            rebind=lambda: ensure_consumer(bus.nc, WATCHDOG_CONSUMER),
        )
        await consumer.start()
        service.on_stop(consumer.stop)
        service.loop(WatchdogEventReader(consumer, memory, run_sweep, reporter, settings, metrics, log).run)
        service.loop(run_sweep.read)
        service.loop(run_sweep.sweep)
        service.loop(run_sweep.check_idle_runs)

    service.on_start(start)
    return service
