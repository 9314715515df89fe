"""Loop detectors: equal calls in a row, equal errors in a row (design §5, feature B8, behaviours 002.2).

Law: signatures are canonical, so neither the order of keys nor the order of calls hides a loop; a detector fires on the
third equal signature; failures with an external cause do not count.
"""

import re
from dataclasses import replace

from towpath_contracts import events as ev
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.decisions import ToolCall
from towpath_engine.state import Detectors, OpenCall

LOOP_THRESHOLD = 3
"""Equal signatures in a row that make a loop; fires on the third (design §5)."""

_VOLATILE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def call_signature(calls: tuple[ToolCall, ...]) -> str:
    """Return the order-free signature of the calls of one decision."""
    texts = sorted(f"{call.tool}:{canonical_json(call.args)}" for call in calls)
    return digest_text("\n".join(texts))


def error_signature(event: "ev.ToolCallFinished | ev.ToolCallDenied") -> str:
    """Return the normalised signature of a failure: its class, without numbers, addresses and quoted names."""
    if isinstance(event, ev.ToolCallDenied):
        return f"denied:{event.denial.violation_type}"
    if event.failure is None:
        return event.status
    if event.failure.code != "tool_exception":
        return event.failure.code
    return f"{event.failure.code}:{_VOLATILE.sub('#', event.failure.message)[:200]}"


def after_calls(detectors: Detectors, calls: tuple[ToolCall, ...]) -> Detectors:
    """Count the calls of a decision."""
    signature = call_signature(calls)
    count = detectors.call_count + 1 if signature == detectors.call_signature else 1
    return replace(detectors, call_signature=signature, call_count=count)


def after_success_or_error(detectors: Detectors, calls: tuple[OpenCall, ...]) -> Detectors:
    """Count the errors of a finished step; one success clears, external causes change nothing."""
    if any(not call.error_signature for call in calls):
        return replace(detectors, error_signature="", error_count=0)
    if any(call.external for call in calls):
        return detectors
    signature = "|".join(sorted({call.error_signature for call in calls}))
    count = detectors.error_count + 1 if signature == detectors.error_signature else 1
    return replace(detectors, error_signature=signature, error_count=count)


def would_loop(detectors: Detectors, calls: tuple[ToolCall, ...]) -> bool:
    """Whether running *calls* now would be the third equal one in a row."""
    return after_calls(detectors, calls).call_count >= LOOP_THRESHOLD


def errors_loop(detectors: Detectors) -> bool:
    """Whether the last steps failed in the same way three times."""
    return detectors.error_count >= LOOP_THRESHOLD
