"""Is what the platform's tables say now what the log recorded? Ledger, approvals, policies and registered tools.

A bundle has a `stored` line for an entry that recorded something which a table keeps: digests made from the stored
texts when it was exported, and short fields. Only what never changes after the entry is compared, so that a later
change of the same row, which has an entry of its own, is no fault.
"""

import json
from typing import Any

from towpath_audit.entries import AuditLogEntry, ErasablePayload

ENDED = frozenset({"succeeded", "failed", "void"})
"""Verdicts of outcomes after which a call's row does not change any more."""

SETTLED_CODE = "did_not_happen"
"""The code of a failure that a person stated."""

STATUS_AFTER_VOTE = {
    "approval.approved": ("approved", "consumed", "void", "expired"),
    "approval.denied": ("denied", "void"),
    "approval.consumed": ("consumed", "void"),
}
"""What an approval may be after an entry, by phase. A used one is void where its call was held and has changed."""

Recorded = dict[str, tuple[Any, ...]]


def differences(entry: AuditLogEntry, payload: ErasablePayload | None, found: Any) -> list[str]:
    """Return the names of what is stored otherwise than *entry* recorded it; `row` if nothing is stored."""
    if not isinstance(found, dict):
        return ["row"]
    recorded = _recorded(entry, payload)
    return [name for name, values in recorded.items() if name in found and found[name] not in values]


def _recorded(entry: AuditLogEntry, payload: ErasablePayload | None) -> Recorded:
    """Return the values that each stored field may have, as far as *entry* tells."""
    detail = _detail(payload)
    if entry.phase == "policy.applied":
        return _only_given(
            {"digest": detail.get("digest"), "text_digest": detail.get("digest"), "source": detail.get("source")}
            | {"note": detail.get("note"), "rules_digest": detail.get("rules_digest"), "applied_by": entry.actor}
        )
    if entry.phase.startswith("tool."):
        return _of_tool(entry, detail)
    recorded: Recorded = {"args_fit": (True,)}
    for name in ("project", "network", "agent_key", "caller", "tool", "operation"):
        recorded[name] = (getattr(entry, name),)
    if entry.phase == "outcome" and entry.verdict in ENDED:
        recorded["told_status"] = (entry.verdict,)
        recorded |= {"status": (entry.verdict,), "rule": (entry.rule,), "policy_version": (entry.policy_version,)}
        recorded |= _only_given({name: detail.get(name) for name in ("result_digest", "tool_version", "told_digest")})
        if payload is not None and entry.verdict != "void":
            reported = "attempt" in detail or "was" in detail  # by a worker, or by the run itself
            stated = detail.get("code") == SETTLED_CODE and not reported
            recorded |= {"settled_by": (entry.actor if stated else "",), "told_code": (detail.get("code"),)}
    elif (entry.phase, entry.verdict) == ("settled", "happened"):
        recorded |= {"status": ("succeeded",), "told_status": ("succeeded",), "settled_by": (entry.actor,)}
        recorded |= {"rule": (entry.rule,), "policy_version": (entry.policy_version,)}
        recorded |= _only_given({"told_digest": detail.get("told_digest")})
    elif _denies(entry):
        recorded |= {"status": ("denied",), "told_status": ("denied",)}
        recorded |= {"rule": (entry.rule,), "policy_version": (entry.policy_version,)}
        recorded |= _only_given({"told_digest": detail.get("told_digest")})
    return recorded | _of_arguments(entry, payload) | _of_approval(entry, detail)


def _denies(entry: AuditLogEntry) -> bool:
    """Return whether *entry* ends its call by a denial."""
    return entry.verdict == "deny" and entry.phase in {"decision", "approval.expired"}


def _of_arguments(entry: AuditLogEntry, payload: ErasablePayload | None) -> Recorded:
    if payload is None:
        return {}
    fields = {
        "outcome": ("args_digest",),
        "approval.consumed": ("approval_args",),  # a call that was held may be edited afterwards
        "decision": ("decided_args", "approval_args"),
    }
    names = fields.get(entry.phase, ())
    if _denies(entry):
        names = (*names, "args_digest")  # nothing edits it any more
    return dict.fromkeys(names, (payload.args_digest,))


def _of_approval(entry: AuditLogEntry, detail: dict[str, Any]) -> Recorded:
    if "approval_id" not in detail:
        return {}
    recorded: Recorded = {
        "approval_run": (entry.run_id,),
        "approval_call": (entry.execution_id,),
        "approval_project": (entry.project,),
        "requested_by": (entry.caller,),
    }
    recorded |= _only_given(
        {"approval_digest": detail.get("digest"), "bound_digest": detail.get("digest"), "role": detail.get("role")}
        | {"quorum": detail.get("quorum"), "revisions": detail.get("revision")}
        | {"approval_edited_by": detail.get("edited_by")}
    )
    # An edit that a person has to look at is nobody's vote.
    by_hand = entry.phase == "approval.edited" and str(detail.get("votes", "")).startswith("0 ")
    if entry.phase in {"approval.vote", "approval.approved", "approval.denied", "approval.edited"} and not by_hand:
        recorded["vote"] = ([entry.verdict, detail.get("reason"), detail.get("digest"), detail.get("by_key")],)
    if entry.phase in STATUS_AFTER_VOTE:
        recorded["approval_status"] = STATUS_AFTER_VOTE[entry.phase]
        recorded |= _only_given(
            {"decided_by": detail.get("decided_by", detail.get("approved_by")), "decided_reason": detail.get("reason")}
        )
    return recorded


def _of_tool(entry: AuditLogEntry, detail: dict[str, Any]) -> Recorded:
    if entry.phase in {"tool.registered", "tool.proposed"}:
        recorded = _only_given(
            {"digest": detail.get("digest"), "spec_digest": detail.get("digest"), "owner": detail.get("owner")}
        )
        recorded |= {"worker": (entry.actor,), "toolset_fits": (True,)}
        if entry.phase == "tool.registered":
            recorded |= {"status": (entry.verdict,)} | _only_given({"reason": detail.get("reason")})
        return recorded
    return {"status": (entry.verdict,), "decided_by": (entry.actor,), "reason": (detail.get("reason"),)}


def _only_given(values: dict[str, Any]) -> Recorded:
    return {name: (value,) for name, value in values.items() if value is not None}


def _detail(payload: ErasablePayload | None) -> dict[str, Any]:
    try:
        found = {} if payload is None else json.loads(payload.detail)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
