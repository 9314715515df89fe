"""What the decider counts. Labels are providers, limits and results, never ids and never texts of a task."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from towpath_contracts.decisions.request import Cost, Usage


class DeciderMetrics:
    """Prometheus metrics of one decider."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "towpath_decisions", "Decisions by provider and result", ("provider", "result"), registry=registry
        )
        self.tokens = Counter(
            "towpath_model_tokens", "Tokens that models read and wrote", ("provider", "kind"), registry=registry
        )
        self.cost_usd = Counter(
            "towpath_model_cost_usd", "Money of model calls whose price is known", ("provider",), registry=registry
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

    def count_spent(self, provider: str, usage: Usage, cost: Cost) -> None:
        """Count what the calls for one decision took; a counter can't take back what a provider reports below zero."""
        self.tokens.labels(provider, "input").inc(max(0, usage.input_tokens))
        self.tokens.labels(provider, "output").inc(max(0, usage.output_tokens))
        self.cost_usd.labels(provider).inc(max(0.0, cost.usd or 0.0))
