"""What the decider counts. Labels are providers, limits and results, never ids and never texts of a task."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class DeciderMetrics:
    """Prometheus metrics of one decider."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "towpath_decisions", "Decisions by provider and result", ("provider", "result"), registry=registry
        )
        self.seconds = Histogram(
            "towpath_decision_seconds",
            "Time from request to stored fact",
            ("provider",),
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120),
            registry=registry,
        )
        self.limiter_wait_s = Histogram(
            "towpath_provider_wait_seconds",
            "How long calls waited for a place at a provider with limits",
            ("provider",),
            buckets=(0.001, 0.01, 0.05, 0.25, 1, 5, 30),
            registry=registry,
        )
        self.limiter_timeouts = Counter(
            "towpath_provider_no_turn", "Calls that found no place in their time", ("provider",), registry=registry
        )
