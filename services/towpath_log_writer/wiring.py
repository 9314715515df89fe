"""Makes the objects of one log-writer and connects them."""

from towpath_contracts.rpc import GET_COSTS, GET_HISTORY, GET_LLM_CALLS
from towpath_contracts.streams import EVENTS_CONSUMER, LOGS_CONSUMER, ConsumerSpec
from towpath_fabric.nats.pull_consumer import PullConsumer
from towpath_fabric.nats.reconnects import on_reconnect
from towpath_fabric.nats.streams import ensure_consumer
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.read_replica import reading_database
from towpath_fabric.postgres.run_erasures import ErasureStatements, RunErasureLoop
from towpath_fabric.redelivery.poison_messages import MarkStatements, poison_guards
from towpath_fabric.service import Service
from towpath_log_writer.adapters.history_tables import QUERIES, HistoryStore, SweepProgressStore
from towpath_log_writer.app.history_queries import CostQueries, HistoryQueries
from towpath_log_writer.app.history_writer import HistoryWriter
from towpath_log_writer.app.repair import HistoryRepairer
from towpath_log_writer.app.stream_readers import DebugLogReader, HistoryEventReader, StreamBacklog, forget_past
from towpath_log_writer.metrics import LogWriterMetrics
from towpath_log_writer.settings import LogWriterSettings

ROLE = "log_writer"

MARKS = MarkStatements(QUERIES.begin_handling, QUERIES.end_handling)

ERASURES = ErasureStatements(due=QUERIES.due_erasures, erase=QUERIES.erase_runs)
"""Erasing runs: the history's part."""


def build_service(settings: LogWriterSettings) -> Service:
    """Return a log-writer that serves once the service runs."""
    service = Service(ROLE, settings)

    async def start() -> None:
        bus, pool, log = service.bus, service.pool, service.log
        tables, metrics = HistoryStore(pool), LogWriterMetrics(service.registry)
        writer = HistoryWriter(tables, log)
        events, logs = (_consumer(service, spec, settings) for spec in (EVENTS_CONSUMER, LOGS_CONSUMER))
        backlog = StreamBacklog(metrics)
        sweeps = SweepProgressStore(PinnedDatabaseConnection(pool))
        repairer = HistoryRepairer(bus, sweeps, writer, log, has_backlog=backlog.is_large)
        on_reconnect(bus.nc, repairer.moved)
        guard = poison_guards(pool, log, max_deaths=settings.max_handling_deaths, marks=MARKS)
        reader = HistoryEventReader(
            events, guard(EVENTS_CONSUMER, events), writer, repairer, backlog, settings, metrics, log
        )
        reads = reading_database(service)
        queries = HistoryQueries(reads)
        bus.subscriber(GET_HISTORY)(queries.get_history)
        bus.subscriber(GET_LLM_CALLS)(queries.get_llm_calls)
        bus.subscriber(GET_COSTS)(CostQueries(reads).get_costs)
        for consumer in (events, logs):
            await consumer.start()
            service.on_stop(consumer.stop)
        service.loop(reader.run)
        service.loop(DebugLogReader(logs, guard(LOGS_CONSUMER, logs), tables, settings, metrics, log).run)
        service.loop(lambda: forget_past(tables, metrics, log))
        service.loop(RunErasureLoop(pool, ERASURES, log).run)
        service.loop(repairer.repair)
        service.loop(lambda: repairer.sweep(settings.history_sweep_s))

    service.on_start(start)
    return service


def _consumer(service: Service, spec: ConsumerSpec, settings: LogWriterSettings) -> PullConsumer:
    nc = service.bus.nc
    return PullConsumer(nc, spec, window=2 * settings.history_batch, rebind=lambda: ensure_consumer(nc, spec))
