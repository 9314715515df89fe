"""What the log-writer counts. Labels are streams and results, never ids."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class LogWriterMetrics:
    """Prometheus metrics of one log-writer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter(
            "towpath_history_messages", "Messages by stream and fate", ("stream", "fate"), registry=registry
        )
        self.housekept = Gauge(
            "towpath_housekeeping_success_timestamp_seconds",
            "When partitions were last made and old rows removed",
            ("task",),
            registry=registry,
        )
        self.backlog = Gauge("towpath_history_backlog", "Events the stream has still to deliver", registry=registry)
