"""What the gateway counts. Labels are route templates and problem codes, never ids."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class GatewayMetrics:
    """Prometheus metrics of one gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "towpath_gateway_requests_total", "HTTP requests", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "towpath_gateway_request_seconds",
            "Time to answer, streams excluded",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.streams = Gauge("towpath_gateway_streams", "Open event streams", registry=registry)
        self.refused = Counter(
            "towpath_gateway_refused_total", "Requests refused for their credential", ["code"], registry=registry
        )
