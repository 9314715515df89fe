"""What a model provider says of its answer beside the text: by which model, under which id, and why it ended.

Reasons are told in the words of OpenTelemetry's conventions for generative AI, whichever provider it was.
"""

from dataclasses import dataclass

MAX_DETAIL_CHARS = 128
"""Of each: it is a server's text, and stands in spans and labels."""

FINISH_REASONS = {
    "content_filter": "content_filter",
    "end_turn": "stop",
    "function_call": "tool_call",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "safety": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}
"""The words of OpenAI, Anthropic and Gemini; another one is told as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """Of one answer; what the provider does not say is empty."""

    model: str = ""
    response_id: str = ""
    finish_reason: str = ""


NO_RESPONSE = ModelResponse()
"""Nothing was answered, or nothing is said of it."""


def model_response(*, model: object, response_id: object, finish_reason: object) -> ModelResponse:
    """Return what a provider's SDK says, which may be of any type: a server may have sent anything."""
    reason = _text(finish_reason).lower()
    return ModelResponse(
        model=_text(model), response_id=_text(response_id), finish_reason=FINISH_REASONS.get(reason, reason)
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        return ""
    return value[:MAX_DETAIL_CHARS]
