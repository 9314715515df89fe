"""What the decider counts. Labels are providers, models, limits and results, never ids and never texts of a task."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from towpath_contracts.decisions.request import Cost, Usage
from towpath_fabric.telemetry.bounded_labels import BoundedLabels
from towpath_readings.model_responses import ModelResponse
from towpath_readings.spans import provider_name, request_model

CHAT = "chat"


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
        self.call_seconds = Histogram(
            "gen_ai_client_operation_duration_seconds",
            "Time of one model call",
            (
                "gen_ai_operation_name",
                "gen_ai_provider_name",
                "gen_ai_request_model",
                "gen_ai_response_model",
                "error_type",
            ),
            buckets=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
            registry=registry,
        )
        self.call_tokens = Histogram(
            "gen_ai_client_token_usage",
            "Tokens that one model call read or wrote, where its provider tells them",
            (
                "gen_ai_operation_name",
                "gen_ai_provider_name",
                "gen_ai_request_model",
                "gen_ai_response_model",
                "gen_ai_token_type",
            ),
            buckets=tuple(4**power for power in range(14)),
            registry=registry,
        )
        self._models = BoundedLabels()

    def count_spent(self, provider: str, usage: Usage, cost: Cost) -> None:
        """Count what the calls for one decision took; a counter can't take back what a provider reports below zero."""
        self.tokens.labels(provider, "input").inc(max(0, usage.input_tokens))
        self.tokens.labels(provider, "output").inc(max(0, usage.output_tokens))
        self.cost_usd.labels(provider).inc(max(0.0, cost.usd or 0.0))

    def count_call(self, model: str, response: ModelResponse, usage: Usage, seconds: float, error: str = "") -> None:
        """Measure one call of *model* as OpenTelemetry's conventions for generative AI do; *error* is a stable code."""
        asked, answered = self._models.of(request_model(model), response.model)
        labels = (CHAT, provider_name(model), asked, answered)
        self.call_seconds.labels(*labels, error).observe(seconds)
        if usage.input_tokens or usage.output_tokens:  # else nobody has told them
            self.call_tokens.labels(*labels, "input").observe(max(0, usage.input_tokens))
            self.call_tokens.labels(*labels, "output").observe(max(0, usage.output_tokens))
