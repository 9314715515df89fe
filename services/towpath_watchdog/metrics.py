"""What the watchdog counts. Labels are findings and results, never ids."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class WatchdogMetrics:
    """Prometheus metrics of one watchdog."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.events = Counter("towpath_watchdog_messages", "Event messages by fate", ("fate",), registry=registry)
        self.findings = Counter("towpath_watchdog_findings", "Reports by finding", ("finding",), registry=registry)
        self.unsent = Counter("towpath_watchdog_unsent", "Reports the broker did not take", registry=registry)
        self.judged = Counter("towpath_watchdog_judged", "Runs that were judged", registry=registry)
        self.followed = Gauge("towpath_watchdog_followed", "Runs that are followed", registry=registry)
        self.idle = Gauge("towpath_watchdog_idle", "Runs that stand still, by why", ("why",), registry=registry)
