"""What models cost is counted by provider, without ids and without a guess where no price is known."""

from prometheus_client import CollectorRegistry

from towpath_contracts.decisions.request import Cost, Usage
from towpath_decider.metrics import DeciderMetrics


def test_tokens_and_money_are_counted_by_provider() -> None:
    registry = CollectorRegistry()
    metrics = DeciderMetrics(registry)
    for usd in (0.25, None):
        metrics.count_spent("openai", Usage(input_tokens=300, output_tokens=20, total_tokens=320), Cost(usd=usd))
    metrics.count_spent("gemini", Usage(), Cost(usd=0.5))
    metrics.count_spent("gemini", Usage(input_tokens=-1, output_tokens=-1), Cost(usd=-1.0))
    tokens = [
        registry.get_sample_value("towpath_model_tokens_total", {"provider": "openai", "kind": kind})
        for kind in ("input", "output")
    ]
    assert tokens == [600, 40]
    assert registry.get_sample_value("towpath_model_cost_usd_total", {"provider": "openai"}) == 0.25
    assert registry.get_sample_value("towpath_model_cost_usd_total", {"provider": "gemini"}) == 0.5
