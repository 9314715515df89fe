"""The spans of a run: their names, their attributes, and their places in the one tree of the run.

The trace is that of the caller, whose span the root then stands below; of a caller without one it is the run that was
submitted, with every run below it. A span's id follows from its run and key; so processes that never talk to each other
about tracing record one tree. Prompts and payloads never become attributes: digests do, and the previews that the
execution log shows become events. `gen_ai.*` follows OpenTelemetry's conventions for generative AI, which are still in
development; what they have no name for is `towpath.*`.

    run ── submit (gateway)
     └── step ─┬─ chat (decider)
               ├─ tool call ─┬─ authorize (tool-access service)
               │             └─ execute_tool (worker)
               └─ invoke_agent ── run of a child ── step …

In a plan or workflow, plan steps stand in the place of steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from towpath_contracts import ids
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_contracts.runs.trace_context import RemoteSpan
from towpath_contracts.tools.calls import ToolInvocation, ToolOutcome, ToolRequest
from towpath_readings.model_responses import NO_RESPONSE, ModelResponse

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute | None]

RUN = "run"
"""The key of the root."""

PROVIDERS = {"gemini": "gcp.gemini", "openai": "openai", "anthropic": "anthropic"}
"""Model string prefixes whose provider has a name in the conventions; others are named for what they are."""

TOOL_TYPE = "function"
"""The type of every tool, by the conventions: code of yours, which a worker runs."""

OPENINFERENCE_KINDS = {"chat": "LLM", "execute_tool": "TOOL", "invoke_agent": "AGENT"}
"""By `gen_ai.operation.name`. Source: OpenInference's semantic conventions, https://github.com/Arize-ai/openinference."""

_OPENINFERENCE_NAMES = {
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something at one instant of a span."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A finished span; *parent* is the key of another span of the same run, or of *parent_run*.

    *trace* is the caller's trace, or else the run that a caller submitted where the span is of a run below it; *caller*
    is the parent in the caller's trace. Attributes that are None are left out.
    """

    key: str
    name: str
    parent: str | None = RUN
    start_ns: int
    end_ns: int
    kind: Literal["internal", "server", "client"] = "internal"
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[RemoteSpan, ...] = ()
    error: str | None = None
    trace: UUID | None = None
    parent_run: UUID | None = None
    caller: RemoteSpan | None = None


def step_key(step: int) -> str:
    """Return the key of a step."""
    return f"step:{step}"


def call_key(execution_id: UUID) -> str:
    """Return the key of a tool call, from its instruction to its outcome."""
    return f"call:{execution_id}"


def plan_step_key(index: int) -> str:
    """Return the key of a step of a plan, which counts from 0."""
    return f"plan:{index}"


def child_key(child_id: UUID) -> str:
    """Return the key of a child run in the run that started it; the child's root stands below it."""
    return f"child:{child_id}"


def decision_key(request: DecisionRequest) -> str:
    """Return the key of one attempt at a decision."""
    return f"decision:{request.request_id}:{request.attempt}"


def tool_key(invocation: ToolInvocation) -> str:
    """Return the key of one attempt at a call, in its worker."""
    return f"tool:{invocation.execution_id}:{invocation.attempt}"


def agent_id(network: str, agent_key: str) -> str:
    """Return what names one agent among all of a project: keys are unique within a network only."""
    return f"{network}/{agent_key}"


def nanoseconds(at: datetime) -> int:
    """Return *at* as OpenTelemetry counts: nanoseconds since 1970, exact to the microsecond."""
    seconds = int(at.timestamp())
    return (seconds * 1_000_000 + at.microsecond) * 1_000


def submit_span(
    *,
    network: str,
    start_ns: int,
    end_ns: int,
    caller: str,
    trace: UUID | None = None,
    links: Iterable[RemoteSpan] = (),
) -> Span:
    """The gateway took a task in. *trace* is that of the run; *links* lead to the caller's, where that is another."""
    return Span(
        key="submit",
        name=f"submit {network}",
        start_ns=start_ns,
        end_ns=end_ns,
        kind="server",
        attributes={"towpath.caller": caller},
        links=tuple(links),
        trace=trace,
    )


def decision_span(
    request: DecisionRequest,
    *,
    start_ns: int,
    end_ns: int,
    usage: Usage,
    cost: Cost,
    prompt_digest: str,
    raw_digest: str,
    response: ModelResponse = NO_RESPONSE,
    error: str | None = None,
) -> Span:
    """The decider answered a request, with all its attempts at the model; *error* is a stable code.

    *response* is what the provider said of its last answer.
    """
    model = request_model(request.model)
    return Span(
        key=decision_key(request),
        name=f"chat {model}",
        parent=step_key(request.step),
        start_ns=start_ns,
        end_ns=end_ns,
        kind="client",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(request.model),
            "gen_ai.request.model": model,
            **_request_attributes(request),
            "gen_ai.response.model": response.model or None,
            "gen_ai.response.id": response.response_id or None,
            "gen_ai.response.finish_reasons": (response.finish_reason,) if response.finish_reason else None,
            "gen_ai.conversation.id": str(request.run_id),
            "gen_ai.agent.name": request.context.agent_key,
            **usage_attributes(usage, cost),
            "towpath.request_id": str(request.request_id),
            "towpath.attempt": request.attempt,
            "towpath.decision.kind": request.kind.value,
            "towpath.prompt.digest": prompt_digest or None,
            "towpath.raw.digest": raw_digest or None,
            "error.type": error,
        },
        error=error,
        trace=request.trace_id or request.root_run_id,
    )


def authorization_span(
    request: ToolRequest,
    *,
    start_ns: int,
    end_ns: int,
    verdict: str,
    rule: str | None,
    policy_version: int,
    args_digest: str,
    violation: str = "",
) -> Span:
    """The tool-access service decided about a call; a refusal is an answer, not an error.

    *violation* is the denial's stable type; its text stays inside, since it may quote arguments.
    """
    return Span(
        key=f"authorization:{request.execution_id}:{request.attempt}",
        name=f"authorize {request.tool}",
        parent=call_key(request.execution_id),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={
            "gen_ai.tool.name": request.tool,
            "gen_ai.tool.type": TOOL_TYPE,
            "gen_ai.tool.call.id": str(request.execution_id),
            "gen_ai.conversation.id": str(request.run_id),
            "gen_ai.agent.name": request.agent_key,
            "gen_ai.agent.id": agent_id(request.network, request.agent_key),
            "towpath.verdict": verdict,
            "towpath.rule": rule,
            "towpath.policy.version": policy_version,
            "towpath.args.digest": args_digest,
            "towpath.violation": violation or None,
            "towpath.fence": request.fence,
        },
        trace=request.trace_id or request.root_run_id,
    )


def tool_span(
    invocation: ToolInvocation, outcome: ToolOutcome, *, start_ns: int, end_ns: int, agent_key: str = ""
) -> Span:
    """A worker ran a call, of the agent *agent_key*; the result is named by digest and size only."""
    failure = outcome.failure.code if outcome.failure is not None else None
    return Span(
        key=tool_key(invocation),
        name=f"execute_tool {invocation.tool}",
        parent=call_key(invocation.execution_id),
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": invocation.tool,
            "gen_ai.tool.type": TOOL_TYPE,
            "gen_ai.tool.call.id": str(invocation.execution_id),
            "gen_ai.conversation.id": str(invocation.run_id),
            "gen_ai.agent.name": agent_key or None,
            "towpath.attempt": invocation.attempt,
            "towpath.toolset": invocation.toolset,
            "towpath.effect_class": invocation.effect_class.value,
            "towpath.worker": outcome.worker,
            "towpath.call.status": outcome.status,
            "towpath.result.digest": outcome.result_digest,
            "towpath.result.bytes": outcome.result_bytes,
            "error.type": failure,
        },
        error=failure,
        trace=invocation.trace_id or invocation.root_run_id,
    )


def provider_name(model: str) -> str:
    """Return how the conventions name the provider of a model string."""
    provider = model.partition(":")[0]
    return PROVIDERS.get(provider, provider)


def request_model(model: str) -> str:
    """Return the part of a model string that its provider is asked for."""
    return model.partition(":")[2]


def _request_attributes(request: DecisionRequest) -> dict[str, Attribute | None]:
    settings = request.settings
    attributes: dict[str, Attribute | None] = {"gen_ai.request.max_tokens": request.max_output_tokens}
    if settings is not None:
        attributes |= {
            "gen_ai.request.temperature": settings.temperature,
            "gen_ai.request.top_p": settings.top_p,
            "gen_ai.request.seed": settings.seed,
        }
    return attributes


def usage_attributes(usage: Usage, cost: Cost) -> dict[str, Attribute | None]:
    """Return tokens and money as attributes; an unknown price is left out, never 0."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_tokens or None,
        "towpath.model_calls": usage.model_calls,
        "towpath.cost.usd": cost.usd,
    }


def span_id(run_id: UUID, key: str) -> int:
    """Return the id of the span with *key* in a run."""
    return ids.span_id(run_id, key)


def openinference_attributes(name: str, attributes: Attributes) -> dict[str, Attribute]:
    """Return the attributes that a span with *name* and *attributes* has besides by OpenInference's names.

    Prompts, answers and results are no attributes here either, so `input.value` and `output.value` are left out.
    """
    kind = _openinference_kind(name, attributes)
    found: dict[str, Attribute] = {"openinference.span.kind": kind}
    for theirs, ours in _OPENINFERENCE_NAMES.items():
        value = attributes.get(ours)
        if value is not None and (kind == "LLM" or not theirs.startswith("llm.")):
            found[theirs] = value
    if kind == "LLM":
        model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")
        if model is not None:
            found["llm.model_name"] = model
        prompt, completion = found.get("llm.token_count.prompt"), found.get("llm.token_count.completion")
        if isinstance(prompt, int) and isinstance(completion, int):
            found["llm.token_count.total"] = prompt + completion
    return found


def _openinference_kind(name: str, attributes: Attributes) -> str:
    """Return the kind; runs, steps and what stands between them are a CHAIN."""
    if "towpath.verdict" in attributes and name.startswith("authorize "):
        return "GUARDRAIL"
    return OPENINFERENCE_KINDS.get(str(attributes.get("gen_ai.operation.name")), "CHAIN")
