"""Loop detectors: equal calls in a row, equal errors in a row (design §5, feature B8, behaviours 002.2).

Law: signatures are canonical, so neither the order of keys nor the order of calls hides a loop; a detector fires on the
third equal signature; failures with an external cause do not count.
"""

import re

from towpath_contracts import events as ev
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions import ToolCall
from towpath_engine.change import but
from towpath_engine.state import Detectors, OpenCall

LOOP_THRESHOLD = 3
"""Equal signatures in a row that make a loop; fires on the third (design §5)."""

COMPARED_CHARS = 200
"""Of an error's text; what comes later is detail, and signatures are kept in the state."""

_CLASSES = (
    (
        "unknown_tool",
        r"\b(unknown|no such|unsupported|unregistered) (tool|operation|command|function|method|action)\b",
    ),
    ("permission", r"\b(permission|forbidden|unauthori[sz]ed|not authori[sz]ed|access denied|not allowed)\b"),
    ("timeout", r"\b(time[sd]? ?out|deadline exceeded)\b"),
    ("connection", r"\b(connection|unreachable|connect to|name resolution|broken pipe|reset by peer)\b"),
)
"""Classes of errors whose wording varies; an exact comparison missed "Unknown tool: X", then Y (behaviours 002.2)."""

_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASSES)

_CLASS_ALONE = frozenset({"tool_not_allowed", "route_not_allowed", "respond_not_allowed", "invalid_output"})
"""Refusals that are the same mistake whatever name they mention; others are compared by their text."""

_VOLATILE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def call_signature(calls: tuple[ToolCall, ...]) -> str:
    """Return the order-free signature of the calls of one decision."""
    texts = sorted(f"{call.tool}:{canonical_json(call.args)}" for call in calls)
    return digest_text("\n".join(texts))


def error_signature(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> str:
    """Return the normalised signature of a failure: its class, or its text without numbers, addresses, quoted names."""
    if isinstance(event, ev.ToolCallDenied):
        return f"denied:{event.denial.violation_type}"
    if event.failure is None:
        return event.status
    if event.failure.code != "tool_exception":
        return event.failure.code
    return f"{event.failure.code}:{_normalised(event.failure.message)}"


def _normalised(message: str) -> str:
    text = message[:COMPARED_CHARS]
    found = next((name for name, pattern in _PATTERNS if pattern.search(text)), None)
    return found or _VOLATILE.sub("#", text)


def after_calls(detectors: Detectors, calls: tuple[ToolCall, ...]) -> Detectors:
    """Count the calls of a decision."""
    signature = call_signature(calls)
    count = detectors.call_count + 1 if signature == detectors.call_signature else 1
    return but(detectors, call_signature=signature, call_count=count)


def after_step(detectors: Detectors, calls: tuple[OpenCall, ...]) -> Detectors:
    """Count the errors of a finished step; one success clears, external causes change nothing."""
    if any(not call.error_signature for call in calls):
        return but(detectors, error_signature="", error_count=0)
    if any(call.external for call in calls):
        return detectors
    return _after_error(detectors, "|".join(sorted({call.error_signature for call in calls})))


def after_refusal(detectors: Detectors, code: str, feedback: str) -> Detectors:
    """Count a refused decision like an error; a refused loop is counted by its own detector."""
    if code == "loop_detected":
        return detectors
    detail = "" if code in _CLASS_ALONE else f":{feedback[:COMPARED_CHARS]}"
    return _after_error(detectors, f"refused:{code}{detail}")


def _after_error(detectors: Detectors, signature: str) -> Detectors:
    count = detectors.error_count + 1 if signature == detectors.error_signature else 1
    return but(detectors, error_signature=signature, error_count=count)


def would_loop(detectors: Detectors, calls: tuple[ToolCall, ...]) -> bool:
    """Whether running *calls* now would be the third equal one in a row."""
    return after_calls(detectors, calls).call_count >= LOOP_THRESHOLD


def errors_loop(detectors: Detectors) -> bool:
    """Whether the last steps failed in the same way three times."""
    return detectors.error_count >= LOOP_THRESHOLD
