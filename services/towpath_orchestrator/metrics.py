"""What the orchestrator counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from towpath_fabric.telemetry.bounded_labels import BoundedLabels

STEPS = (1, 2, 3, 5, 8, 13, 20, 50, 100)


class OrchestratorMetrics:
    """Prometheus metrics of one replica; no label ever holds an id."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.facts = Counter("towpath_facts", "Facts folded", ["type"], registry=registry)
        self.facts_handled = Counter("towpath_facts_handled", "Facts taken from the inbox", registry=registry)
        self.conflicts = Counter("towpath_seq_conflicts", "Runs that another replica moved first", registry=registry)
        self.reloads = Counter(
            "towpath_state_reloads", "States loaded again because the log had moved", registry=registry
        )
        self.loads = Counter("towpath_state_loads", "States loaded because they were not in memory", registry=registry)
        self.batch = Histogram(
            "towpath_batch_runs", "Runs per transaction", buckets=(1, 2, 5, 10, 25, 50, 100, 250), registry=registry
        )
        self.commit_seconds = Histogram(
            "towpath_commit_seconds",
            "Time of one batch transaction",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2),
            registry=registry,
        )
        self.runs = Counter("towpath_runs_finished", "Runs that ended", ["status"], registry=registry)
        self.run_seconds = Histogram(
            "towpath_run_seconds",
            "From the birth of a run until its end, waits included",
            ["kind", "status"],
            buckets=(1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400),
            registry=registry,
        )
        self.workflow_seconds = Histogram(
            "gen_ai_invoke_workflow_duration_seconds",
            "From the birth of a run until its end, by the names of OpenTelemetry's conventions",
            ["gen_ai_workflow_name", "error_type"],
            buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200),
            registry=registry,
        )
        self._workflows = BoundedLabels()
        self.run_steps = Histogram(
            "towpath_run_steps", "Steps of runs that ended", ["kind"], buckets=STEPS, registry=registry
        )
        self._add_plans(registry)
        self.recursion_denials = Counter(
            "towpath_recursion_denials",
            "Child runs that were refused because they would stand too deep",
            registry=registry,
        )
        self.submitted = Counter("towpath_tasks", "Tasks by what became of them", ["result"], registry=registry)
        self.effects = Counter("towpath_effects_sent", "Effects sent", ["kind"], registry=registry)
        self.resent = Counter("towpath_effects_resent", "Effects sent again by the reconciler", registry=registry)
        self.dead = Counter("towpath_dead_letters", "Messages set aside", ["stream"], registry=registry)
        self.refused = Counter("towpath_budget_refusals", "Reservations that did not fit", registry=registry)
        self.quota_refusals = Counter(
            "towpath_quota_refusals", "Tasks that the quota of their project had no room for", registry=registry
        )
        self.active = Gauge("towpath_runs_active", "Runs that hold room", registry=registry)
        self.held = Gauge("towpath_requests_held", "Requests that wait for their turn", registry=registry)
        self.held_seconds = Histogram(
            "towpath_request_held_seconds",
            "How long requests waited for their turn, of those that had to",
            buckets=(0.01, 0.05, 0.25, 1, 5, 30, 120, 600),
            registry=registry,
        )
        self.queued = Gauge("towpath_runs_queued", "Runs that wait for room", registry=registry)
        self.waiting = Gauge(
            "towpath_runs_waiting", "Runs that wait for people, of a project at most its share", registry=registry
        )
        self.housekept = Gauge(
            "towpath_housekeeping_success_timestamp_seconds",
            "When partitions were last made and old rows removed",
            ["task"],
            registry=registry,
        )

    def count_workflow(self, network: str, seconds: float, error: str) -> None:
        """Measure one run of *network*; *error* is why it did not complete, empty where it did."""
        self.workflow_seconds.labels(*self._workflows.of(network, error)).observe(seconds)

    def _add_plans(self, registry: CollectorRegistry) -> None:
        self.plans = Counter(
            "towpath_plans_finished", "Plans and workflows that ended", ["kind", "status"], registry=registry
        )
        self.plan_steps = Counter(
            "towpath_plan_steps",
            "Steps of plans and workflows, by what became of them",
            ["type", "status"],
            registry=registry,
        )
        self.plan_step_seconds = Histogram(
            "towpath_plan_step_seconds",
            "Active time of the steps of plans and workflows",
            ["type"],
            buckets=(0.05, 0.25, 1, 5, 15, 60, 300, 1_800),
            registry=registry,
        )


class StorageMetrics:
    """What projects have stored whose quota limits it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.stored_bytes = Gauge(
            "towpath_project_stored_bytes",
            "Bytes that a project with a limit of them has stored",
            ["project"],
            registry=registry,
        )


class OperatingMetrics:
    """Gauges of what the whole platform has waiting, which every replica reads from Postgres."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.quarantined = Gauge("towpath_runs_quarantined", "Runs that take no step any more", registry=registry)
        self.gates = Gauge("towpath_gates_pending", "Gates that wait for people", ["type"], registry=registry)
        self.gate_oldest = Gauge(
            "towpath_gates_oldest_seconds", "How long the oldest of them has waited", ["type"], registry=registry
        )
        self.dead_open = Gauge(
            "towpath_dead_letters_open", "Dead letters that nobody has settled", ["stream"], registry=registry
        )
        self.budget_used = Gauge(
            "towpath_budget_used_ratio",
            "The highest used share of any limit of a caller, project or day",
            ["unit"],
            registry=registry,
        )
        self.clock_offset = Gauge(
            "towpath_clock_offset_seconds", "How far the clock of this process is ahead of Postgres", registry=registry
        )
