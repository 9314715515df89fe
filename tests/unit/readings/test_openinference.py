"""OpenInference's names of a span, held against the package that publishes them."""

import pytest
from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes

from towpath_readings.spans import Attributes, openinference_attributes

THEIRS = {value for name, value in vars(SpanAttributes).items() if name.isupper()}
CHAT: Attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "gcp.gemini",
    "gen_ai.request.model": "gemini-3-flash",
    "gen_ai.response.model": "gemini-3-flash-001",
    "gen_ai.conversation.id": "r1",
    "gen_ai.agent.name": "billing",
    "gen_ai.usage.input_tokens": 40,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": None,
    "towpath.cost.usd": 0.25,
}
TOOL: Attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "orders.refund",
    "gen_ai.tool.call.id": "c1",
    "gen_ai.conversation.id": "r1",
}
RUN: Attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.usage.input_tokens": 40, "towpath.cost.usd": 1.0}


def test_a_model_call_has_its_model_and_its_numbers() -> None:
    assert openinference_attributes("chat gemini-3-flash", CHAT) == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.LLM.value,
        SpanAttributes.SESSION_ID: "r1",
        SpanAttributes.AGENT_NAME: "billing",
        SpanAttributes.LLM_PROVIDER: "gcp.gemini",
        SpanAttributes.LLM_MODEL_NAME: "gemini-3-flash-001",
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 40,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 2,
        SpanAttributes.LLM_TOKEN_COUNT_TOTAL: 42,
        SpanAttributes.LLM_COST_TOTAL: 0.25,
    }


def test_a_tool_call_has_its_tool() -> None:
    assert openinference_attributes("execute_tool orders.refund", TOOL) == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.TOOL.value,
        SpanAttributes.SESSION_ID: "r1",
        SpanAttributes.TOOL_NAME: "orders.refund",
        SpanAttributes.TOOL_ID: "c1",
    }


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        ("invoke_workflow support", RUN, "CHAIN"),
        ("step billing", {}, "CHAIN"),
        ("submit support", {}, "CHAIN"),
        ("invoke_agent billing", {"gen_ai.operation.name": "invoke_agent"}, "AGENT"),
        ("authorize orders.refund", {"towpath.verdict": "deny"}, "GUARDRAIL"),
    ],
)
def test_every_other_span_has_a_kind_and_counts_no_tokens_twice(name: str, attributes: Attributes, kind: str) -> None:
    found = openinference_attributes(name, attributes)
    assert found == {"openinference.span.kind": OpenInferenceSpanKindValues(kind).value}


def test_each_name_is_one_of_theirs() -> None:
    found = openinference_attributes("chat m", CHAT) | openinference_attributes("execute_tool t", TOOL)
    cached = openinference_attributes(
        "chat m",
        {**CHAT, "gen_ai.usage.cache_read.input_tokens": 1, "gen_ai.usage.cache_write.input_tokens": 1},
    )
    assert {*found, *cached} <= THEIRS
