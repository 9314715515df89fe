"""What a worker counts.

Labels are toolsets, tools and codes, never ids.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300)
"""From a look-up to a report: tools differ by five orders of magnitude."""


class WorkerMetrics:
    """The worker's counters on *registry*."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.outcomes = Counter(
            "towpath_worker_outcomes", "Outcomes by tool and status", ["tool", "status"], registry=registry
        )
        self.refused = Counter("towpath_worker_refused", "Deliveries not run, by reason", ["reason"], registry=registry)
        self.running = Gauge("towpath_worker_running", "Slots in use", registry=registry)
        self.overrun = Gauge("towpath_worker_overrun", "Slots held by calls whose time is over", registry=registry)
        self.unconfirmed = Gauge("towpath_worker_unconfirmed", "Outcomes not confirmed yet", registry=registry)
        self.seconds = Histogram(
            "towpath_worker_call_seconds", "Time of calls", ["tool"], buckets=SECONDS, registry=registry
        )
        self.held = Gauge(
            "towpath_worker_tools_held", "Discovered tools that nobody has accepted as they are", ["toolset"],
            registry=registry,
        )  # fmt: skip
        self.source_up = Gauge(
            "towpath_worker_source_up", "Whether what a toolset's tools come from is connected", ["toolset"],
            registry=registry,
        )  # fmt: skip
        self.hook_failures = Counter("towpath_worker_hook_failures", "Hooks that failed", ["event"], registry=registry)
