"""What an approval is bound to, and what changed since it was asked for.

The digest covers every bound field, and the arguments by their own digest. Changes are listed as before → after,
arguments field by field, with limits: a person reads them, and arguments may be huge.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json, digest
from towpath_contracts.facts import ChangedApprovalField
from towpath_tas.core.authorization import AuthorizationDecision
from towpath_tas.core.call import LedgerCall

MAX_CHANGES = 50
"""Changes that are listed; the rest is counted."""

MAX_VALUE_CHARS = 400
"""Of a longer value only the beginning is shown; the approvals have both values."""

_MISSING = object()


def binding(call: LedgerCall, decision: AuthorizationDecision) -> JsonObject:
    """Return everything that an approval of *call* is bound to."""
    return {
        "tool": call.tool,
        "args_digest": call.args_digest,
        "tool_version": decision.tool.digest if decision.tool else "",
        "rules": [list(pair) for pair in decision.basis],
        "agent": call.agent_key,
        "snapshot": call.snapshot_digest,
    }


def binding_digest(bound: Mapping[str, Any]) -> str:
    return digest(bound)


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], args: tuple[str, str]
) -> tuple[ChangedApprovalField, ...]:
    """Return what differs between two bindings; *args* are the arguments of both as JSON, empty where unknown."""
    found = list(_changed(before, after, args))
    if len(found) > MAX_CHANGES:
        found = [*found[:MAX_CHANGES], ChangedApprovalField(field=f"and {len(found) - MAX_CHANGES} more")]
    return tuple(found)


def format_change(change: ChangedApprovalField) -> str:
    """Return one change on one line: `arguments.amount: 500 → 50`."""
    if change.before is None and change.after is None:
        return change.field
    return f"{change.field}: {_format_value(change.before)} → {_format_value(change.after)}"


def _changed(
    before: Mapping[str, Any], after: Mapping[str, Any], args: tuple[str, str]
) -> Iterator[ChangedApprovalField]:
    for name in ("tool", "agent", "snapshot", "tool_version"):
        if before.get(name) != after.get(name):
            yield ChangedApprovalField(field=name, before=before.get(name), after=after.get(name))
    if before.get("args_digest") != after.get("args_digest"):
        yield from _arguments(before, after, args)
    yield from _rules(before.get("rules") or [], after.get("rules") or [])


def _arguments(
    before: Mapping[str, Any], after: Mapping[str, Any], args: tuple[str, str]
) -> Iterator[ChangedApprovalField]:
    old, new = (json.loads(text) if text else _MISSING for text in args)
    if old is _MISSING or new is _MISSING or old == new:
        yield ChangedApprovalField(field="arguments", before=before.get("args_digest"), after=after.get("args_digest"))
        return
    yield from _differing("arguments", old, new)


def _differing(place: str, old: Any, new: Any) -> Iterator[ChangedApprovalField]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in (*old, *(name for name in new if name not in old)):
            yield from _differing(f"{place}.{name}", old.get(name, _MISSING), new.get(name, _MISSING))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _differing(f"{place}.{number}", *pair)
    elif type(old) is not type(new) or old != new:
        yield ChangedApprovalField(field=place, before=_shown(old), after=_shown(new))


def _rules(before: list[Any], after: list[Any]) -> Iterator[ChangedApprovalField]:
    old, new = ({str(name): rule_digest for name, rule_digest in rules} for rules in (before, after))
    for name in (*old, *(name for name in new if name not in old)):
        if old.get(name) != new.get(name):
            yield ChangedApprovalField(field=f"rules.{name}", before=old.get(name), after=new.get(name))


def _shown(value: Any) -> Any:
    if value is _MISSING:
        return None
    text = canonical_json(value)
    return value if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _format_value(value: Any) -> str:
    """Format a value; of a digest only the beginning: nobody compares 64 characters by eye."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"{value[:19]}…" if value.startswith("sha256:") and len(value) > 20 else value
    return canonical_json(value)
