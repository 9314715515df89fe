"""What a worker counts.

Labels are toolsets, tools and codes, never ids.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from towpath_fabric.telemetry.bounded_labels import BoundedLabels
from towpath_readings.spans import TOOL_TYPE

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
        self.call_seconds = Histogram(
            "gen_ai_execute_tool_duration_seconds",
            "Time of calls, by the names of OpenTelemetry's conventions",
            ["gen_ai_tool_name", "gen_ai_tool_type", "error_type"],
            buckets=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
            registry=registry,
        )
        self._failures = BoundedLabels()
        self.held = Gauge(
            "towpath_worker_tools_held", "Discovered tools that nobody has accepted as they are", ["toolset"],
            registry=registry,
        )  # fmt: skip
        self.source_up = Gauge(
            "towpath_worker_source_up", "Whether what a toolset's tools come from is connected", ["toolset"],
            registry=registry,
        )  # fmt: skip
        self.hook_failures = Counter("towpath_worker_hook_failures", "Hooks that failed", ["event"], registry=registry)

    def count_call(self, tool: str, seconds: float, failure: str) -> None:
        """Measure one call of *tool*; *failure* is its code, which the tool's own code may have chosen."""
        (error,) = self._failures.of(failure)
        self.call_seconds.labels(tool, TOOL_TYPE, error).observe(seconds)
