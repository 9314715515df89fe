"""What OpenInference calls a span, for receivers that show spans by its names, such as Phoenix.

Source: OpenInference's semantic conventions, https://github.com/Arize-ai/openinference. Only kinds, names and numbers:
prompts, answers and results are no attributes here either, so `input.value` and `output.value` are left out.
"""

from towpath_readings.spans import Attribute, Attributes

KINDS = {"chat": "LLM", "execute_tool": "TOOL", "invoke_agent": "AGENT"}
"""By `gen_ai.operation.name`."""

_SAME_VALUES = {
    "session.id": "gen_ai.conversation.id",
    "agent.name": "gen_ai.agent.name",
    "tool.name": "gen_ai.tool.name",
    "tool.id": "gen_ai.tool.call.id",
    "llm.provider": "gen_ai.provider.name",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt_details.cache_write": "gen_ai.usage.cache_write.input_tokens",
    "llm.cost.total": "towpath.cost.usd",
}
_LLM_ONLY = "llm."


def openinference_attributes(name: str, attributes: Attributes) -> dict[str, Attribute]:
    """Return the attributes that a span with *name* and *attributes* has besides by OpenInference's names."""
    kind = _kind(name, attributes)
    found: dict[str, Attribute] = {"openinference.span.kind": kind}
    for theirs, ours in _SAME_VALUES.items():
        value = attributes.get(ours)
        if value is not None and (kind == "LLM" or not theirs.startswith(_LLM_ONLY)):
            found[theirs] = value
    if kind == "LLM":
        model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")
        if model is not None:
            found["llm.model_name"] = model
        prompt, completion = found.get("llm.token_count.prompt"), found.get("llm.token_count.completion")
        if isinstance(prompt, int) and isinstance(completion, int):
            found["llm.token_count.total"] = prompt + completion
    return found


def _kind(name: str, attributes: Attributes) -> str:
    """Return the kind; runs, steps and what stands between them are a CHAIN."""
    if "towpath.verdict" in attributes and name.startswith("authorize "):
        return "GUARDRAIL"
    return KINDS.get(str(attributes.get("gen_ai.operation.name")), "CHAIN")
