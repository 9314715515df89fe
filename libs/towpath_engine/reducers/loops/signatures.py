"""Signatures: what counts as the same call, error, result or handoff.

Signatures are canonical, so neither the order of keys nor the order of calls hides a loop. Details that vary by
themselves (numbers in errors, how long a search took) do not make two things different. They are short, because the
state keeps them.
"""

import re
from typing import Any

from towpath_contracts.canonical import canonical_json, digest, digest_text
from towpath_contracts.decisions.decision import ToolCall
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import Denial
from towpath_engine.state.run import StepCall

COMPARED_CHARS = 200
"""Of an error's text; what comes later is detail, and signatures are kept in the state."""

SHORT = slice(len("sha256:"), len("sha256:") + 16)
"""Of a digest: 64 bits tell the few steps of one run apart."""

_CLASSES = (
    (
        "unknown_tool",
        r"\b(unknown|no such|unsupported|unregistered) (tool|operation|command|function|method|action)\b",
    ),
    ("permission", r"\b(permission|forbidden|unauthori[sz]ed|not authori[sz]ed|access denied|not allowed)\b"),
    ("timeout", r"\b(time[sd]? ?out|deadline exceeded)\b"),
    ("connection", r"\b(connection|unreachable|connect to|name resolution|broken pipe|reset by peer)\b"),
)
"""Classes of errors whose wording varies; an exact comparison missed "Unknown tool: X", then Y."""

_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASSES)

REFUSED = "refused:"
"""How the signature of a refused decision begins; its code comes next."""

_CLASS_ALONE = frozenset({"tool_not_allowed", "route_not_allowed", "respond_not_allowed", "invalid_output"})
"""Refusals that are the same mistake whatever name they mention; others are compared by their text."""

_CODE_SAYS_ALL = frozenset(
    {"invalid_arguments", "arguments_invalid", "secret_missing", "content_missing", "ticket_expired"}
    | {"tool_timeout", "timeout", "not_started", "outcome_unknown", "cancelled"}
)
"""Codes of the platform's own, each for one mistake. Those of a tool's author may stand for many."""

_VOLATILE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)

_VOLATILE_NAMES = frozenset(
    {"took", "took_ms", "duration", "duration_ms", "elapsed", "elapsed_ms", "latency_ms", "timestamp"}
    | {"request_id", "trace_id", "correlation_id", "generated_at", "fetched_at", "retrieved_at"}
)
"""Fields of a result that hold when it was made, and not what it is."""


def call_signature(calls: tuple[ToolCall, ...]) -> str:
    """Return the order-free signature of the calls of one decision."""
    texts = sorted(f"{call.tool}:{canonical_json(call.args)}" for call in calls)
    return digest_text("\n".join(texts))


def error_signature(event: ev.ToolCallFinished | ev.ToolCallDenied) -> str:
    """Return the normalised signature of a failure: its code, and its class or its text without varying details."""
    if isinstance(event, ev.ToolCallDenied):
        return _denial_signature(event.denial)
    if event.failure is None:
        return event.status
    if event.failure.code in _CODE_SAYS_ALL:
        return event.failure.code
    return f"{event.failure.code}:{_normalised(event.failure.message)}"


def _denial_signature(denial: Denial) -> str:
    """Return kind, tool and rule of a denial: whoever makes an agent try several forbidden things has made no loop.

    One that does not name its tool is of an earlier release, whose runs counted by kind alone: replays stay the same.
    """
    if not denial.tool:
        return f"denied:{denial.violation_type}"
    return f"denied:{denial.violation_type}:{denial.tool}:{denial.rule or ''}".removesuffix(":")


def denied_calls(calls: tuple[StepCall, ...]) -> tuple[str, ...]:
    """Return what was denied in a step and by which rules; nothing where a call failed in another way.

    Nor where a denial does not name its tool: see `_denial_signature`.
    """
    if not all(is_plain_denial(call) for call in calls):
        return ()
    texts = {f"{call.error_signature}\n{canonical_json(call.call.args)}" for call in calls}
    return tuple(sorted(digest_text(text)[SHORT] for text in texts))


def is_plain_denial(call: StepCall) -> bool:
    """Return whether *call* was denied, and its denial names its tool, as those of earlier releases don't."""
    return call.status == "denied" and isinstance(call.result, dict) and bool(call.result.get("tool"))


def _normalised(message: str) -> str:
    text = message[:COMPARED_CHARS]
    found = next((name for name, pattern in _PATTERNS if pattern.search(text)), None)
    return found or _VOLATILE.sub("#", text)


def refusal_signature(code: str, feedback: str) -> str:
    """Return the signature of a refused decision."""
    detail = "" if code in _CLASS_ALONE else f":{feedback[:COMPARED_CHARS]}"
    return f"{REFUSED}{code}{detail}"


def errors_of(calls: tuple[StepCall, ...]) -> str:
    """Return the order-free signature of the failures of a step."""
    return "|".join(sorted({call.error_signature for call in calls}))


def result_signature(call: StepCall) -> str:
    """Return what a successful call answered, but for the fields that hold when it was made."""
    result = call.result
    if isinstance(result, dict) and not _VOLATILE_NAMES.isdisjoint(result):
        lasting = {name: value for name, value in result.items() if name not in _VOLATILE_NAMES}
        return digest(lasting or result)[SHORT]
    return (call.result_digest or digest(result))[SHORT]


def step_signature(calls: tuple[StepCall, ...]) -> str:
    """Return what a step did and what came of it; of a step that failed, only how, and of one that was denied, what."""
    if all(call.error_signature for call in calls):
        return "e:" + digest_text("|".join(denied_calls(calls)) or errors_of(calls))[SHORT]
    parts = sorted(
        f"{c.call.tool}:{canonical_json(c.call.args)}:{c.error_signature or result_signature(c)}" for c in calls
    )
    return "c:" + digest_text("\n".join(parts))[SHORT]


def handoff_signature(source: str, target: str, context: Any) -> str:
    """Return the signature of one agent handing the run to another, with its message."""
    return "r:" + digest_text(f"{source}>{target}:{canonical_json(context)}")[SHORT]


def weight(value: Any, enough: int) -> int:
    """Count the characters of texts and numbers in *value*, up to about *enough*: "ok" and [] hold little."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        total = 0
        for item in value:
            total += weight(item, enough - total)
            if total >= enough:
                break
        return total
    if value is None or isinstance(value, bool) or value == 0:
        return 0
    return len(value) if isinstance(value, str) else len(str(value))
