"""Prometheus metrics of the tool-access service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

STAY_BUCKETS_S = (
    *(0.0005, 0.00075, 0.001, 0.00125, 0.0015, 0.00175, 0.002, 0.0025, 0.003, 0.0035, 0.004, 0.005, 0.006, 0.008),
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
"""Fine where a call passes, so that a median can be read from it (`bench/tas_step.py`)."""

LONG_CPU_S = 0.05
"""CPU that a batch of decisions takes in a thread at most before it counts as long."""


class TasMetrics:
    """Prometheus metrics of one replica; no label ever holds an id."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter("towpath_tas_decisions", "Decisions on calls", ["verdict"], registry=registry)
        self.decided = Counter(
            "towpath_tas_calls_decided", "Calls and outcomes that were decided about, each time", registry=registry
        )
        self.decision_cpu_seconds = Counter(
            "towpath_tas_decision_cpu_seconds", "CPU of the threads that decided about them", registry=registry
        )
        self.long_decisions = Counter(
            "towpath_tas_long_decisions",
            "Batches of decisions that took more than LONG_CPU_S of CPU",
            registry=registry,
        )
        self.outcomes = Counter(
            "towpath_tas_outcomes", "Ends of calls in the ledger", ["status", "effect_class"], registry=registry
        )
        self.evidence = Counter("towpath_tas_evidence", "Outcomes kept as evidence only", registry=registry)
        self.claims = Counter("towpath_tas_claims", "Claims answered", ["answer"], registry=registry)
        self.postponed = Counter(
            "towpath_tas_calls_postponed",
            "Requests that a project's tool calls a minute had no room for",
            registry=registry,
        )
        self.dispatches = Counter("towpath_tas_dispatches", "Calls sent to workers", registry=registry)
        self.facts = Counter("towpath_tas_facts", "Facts sent to runs", registry=registry)
        self.redone = Counter("towpath_tas_redone", "Decisions made again on a fresh picture", registry=registry)
        self.reloads = Counter("towpath_tas_policy_loads", "Matrices and registries loaded", registry=registry)
        self.rules_changed = Counter(
            "towpath_tas_policy_refusals", "Times that stored rules were not those of their version", registry=registry
        )
        self.housekept = Gauge(
            "towpath_housekeeping_success_timestamp_seconds",
            "When partitions were last made and old rows removed",
            ["task"],
            registry=registry,
        )
        self.dead = Counter("towpath_tas_dead_letters", "Messages set aside", ["stream"], registry=registry)
        self.sealed = Counter("towpath_tas_audit_leaves", "Entries of the audit that were sealed", registry=registry)
        self.seal_refusals = Counter(
            "towpath_tas_audit_seal_refusals",
            "Times that a log was not sealed that does not fit its checkpoint, or its clock",
            registry=registry,
        )
        self.batch = Histogram(
            "towpath_tas_batch",
            "Messages per batch",
            ["kind"],
            buckets=(1, 2, 5, 10, 25, 50, 100, 256),
            registry=registry,
        )
        self.stay_seconds = Histogram(
            "towpath_tas_stay_seconds",
            "From a message's arrival at the broker until what follows from it was sent",
            ["kind"],
            buckets=STAY_BUCKETS_S,
            registry=registry,
        )
        self.write_seconds = Histogram(
            "towpath_tas_write_seconds",
            "Time of one ledger commit",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2),
            registry=registry,
        )

    def count_decisions(self, decisions: int, cpu_s: float) -> None:
        """Count a batch of decisions that took *cpu_s* seconds of a thread's CPU."""
        self.decided.inc(decisions)
        self.decision_cpu_seconds.inc(cpu_s)
        if cpu_s > LONG_CPU_S:
            self.long_decisions.inc()


class QueueMetrics:
    """Gauges of queues, workers and the audit, which every replica reads on an interval."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pool_waiting = Gauge(
            "towpath_pool_waiting", "Calls that no worker has taken yet", ("project", "toolset"), registry=registry
        )
        self.pool_in_flight = Gauge(
            "towpath_pool_in_flight",
            "Calls that workers have taken and not ended",
            ("project", "toolset"),
            registry=registry,
        )
        self.pool_oldest = Gauge(
            "towpath_pool_oldest_seconds",
            "How long the oldest call has waited for a worker",
            ("project", "toolset"),
            registry=registry,
        )
        self.pool_workers = Gauge(
            "towpath_pool_workers", "Worker processes that take calls", ("project", "toolset"), registry=registry
        )
        self.waiting = Gauge(
            "towpath_queue_waiting", "Messages that no service has taken yet", ("stream", "consumer"), registry=registry
        )
        self.in_flight = Gauge(
            "towpath_queue_in_flight",
            "Messages that services have taken and not settled",
            ("stream", "consumer"),
            registry=registry,
        )
        self.stream_oldest = Gauge(
            "towpath_stream_oldest_seconds",
            "Age of the oldest message of a stream that nobody has settled",
            ("stream",),
            registry=registry,
        )
        self.filled = Gauge("towpath_stream_used_ratio", "How full a stream is", ("stream",), registry=registry)
        self.left_out = Gauge(
            "towpath_pools_left_out", "Toolsets that are not told, since there are too many", registry=registry
        )
        self.unsealed = Gauge(
            "towpath_audit_unsealed", "Entries of the audit that wait to be sealed, up to 100,000", registry=registry
        )
        self.unsealed_oldest = Gauge(
            "towpath_audit_unsealed_oldest_seconds", "How long the oldest of them has waited", registry=registry
        )
        self.clock_offset = Gauge(
            "towpath_clock_offset_seconds", "How far the clock of this process is ahead of Postgres", registry=registry
        )
