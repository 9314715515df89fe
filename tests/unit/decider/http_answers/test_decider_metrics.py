"""What models cost is counted by provider, without ids and without a guess where no price is known."""

from prometheus_client import CollectorRegistry

from towpath_contracts.decisions.request import Cost, Usage
from towpath_decider.metrics import DeciderMetrics
from towpath_fabric.telemetry.bounded_labels import MAX_VALUES
from towpath_readings.model_responses import NO_RESPONSE, model_response


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


def test_every_call_of_a_model_is_measured_as_the_conventions_say() -> None:
    registry = CollectorRegistry()
    metrics = DeciderMetrics(registry)
    said = model_response(model="flash-001", response_id="r1", finish_reason="STOP")
    metrics.count_call("gemini:flash", said, Usage(input_tokens=300, output_tokens=20), 0.5)
    metrics.count_call("gemini:flash", NO_RESPONSE, Usage(model_calls=1), 2.0, "model_unavailable")
    chat = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "gcp.gemini", "gen_ai_request_model": "flash"}
    answered, silent = {**chat, "gen_ai_response_model": "flash-001"}, {**chat, "gen_ai_response_model": ""}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"gen_ai_client_{name}", labels)

    assert value("token_usage_sum", **answered, gen_ai_token_type="input") == 300
    assert value("token_usage_sum", **answered, gen_ai_token_type="output") == 20
    assert value("token_usage_bucket", **answered, gen_ai_token_type="input", le="1024.0") == 1
    assert value("token_usage_bucket", **answered, gen_ai_token_type="input", le="256.0") == 0
    assert value("operation_duration_seconds_bucket", **answered, error_type="", le="0.64") == 1
    assert value("operation_duration_seconds_sum", **silent, error_type="model_unavailable") == 2.0
    assert value("token_usage_sum", **silent, gen_ai_token_type="input") is None, "nobody told them: they are not 0"


def test_models_beyond_a_limit_share_one_series() -> None:
    registry = CollectorRegistry()
    metrics = DeciderMetrics(registry)
    for number in range(MAX_VALUES + 5):
        metrics.count_call(f"local:m{number}", NO_RESPONSE, Usage(), 0.1)
    (family,) = (one for one in registry.collect() if one.name == "gen_ai_client_operation_duration_seconds")
    models = {sample.labels["gen_ai_request_model"] for sample in family.samples}
    assert len(models) == MAX_VALUES + 1
    assert "_OTHER" in models
